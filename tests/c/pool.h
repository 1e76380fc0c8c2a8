/*
 * A user's memory pool, for tests of allocators: blocks are carved from one range of device
 * memory, and every call is counted. Not thread safe, on purpose: `overlaps` counts the calls that
 * began while another one had not returned.
 */
#ifndef CAIRN_TESTS_POOL_H
#define CAIRN_TESTS_POOL_H

#include "gate.h"
#include "cairn/probe.h"

enum { POOL_SLOT = 4096, POOL_SLOTS = 256, POOL_BYTES = POOL_SLOT * POOL_SLOTS };

typedef struct Pool Pool;

typedef struct PoolBlock {
    Pool *pool;
    char *address;
    size_t slots;
    int is_out;
    int address_calls;
} PoolBlock;

struct Pool {
    char *base;
    char taken[POOL_SLOTS];
    /* Calls of each kind; `out` is the number of blocks not yet freed, `entered` that of calls now in the pool. */
    int allocs, advises, nulls, addresses, frees, out, entered, overlaps;
    size_t last_size;
    void *last_advice;
    /* Called inside alloc and free, before they do their work; may call the pool again. */
    void (*in_alloc)(Pool *);
    void (*in_free)(Pool *);
    PoolBlock blocks[POOL_SLOTS];
};

__attribute__((unused)) static void pool_enter(Pool *pool)
{
    if (__atomic_add_fetch(&pool->entered, 1, __ATOMIC_SEQ_CST) != 1)
        __atomic_add_fetch(&pool->overlaps, 1, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static void pool_leave(Pool *pool)
{
    __atomic_sub_fetch(&pool->entered, 1, __ATOMIC_SEQ_CST);
}

__attribute__((unused)) static int pool_is_free(const Pool *pool, size_t slot, size_t slots)
{
    for (size_t i = slot; i < slot + slots; i++)
        if (pool->taken[i])
            return 0;
    return 1;
}

/* Takes the first free slots: a freed slot is reused at once, even while a stream still works on it. */
__attribute__((unused)) static PoolBlock *pool_carve(Pool *pool, size_t size)
{
    size_t slots = (size + POOL_SLOT - 1) / POOL_SLOT;
    pool->last_size = size;
    for (size_t slot = 0; slot + slots <= POOL_SLOTS; slot++) {
        PoolBlock *block = &pool->blocks[slot];
        if (!pool_is_free(pool, slot, slots))
            continue;
        memset(&pool->taken[slot], 1, slots);
        block->pool = pool;
        block->address = pool->base + slot * POOL_SLOT;
        block->slots = slots;
        block->is_out = 1;
        block->address_calls = 0;
        pool->out++;
        return block;
    }
    pool->nulls++;
    return NULL;
}

__attribute__((unused)) static void *pool_alloc(aclrtAllocator object, size_t size)
{
    Pool *pool = (Pool *)object;
    if (pool->in_alloc)
        pool->in_alloc(pool);
    pool_enter(pool);
    sched_yield();
    pool->allocs++;
    PoolBlock *block = pool_carve(pool, size);
    pool_leave(pool);
    return block;
}

__attribute__((unused)) static void *pool_advise(aclrtAllocator object, size_t size, aclrtAllocatorAddr advice)
{
    Pool *pool = (Pool *)object;
    pool_enter(pool);
    pool->advises++;
    pool->last_advice = advice;
    PoolBlock *block = pool_carve(pool, size);
    pool_leave(pool);
    return block;
}

__attribute__((unused)) static void *pool_address(aclrtAllocatorBlock handle)
{
    PoolBlock *block = (PoolBlock *)handle;
    pool_enter(block->pool);
    block->pool->addresses++;
    block->address_calls++;
    CHECK_EQ(block->address_calls, 1);
    pool_leave(block->pool);
    return block->address;
}

__attribute__((unused)) static void pool_free(aclrtAllocator object, aclrtAllocatorBlock handle)
{
    Pool *pool = (Pool *)object;
    PoolBlock *block = (PoolBlock *)handle;
    if (pool->in_free)
        pool->in_free(pool);
    pool_enter(pool);
    sched_yield();
    pool->frees++;
    CHECK(block->pool == pool && block->is_out);
    block->is_out = 0;
    memset(&pool->taken[block - pool->blocks], 0, block->slots);
    pool->out--;
    pool_leave(pool);
}

__attribute__((unused)) static void pool_open(Pool *pool)
{
    void *base = NULL;
    memset(pool, 0, sizeof *pool);
    CHECK_OK(aclrtMalloc(&base, POOL_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    pool->base = (char *)base;
}

__attribute__((unused)) static void pool_close(Pool *pool)
{
    CHECK_EQ(pool->out, 0);
    CHECK_EQ(pool->allocs + pool->advises - pool->nulls, pool->frees);
    CHECK_EQ(pool->overlaps, 0);
    CHECK_OK(aclrtFree(pool->base));
    pool->base = NULL;
}

__attribute__((unused)) static int in_pool(const Pool *pool, const void *address)
{
    const char *at = (const char *)address;
    return at >= pool->base && at < pool->base + POOL_BYTES;
}

/* A descriptor with these functions; any but the object may be NULL and is then not set. */
__attribute__((unused)) static aclrtAllocatorDesc describe(
    void *object, aclrtAllocatorAllocFunc alloc, aclrtAllocatorFreeFunc release,
    aclrtAllocatorGetAddrFromBlockFunc address)
{
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    CHECK(desc != NULL);
    CHECK_OK(aclrtAllocatorSetObjToDesc(desc, object));
    if (alloc)
        CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, alloc));
    if (release)
        CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, release));
    if (address)
        CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address));
    return desc;
}

__attribute__((unused)) static aclrtAllocatorDesc pool_describe(Pool *pool)
{
    return describe(pool, pool_alloc, pool_free, pool_address);
}

/* Registers functions on a stream; the descriptor is destroyed at once. */
__attribute__((unused)) static void register_with(
    aclrtStream stream, void *object, aclrtAllocatorAllocFunc alloc, aclrtAllocatorFreeFunc release,
    aclrtAllocatorGetAddrFromBlockFunc address)
{
    aclrtAllocatorDesc desc = describe(object, alloc, release, address);
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
}

__attribute__((unused)) static void pool_register(aclrtStream stream, Pool *pool)
{
    register_with(stream, pool, pool_alloc, pool_free, pool_address);
}

/* An execution (cairn/probe.h) that takes one tensor of this many bytes. */
__attribute__((unused)) static aclError execute_with_tensor(aclrtStream stream, size_t bytes, CairnProbeBlock *result)
{
    CairnProbeBlock block = {bytes, 0, 0x5a, NULL, NULL, NULL, 0};
    CairnProbe probe = {&block, 1, 0, NULL};
    aclError code = cairnProbeExecute(stream, &probe);
    if (result)
        *result = block;
    return code;
}

#endif
