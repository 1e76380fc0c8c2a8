// breaks: use-after-free wrong-free
// env: CAIRN_DEVICE_MEMORY=256mib
/* Pools that are destroyed or reset with blocks still allocated and work queued; and wrong frees. */
#include "mem_pool.h"
#include "cairn/probe.h"

static Gate gate = GATE_CLOSED;
static aclrtStream stream;

static void destroyed_before_blocks(void)
{
    size_t before = free_bytes();
    unsigned char *result = NULL;
    GROUP("acl_soma_7 a destroyed pool ends when its last block is freed");
    CHECK_OK(aclrtMallocHost((void **)&result, 4096));
    aclrtMemPool pool = make_pool(0, 0);
    void *first = pool_malloc(pool, 4 * MIB, stream), *second = pool_malloc(pool, 4 * MIB, stream);
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(first, 4 * MIB, 0x21, 4 * MIB, stream));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_EQ(free_bytes(), before - 8 * MIB);
    CHECK_FAIL(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_OK(aclrtMemsetAsync(second, 4 * MIB, 0x22, 4 * MIB, stream));
    CHECK_OK(aclrtMemcpyAsync(result, 4096, first, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(first, stream));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(result[0] == 0x21 && result[4095] == 0x21);
    CHECK_EQ(free_bytes(), before - 4 * MIB);
    CHECK_OK(aclrtMemcpyAsync(result, 4096, second, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(result[0] == 0x22 && result[4095] == 0x22);
    CHECK_OK(aclrtMemPoolFreeAsync(second, stream));
    CHECK_EQ(free_bytes(), before);
    CHECK_FAIL(aclrtMemPoolFreeAsync(second, stream), ACL_ERROR_RT_PARAM_INVALID, "belongs to no memory pool");

    GROUP("acl_soma_7 if work on the last block is still queued, the pool ends at a synchronize");
    pool = make_pool(0, 0);
    first = pool_malloc(pool, 4 * MIB, stream);
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(first, 4 * MIB, 0x23, 4 * MIB, stream));
    CHECK_OK(aclrtMemcpyAsync(result, 4096, first, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtMemPoolFreeAsync(first, stream));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_EQ(free_bytes(), before - 4 * MIB);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(result[0] == 0x23 && result[4095] == 0x23);
    CHECK_EQ(free_bytes(), before);

    GROUP("acl_soma_7 aclrtMalloc gets the memory of a destroyed pool");
    pool = make_pool(0, 0);
    CHECK_OK(aclrtMemPoolFreeAsync(pool_malloc(pool, 200 * MIB, stream), stream));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_OK(aclrtMalloc(&first, 200 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(first));
    CHECK_OK(aclrtFreeHost(result));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void block_outlives_stream(void)
{
    aclrtMemPool pool = make_pool(0, 0);
    aclrtStream other = NULL;
    GROUP("acl_soma_7 a block outlives the stream it was taken for");
    CHECK_OK(aclrtCreateStream(&other));
    void *block = pool_malloc(pool, 4 * MIB, other);
    CHECK_OK(aclrtMemsetAsync(block, 4 * MIB, 1, 4 * MIB, other));
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_OK(aclrtMemsetAsync(block, 4 * MIB, 2, 4 * MIB, stream));
    CHECK_FAIL(aclrtMemPoolFreeAsync(block, other), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(used(pool), 0);
    CHECK_OK(aclrtMemPoolDestroy(pool));
}

static void wrong_frees(void)
{
    aclrtMemPool pool = make_pool(0, 0);
    int local = 0;
    void *block = pool_malloc(pool, 1 * MIB, stream), *plain = NULL, *pinned = NULL;
    GROUP("acl_soma_8 the errors of wrong frees say what the address is");
    CHECK_OK(aclrtMalloc(&plain, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_FAIL(aclrtMemPoolFreeAsync(NULL, stream), ACL_ERROR_INVALID_PARAM, "ptr");
    CHECK_FAIL(aclrtMemPoolFreeAsync(plain, stream), ACL_ERROR_RT_PARAM_INVALID, "aclrtFree");
    CHECK_FAIL(aclrtMemPoolFreeAsync(pinned, stream), ACL_ERROR_RT_PARAM_INVALID, "pinned host memory");
    CHECK_FAIL(aclrtMemPoolFreeAsync(&local, stream), ACL_ERROR_RT_PARAM_INVALID, "ACL does not know");
    CHECK_FAIL(
        aclrtMemPoolFreeAsync((char *)block + 512, stream), ACL_ERROR_RT_PARAM_INVALID, "no block begins there");
    CHECK_FAIL(
        aclrtMemPoolFreeAsync((char *)block + 1, stream), ACL_ERROR_RT_PARAM_INVALID, "no block begins there");
    CHECK_FAIL(aclrtMemPoolFreeAsync(block, block), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    CHECK_FAIL(aclrtFree(block), ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync");
    CHECK_FAIL(aclrtFreeWithDevSync(block), ACL_ERROR_RT_PARAM_INVALID, "aclrtMemPoolFreeAsync");
    CHECK_FAIL(aclrtFreeHost(block), ACL_ERROR_RT_PARAM_INVALID, "device 0");
    CHECK_EQ(used(pool), 1 * MIB);
    CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
    CHECK_FAIL(aclrtMemPoolFreeAsync(block, stream), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    CHECK_EQ(used(pool), 0);
    CHECK_OK(aclrtFree(plain));
    CHECK_OK(aclrtFreeHost(pinned));

    GROUP("acl_soma_8 memory of operators cannot be freed by the user");
    CairnProbeBlock of_operator;
    CairnProbe probe;
    memset(&of_operator, 0, sizeof of_operator);
    memset(&probe, 0, sizeof probe);
    of_operator.bytes = 1000;
    probe.blocks = &of_operator;
    probe.count = 1;
    probe.keep = 1;
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_FAIL(aclrtMemPoolFreeAsync(of_operator.address, stream), ACL_ERROR_RT_PARAM_INVALID, "operators");
    CHECK_OK(cairnProbeGiveBack(probe.kept));
    CHECK_OK(aclrtMemPoolDestroy(pool));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void device_ends(void)
{
    GROUP("acl_soma_7 the reset of a device ends its pools, and no other");
    CHECK_OK(aclrtSetDevice(1));
    size_t before = free_bytes();
    aclrtMemPool pool = make_pool(1, 0), own_pool = make_pool(0, 0);
    void *block = pool_malloc(pool, 4 * MIB, NULL);
    CHECK_EQ(free_bytes(), before - 4 * MIB);
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_EQ(free_bytes(), before);
    uint64_t value = 0;
    CHECK_FAIL(
        aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value),
        ACL_ERROR_RT_INVALID_HANDLE, "ended when device 1 was reset");
    CHECK_FAIL(aclrtMemPoolFreeAsync(block, NULL), ACL_ERROR_RT_PARAM_INVALID, "belongs to no memory pool");
    block = (void *)1;
    CHECK_FAIL(
        aclrtMemPoolMallocAsync(&block, 8, pool, NULL), ACL_ERROR_RT_INVALID_HANDLE,
        "ended when device 1 was reset");
    CHECK(block == NULL);
    CHECK_FAIL(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE, "ended when device 1 was reset");
    CHECK_FAIL(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMemPoolFreeAsync(pool_malloc(own_pool, 8, stream), stream));
    CHECK_OK(aclrtMemPoolDestroy(own_pool));

    GROUP("acl_soma_7 queued tasks of another device still find the memory of a pool that ended");
    unsigned char *copy = NULL;
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtMalloc((void **)&copy, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtSetDevice(1));
    pool = make_pool(1, 0);
    block = pool_malloc(pool, 4 * MIB, NULL);
    CHECK_OK(aclrtMemsetAsync(block, 4096, 0x31, 4096, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_OK(aclrtSetDevice(0));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(copy, 4096, block, 4096, ACL_MEMCPY_DEFAULT, stream));
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_OK(aclrtSetDevice(1));
    void *more = NULL;
    CHECK_OK(aclrtMalloc(&more, 100 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemset(more, 100 * MIB, 0xee, 100 * MIB));
    CHECK_OK(aclrtFree(more));
    CHECK_OK(aclrtSetDevice(0));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    unsigned char bytes[4096] = {0};
    CHECK_OK(aclrtMemcpy(bytes, 4096, copy, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(bytes[0] == 0x31 && bytes[4095] == 0x31);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_EQ(free_bytes(), before);
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtFree(copy));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    destroyed_before_blocks();
    block_outlives_stream();
    wrong_frees();
    device_ends();
    GROUP("acl_soma_7 a process may end with a pool and blocks that are not freed");
    aclrtMemPool pool = make_pool(0, 0);
    CHECK(pool_malloc(pool, 1 * MIB, stream) != NULL);
    return END();
}
