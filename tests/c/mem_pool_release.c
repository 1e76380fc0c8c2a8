// env: CAIRN_DEVICE_MEMORY=256mib
/* How much of its device's memory a pool keeps, and how much it may take. */
#include "mem_pool.h"

static aclrtStream stream;

static void allocate_and_free(aclrtMemPool pool, size_t size)
{
    CHECK_OK(aclrtMemPoolFreeAsync(pool_malloc(pool, size, stream), stream));
}

static void thresholds_and_trim(void)
{
    size_t before = free_bytes();
    aclrtMemPool pool = make_pool(0, 0);
    GROUP("acl_soma_5 a new pool takes nothing");
    CHECK_EQ(free_bytes(), before);
    CHECK_EQ(reserved(pool), 0);

    GROUP("acl_soma_5 by default a synchronize gives all free memory back");
    void *block = pool_malloc(pool, 8 * MIB, stream);
    allocate_and_free(pool, 40 * MIB);
    CHECK_EQ(free_bytes(), before - reserved(pool));
    CHECK(reserved(pool) >= 48 * MIB);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(reserved(pool), 8 * MIB);
    CHECK_EQ(free_bytes(), before - 8 * MIB);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(free_bytes(), before);

    GROUP("acl_soma_5 with a threshold it keeps that much");
    set_release_threshold(pool, 20 * MIB);
    allocate_and_free(pool, 40 * MIB);
    CHECK(reserved(pool) >= 40 * MIB);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(reserved(pool), 20 * MIB);
    CHECK_EQ(free_bytes(), before - 20 * MIB);
    set_release_threshold(pool, UINT64_MAX);
    allocate_and_free(pool, 40 * MIB);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(reserved(pool) >= 40 * MIB);

    GROUP("acl_soma_5 a trim keeps the given size, and blocks in use");
    CHECK_OK(aclrtMemPoolTrimTo(pool, 200 * MIB));
    CHECK(reserved(pool) >= 40 * MIB);
    CHECK_OK(aclrtMemPoolTrimTo(pool, 10 * MIB));
    CHECK_EQ(reserved(pool), 10 * MIB);
    CHECK_EQ(free_bytes(), before - 10 * MIB);
    block = pool_malloc(pool, 4 * MIB, stream);
    CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
    CHECK_EQ(reserved(pool), 4 * MIB);
    CHECK_OK(aclrtMemsetAsync(block, 4 * MIB, 3, 4 * MIB, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_soma_5 a trim leaves what a stream may still use");
    static Gate gate = GATE_CLOSED;
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(block, 4 * MIB, 4, 4 * MIB, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
    CHECK_EQ(reserved(pool), 4 * MIB);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemPoolTrimTo(pool, 0));
    CHECK_EQ(reserved(pool), 0);
    CHECK_EQ(free_bytes(), before);
    CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void limits(void)
{
    enum { BLOCK_COUNT = 16 };
    void *blocks[BLOCK_COUNT + 1], *block = (void *)1;
    size_t before = free_bytes();
    GROUP("acl_soma_6 a pool takes no more than its maxSize, in steps of 2 MiB");
    aclrtMemPool pool = make_pool(0, BLOCK_COUNT * MIB - 5000);
    int count = 0;
    while (count <= BLOCK_COUNT && aclrtMemPoolMallocAsync(&blocks[count], 1 * MIB, pool, stream) == 0)
        count++;
    CHECK_EQ(count, BLOCK_COUNT);
    CHECK(blocks[BLOCK_COUNT] == NULL);
    (void)aclGetRecentErrMsg();
    CHECK_FAIL(
        aclrtMemPoolMallocAsync(&block, 1, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "the pool may take at most 16777216 bytes");
    CHECK(block == NULL);
    CHECK_FAIL(
        aclrtMemPoolMallocAsync(&block, 1, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "What to do: give blocks of the pool back, or make it with a larger maxSize");
    CHECK_EQ(reserved(pool), BLOCK_COUNT * MIB);
    CHECK_OK(aclrtMemPoolFreeAsync(blocks[3], stream));
    CHECK((blocks[3] = pool_malloc(pool, 1 * MIB, stream)) != NULL);

    GROUP("acl_soma_6 the limit holds after a trim to any size too");
    for (int i = 0; i < BLOCK_COUNT; i++)
        CHECK_OK(aclrtMemPoolFreeAsync(blocks[i], stream));
    set_release_threshold(pool, 1 * MIB + 512 * KIB);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(reserved(pool), 1 * MIB + 512 * KIB);
    block = pool_malloc(pool, 15 * MIB, stream);
    CHECK(reserved(pool) <= BLOCK_COUNT * MIB);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtMemPoolDestroy(pool));

    GROUP("acl_soma_6 a limit above the device is the device");
    pool = make_pool(0, (size_t)1 << 50);
    block = (void *)1;
    CHECK_CODE(
        aclrtMemPoolMallocAsync(&block, 300 * MIB, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(block == NULL);
    const char *text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "aclrtMemPoolMallocAsync") && strstr(text, "out of memory on device 0"));
    CHECK(text && strstr(text, "asked 314572800 bytes") && strstr(text, "capacity 268435456"));
    CHECK(text && strstr(text, "largest owners"));
    printf("  the text: %s\n", text ? text : "(none)");
    for (int shift = 0; shift < 3; shift++)
        CHECK_CODE(
            aclrtMemPoolMallocAsync(&block, SIZE_MAX >> shift, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION);

    GROUP("acl_soma_6 the text names who holds the memory");
    void *large = pool_malloc(pool, 100 * MIB, stream);
    CHECK_FAIL(
        aclrtMemPoolMallocAsync(&block, 200 * MIB, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "104857600 (stream");
    CHECK_OK(aclrtMemPoolFreeAsync(large, stream));

    GROUP("acl_soma_6 aclrtMalloc gets what pools have free");
    set_release_threshold(pool, UINT64_MAX);
    allocate_and_free(pool, 200 * MIB);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(free_bytes() < 100 * MIB);
    CHECK_OK(aclrtMalloc(&block, 200 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(free_bytes(), before);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    thresholds_and_trim();
    limits();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
