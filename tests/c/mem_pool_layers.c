// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=guard
// env: CAIRN_MEMORY=stats,guard,limit:8mib
// env: CAIRN_MEMORY=limit:8mib,fault:nth=1000000
/* A user's pools under layers: CAIRN_MEMORY applies to their blocks too. */
#include "mem_pool.h"

static aclrtStream stream;

static void guards(aclrtMemPool pool)
{
    GROUP("acl_soma_10 a write beside a block is found in the order of the stream");
    char *block = pool_malloc(pool, 1000, stream);
    CHECK_OK(aclrtMemsetAsync(block, 1000, 1, 1000, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    block[1000] = 7;
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MEMORY_FREE, "wrote beside the block");
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_soma_10 freed memory is overwritten after the work queued before the free");
    unsigned char *result = NULL;
    CHECK_OK(aclrtMallocHost((void **)&result, 64));
    set_release_threshold(pool, UINT64_MAX);
    block = pool_malloc(pool, 4096, stream);
    CHECK_OK(aclrtMemsetAsync(block, 4096, 5, 4096, stream));
    CHECK_OK(aclrtMemcpyAsync(result, 64, block, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK(pool_malloc(pool, 4096, stream) == (void *)block);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(result[0] == 5 && (unsigned char)block[0] == 0xfd && (unsigned char)block[4095] == 0xfd);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtFreeHost(result));
}

static void limits(aclrtMemPool pool)
{
    void *block = (void *)1, *plain = NULL;
    GROUP("acl_soma_10 one limit counts blocks of pools and of aclrtMalloc");
    CHECK_OK(aclrtMallocAlign32(&plain, 4 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    void *kept = pool_malloc(pool, 3 * MIB, stream);
    CHECK_FAIL(
        aclrtMemPoolMallocAsync(&block, 2 * MIB, pool, stream), ACL_ERROR_RT_MEMORY_ALLOCATION, "limit:8mib");
    CHECK(block == NULL);
    CHECK_OK(aclrtFree(plain));
    block = pool_malloc(pool, 5 * MIB, stream);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));

    GROUP("acl_soma_10 after a reset of the device its blocks no longer count");
    CHECK(kept != NULL);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    aclrtMemPool fresh = make_pool(0, 0);
    block = pool_malloc(fresh, 8 * MIB, stream);
    CHECK(block != NULL);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtMemPoolDestroy(fresh));
}

int main(void)
{
    const char *spec = getenv("CAIRN_MEMORY");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    aclrtMemPool pool = make_pool(0, 0);
    GROUP("acl_soma_10 wrong frees are refused under layers too");
    char *block = pool_malloc(pool, 1000, stream);
    for (int shift = -1024; shift <= 1024; shift += 512)
        if (shift)
            CHECK_FAIL(
                aclrtMemPoolFreeAsync(block + shift, stream), ACL_ERROR_RT_PARAM_INVALID, "0x");
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_FAIL(aclrtMemPoolFreeAsync(block, stream), ACL_ERROR_RT_PARAM_INVALID, "block");
    if (strstr(spec, "guard"))
        guards(pool);
    if (strstr(spec, "limit"))
        limits(pool);
    return END();
}
