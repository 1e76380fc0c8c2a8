/*
 * Marks of a program for tools: moments, ranges of time, and which part of its memory it uses for what. `cairn record`
 * writes them down; pictures and summaries show them. They change nothing in how a program runs.
 */
#ifndef INC_EXTERNAL_MS_TOOLS_EXT_H_
#define INC_EXTERNAL_MS_TOOLS_EXT_H_

#include <stddef.h>
#include <stdint.h>
#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** No range. */
#define MSTX_INVALID_ID 0

/** A range of time. */
typedef uint64_t mstxRangeId;

/** A group of marks with a name. */
typedef struct mstxDomainRegistration_st mstxDomainRegistration_t;
typedef mstxDomainRegistration_t *mstxDomainHandle_t;

/** Memory that the program hands out in parts. */
typedef struct mstxMemHeap_st mstxMemHeap_t;
typedef mstxMemHeap_t *mstxMemHeapHandle_t;

/** A part of a heap. */
typedef struct mstxMemRegion_st mstxMemRegion_t;
typedef mstxMemRegion_t *mstxMemRegionHandle_t;

/** A range of addresses of a device. */
typedef struct mstxMemVirtualRangeDesc_t {
    uint32_t deviceId;
    const void *ptr;
    uint64_t size;
} mstxMemVirtualRangeDesc_t;

/** How a heap is used: the program hands out parts of it. */
typedef enum mstxMemHeapUsageType {
    MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0
} mstxMemHeapUsageType;

/** How memory is named: by a mstxMemVirtualRangeDesc_t. */
typedef enum mstxMemType {
    MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0
} mstxMemType;

/** A heap. */
typedef struct mstxMemHeapDesc_t {
    mstxMemHeapUsageType usage;
    mstxMemType type;
    /** A mstxMemVirtualRangeDesc_t. */
    const void *typeSpecificDesc;
} mstxMemHeapDesc_t;

/** Regions that are registered together. */
typedef struct mstxMemRegionsRegisterBatch_t {
    mstxMemHeapHandle_t heap;
    mstxMemType regionType;
    size_t regionCount;
    /** That many mstxMemVirtualRangeDesc_t. */
    const void *regionDescArray;
    /** Never written, because some programs leave this field unset: name a region by its pointer when it ends. */
    mstxMemRegionHandle_t *regionHandleArrayOut;
} mstxMemRegionsRegisterBatch_t;

/** How a region is named when it ends. */
typedef enum mstxMemRegionRefType {
    MSTX_MEM_REGION_REF_TYPE_POINTER = 0,
    MSTX_MEM_REGION_REF_TYPE_HANDLE
} mstxMemRegionRefType;

/** A region. */
typedef struct mstxMemRegionRef_t {
    mstxMemRegionRefType refType;
    __extension__ union {
        const void *pointer;
        mstxMemRegionHandle_t handle;
    };
} mstxMemRegionRef_t;

/** Regions that end together. */
typedef struct mstxMemRegionsUnregisterBatch_t {
    size_t refCount;
    const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

/** Marks this moment. The stream may be null. */
void mstxMarkA(const char *message, aclrtStream stream);

/** Begins a range; MSTX_INVALID_ID if there is no message. */
mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream);

/** Ends a range, on any thread. */
void mstxRangeEnd(mstxRangeId id);

/** The domain of a name: the same one for the same name. Null for a null name. */
mstxDomainHandle_t mstxDomainCreateA(const char *name);

/** Says that a domain is no longer used. */
void mstxDomainDestroy(mstxDomainHandle_t handle);

/** As mstxMarkA, of a domain. */
void mstxDomainMarkA(mstxDomainHandle_t handle, const char *message, aclrtStream stream);

/** As mstxRangeStartA, of a domain. */
mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t handle, const char *message, aclrtStream stream);

/** As mstxRangeEnd, of a domain. */
void mstxDomainRangeEnd(mstxDomainHandle_t handle, mstxRangeId id);

/** Says that the program hands out parts of this memory. */
mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc);

/** Ends that. */
void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap);

/** Says that the program begins to use these parts of its memory. */
void mstxMemRegionsRegister(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc);

/** Says that it ceases to. */
void mstxMemRegionsUnregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc);

#ifdef __cplusplus
}
#endif

#endif
