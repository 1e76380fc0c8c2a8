/*
 * Why an allocator is called: to be asked inside Malloc, MallocAdvise and Free of a ge::Allocator, and inside the
 * functions of an aclrtAllocatorDesc. Cairn only; a program that also runs elsewhere looks the function up with dlsym, or
 * declares it weak.
 */
#ifndef CAIRN_REASON_H
#define CAIRN_REASON_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What memory is for. */
typedef enum {
    CAIRN_CLASS_CONST = 1,        /**< constants, while a graph is loaded */
    CAIRN_CLASS_FEATURE = 2,      /**< intermediates and workspaces of a static graph */
    CAIRN_CLASS_FIXED = 3,        /**< what a static graph computes once, when it is loaded */
    CAIRN_CLASS_INTERMEDIATE = 4, /**< an intermediate of a dynamic graph */
    CAIRN_CLASS_WORKSPACE = 5,    /**< scratch memory of one operator */
    CAIRN_CLASS_OUTPUT = 6,       /**< an output that the caller left empty */
    CAIRN_CLASS_HOST_INPUT = 7,   /**< the copy of an input that lies on the host */
} cairnAllocationClass;

/** Why memory is asked for. */
typedef struct {
    cairnAllocationClass memoryClass; /**< what it is for */
    uint32_t graphId;                 /**< the graph's id in its session; UINT32_MAX for a single operator */
    const char *operatorName;         /**< the operator, where it is for one; else null. Lives for ever */
} cairnAllocationReason;

/** Fills `reason` and gives true inside a call that Cairn makes for memory; else gives false. */
bool cairnGetAllocationReason(cairnAllocationReason *reason);

#ifdef __cplusplus
}
#endif

#endif
