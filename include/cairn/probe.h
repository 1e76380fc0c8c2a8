/*
 * Not part of CANN. A small executor for tests of allocators: it takes blocks as an operator would,
 * queues tasks that write them, and gives them back, all inside one asynchronous call.
 */
#ifndef CAIRN_PROBE_H
#define CAIRN_PROBE_H

#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One block: the fields up to `copyTo` are the request, the others the result. */
typedef struct CairnProbeBlock {
    /** Bytes of a tensor, which is padded as CANN pads tensors; or of a workspace, taken as they are. */
    size_t bytes;
    /** 0 for a tensor, 1 for a workspace. */
    uint32_t isWorkspace;
    /** What every byte asked for is set to, in stream order. */
    uint32_t value;
    /** The preferred address; NULL for any. */
    void *near;
    /** Device memory that gets a copy of the first `bytes` bytes, in stream order; NULL for none. */
    void *copyTo;

    /** Where the block is; NULL when nothing was taken. */
    void *address;
    /** Bytes that were asked of the allocator; 0 when it was not asked. */
    size_t asked;
} CairnProbeBlock;

/** What one execution does. */
typedef struct CairnProbe {
    /** The blocks, all taken before the first task is queued. */
    CairnProbeBlock *blocks;
    /** How many. */
    size_t count;
    /** 0: the blocks go back before the call returns. 1: `kept` keeps them. */
    uint32_t keep;
    /** What cairnProbeGiveBack takes; NULL when nothing was kept. */
    void *kept;
} CairnProbe;

/**
 * Runs a probe on a stream, with the allocator that is registered on it, else with memory of the
 * device. When a block cannot be had, those that were taken go back and nothing is queued.
 */
aclError cairnProbeExecute(aclrtStream stream, CairnProbe *probe);

/** Whose registration counts. */
typedef enum {
    CAIRN_PROBE_ACL = 0, /**< aclrtAllocatorRegister */
    CAIRN_PROBE_GE = 1,  /**< RegisterExternalAllocator */
} CairnProbeDomain;

/**
 * Takes one block for work on a stream from the allocator that is registered there, and queues nothing. `near` is
 * the preferred address, NULL for any. Fails if none is registered, and with what the engine has against the block.
 * Give `*kept` to cairnProbeGiveBack.
 */
aclError cairnProbeTake(aclrtStream stream, CairnProbeDomain domain, size_t bytes, void *near, void **address, void **kept);

/** Gives back, on the calling thread, what a probe kept. */
aclError cairnProbeGiveBack(void *kept);

#ifdef __cplusplus
}
#endif

#endif
