/* A memory pool of aclrtMemPool*, for the programs of this folder. */
#ifndef CAIRN_TESTS_CHECK_MEM_POOL_H
#define CAIRN_TESTS_CHECK_MEM_POOL_H

#include "program.h"
#include <acl/acl_rt_memory_soma.h>

static inline aclrtMemPool new_pool(void)
{
    aclrtMemPool pool;
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    MUST(aclrtMemPoolCreate(&pool, &props));
    return pool;
}

static inline void *pool_block(aclrtMemPool pool, size_t bytes, aclrtStream stream)
{
    void *block;
    MUST(aclrtMemPoolMallocAsync(&block, bytes, pool, stream));
    return block;
}

#endif
