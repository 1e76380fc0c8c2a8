/* Pools for the programs mem_pool_*.c. */
#ifndef CAIRN_TESTS_MEM_POOL_H
#define CAIRN_TESTS_MEM_POOL_H

#include "gate.h"
#include "acl/acl_rt_memory_soma.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

__attribute__((unused)) static aclrtMemPoolProps pool_props(uint32_t device, size_t max_size)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    props.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    props.location.id = device;
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = max_size;
    return props;
}

__attribute__((unused)) static aclrtMemPool make_pool(uint32_t device, size_t max_size)
{
    aclrtMemPoolProps props = pool_props(device, max_size);
    aclrtMemPool pool = NULL;
    CHECK_OK(aclrtMemPoolCreate(&pool, &props));
    return pool;
}

__attribute__((unused)) static uint64_t pool_attr(aclrtMemPool pool, aclrtMemPoolAttr attribute)
{
    uint64_t value = 0xabababababababab;
    CHECK_OK(aclrtMemPoolGetAttr(pool, attribute, &value));
    return value;
}

__attribute__((unused)) static void set_release_threshold(aclrtMemPool pool, uint64_t bytes)
{
    CHECK_OK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

__attribute__((unused)) static uint64_t reserved(aclrtMemPool pool)
{
    return pool_attr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
}

__attribute__((unused)) static uint64_t used(aclrtMemPool pool)
{
    return pool_attr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
}

/* A block, or NULL after a failed check. */
__attribute__((unused)) static void *pool_malloc(aclrtMemPool pool, size_t size, aclrtStream stream)
{
    void *block = NULL;
    CHECK_OK(aclrtMemPoolMallocAsync(&block, size, pool, stream));
    return block;
}

/* What the current device has free. */
__attribute__((unused)) static size_t free_bytes(void)
{
    size_t available = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    return available;
}

#endif
