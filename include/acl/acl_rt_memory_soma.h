/*
 * Stream-ordered memory: a pool gives a block for use on one stream, at once and without
 * waiting, and takes it back in the order of a stream. The same stream may have a freed block again
 * right away; another stream when the work before the free is done, or ordered before it by an event.
 */
#ifndef INC_EXTERNAL_ACL_RT_MEMORY_H_
#define INC_EXTERNAL_ACL_RT_MEMORY_H_

#include <stddef.h>
#include <stdint.h>
#include "acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pool. */
typedef void *aclrtMemPool;

/** What can be asked of a pool, and what of it can be set. The type of the value stands with each. */
typedef enum aclrtMemPoolAttr {
    /** uint32_t, 0 or 1, at first 1: a stream may have memory that an event ordered before it. */
    ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 0x1,
    /** uint32_t, 0 or 1, at first 1: kept, without effect. Memory that is done with serves any stream. */
    ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 0x2,
    /** uint32_t, 0 or 1, at first 0: kept, without effect. No stream is made to wait for another. */
    ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 0x3,
    /** uint64_t, at first 0: free memory above this many bytes goes back when a stream is synchronized. */
    ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 0x4,
    /** uint64_t, read only: bytes that the pool has from its device. */
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 0x5,
    /** uint64_t: the most of that. Takes 0, and begins anew with what is reserved then. */
    ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 0x6,
    /** uint64_t, read only: bytes in blocks that are out, each a multiple of 512. */
    ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 0x7,
    /** uint64_t: the most of that. Takes 0, and begins anew with what is used then. */
    ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 0x8
} aclrtMemPoolAttr;

/** What a new pool is to be. */
typedef struct {
    /** ACL_MEM_ALLOCATION_TYPE_PINNED. */
    aclrtMemAllocationType allocType;
    /** ACL_MEM_HANDLE_TYPE_NONE or ACL_MEM_HANDLE_TYPE_POSIX; a pool is not shared with others. */
    aclrtMemHandleType handleType;
    /** Of type ACL_MEM_LOCATION_TYPE_DEVICE: a device that is set. */
    aclrtMemLocation location;
    /** The most bytes that it takes from the device, in steps of 2 MiB; 0 for no limit of its own. */
    size_t maxSize;
    /** 0. */
    unsigned char reserved[32];
} aclrtMemPoolProps;

/** Makes a pool. It takes memory from its device as blocks need it. */
aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps);

/**
 * Destroys a pool. Does not wait: blocks in use stay valid until they are freed, and the pool
 * ends with the last of them. The reset of its device ends a pool with all its blocks.
 */
aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);

/** Sets an attribute from a value of its type. */
aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

/** Writes an attribute to a value of its type. */
aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);

/**
 * Takes a block of at least `size` bytes for use on a stream; NULL is the default stream. Waits only
 * when nothing else is left: for work that still uses freed memory.
 */
aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);

/** Gives a block back to its pool, after what was queued on the stream and on the block's own. */
aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);

/** Gives free memory back to the device until the pool has at most `minBytesToKeep` bytes from it. */
aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

#ifdef __cplusplus
}
#endif

#endif
