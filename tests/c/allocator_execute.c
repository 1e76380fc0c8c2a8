// breaks: order pool-freed-while-pending
// env:
// env: CAIRN_WORKERS=1
/* Executions on a stream take their memory from the allocator that is registered on it. */
#include "pool.h"

static Pool pool, other;
static aclrtStream stream, second;

static void sizes(void)
{
    static const size_t bytes[] = {1, 31, 32, 33, 100, 4096, 65537};
    CairnProbeBlock block = {0};
    GROUP("acl_1_8_8 a tensor asks for its bytes rounded up to 32, and 32 more");
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        CHECK_OK(execute_with_tensor(stream, bytes[i], &block));
        CHECK_EQ(pool.last_size, (bytes[i] + 31) / 32 * 32 + 32);
        CHECK_EQ(block.asked, pool.last_size);
        CHECK(in_pool(&pool, block.address));
    }
    CHECK_OK(execute_with_tensor(stream, 0, NULL));
    CHECK_EQ(pool.last_size, 32);

    GROUP("acl_1_8_8 a workspace asks for exactly its bytes, and for 0 not at all");
    CairnProbeBlock blocks[3] = {
        {100, 1, 1, NULL, NULL, NULL, 0}, {0, 1, 2, NULL, NULL, NULL, 0}, {7, 1, 3, NULL, NULL, NULL, 0}};
    CairnProbe probe = {blocks, 3, 0, NULL};
    int allocs = pool.allocs;
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_EQ(pool.allocs, allocs + 2);
    CHECK_EQ(blocks[0].asked, 100);
    CHECK(blocks[1].asked == 0 && blocks[1].address == NULL);
    CHECK_EQ(blocks[2].asked, 7);
    CHECK(blocks[2].address != NULL && blocks[2].address != blocks[0].address);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_1_8_8 impossible requests are refused before the allocator is called");
    allocs = pool.allocs;
    CHECK_FAIL(execute_with_tensor(stream, SIZE_MAX, NULL), ACL_ERROR_INVALID_PARAM, "no such memory");
    CHECK_FAIL(cairnProbeExecute(stream, NULL), ACL_ERROR_INVALID_PARAM, "probe");
    probe.blocks = NULL;
    CHECK_FAIL(cairnProbeExecute(stream, &probe), ACL_ERROR_INVALID_PARAM, "blocks");
    CHECK_EQ(pool.allocs, allocs);
}

static void one_block(void)
{
    void *address = NULL, *kept = NULL;
    GROUP("acl_reg_9 a block is taken from the allocator of its domain, and from no other");
    int allocs = pool.allocs;
    CHECK_OK(cairnProbeTake(stream, CAIRN_PROBE_ACL, 100, NULL, &address, &kept));
    CHECK(in_pool(&pool, address) && kept != NULL);
    CHECK_EQ(pool.allocs, allocs + 1);
    CHECK_EQ(pool.last_size, 100);
    CHECK_OK(cairnProbeGiveBack(kept));
    CHECK_FAIL(cairnProbeTake(stream, CAIRN_PROBE_GE, 100, NULL, &address, &kept), ACL_ERROR_INVALID_PARAM, "no allocator is registered");
    CHECK(address == NULL && kept == NULL);
    CHECK_FAIL(cairnProbeTake(stream, (CairnProbeDomain)7, 100, NULL, &address, &kept), ACL_ERROR_INVALID_PARAM, "domain is 7");
    CHECK_FAIL(cairnProbeTake(stream, CAIRN_PROBE_ACL, 100, NULL, NULL, &kept), ACL_ERROR_INVALID_PARAM, "address");
    CHECK_EQ(pool.allocs, allocs + 1);
}

static void balance(void)
{
    GROUP("acl_1_8_9 the address is asked for once for each block");
    CHECK_EQ(pool.addresses, pool.allocs);
    GROUP("acl_1_8_7 what was taken went back");
    CHECK_EQ(pool.frees, pool.allocs);
    CHECK_EQ(pool.out, 0);
}

static void asynchrony(void)
{
    static Gate gate = GATE_CLOSED;
    unsigned char *host = NULL;
    void *copy = NULL;
    GROUP("acl_reg_7 executions do not wait: blocks are freed while the tasks are still queued");
    CHECK_OK(aclrtMallocHost((void **)&host, 256));
    CHECK_OK(aclrtMalloc(&copy, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(copy, 256, 0x11, 256));
    gate_put(&gate, stream);
    CairnProbeBlock block = {256, 0, 0xa7, NULL, copy, NULL, 0};
    CairnProbe probe = {&block, 1, 0, NULL};
    int frees = pool.frees;
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_EQ(pool.frees, frees + 1);
    CHECK_OK(aclrtMemcpy(host, 256, copy, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(host[0], 0x11);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(host, 256, copy, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(host[0] == 0xa7 && host[255] == 0xa7);

    GROUP("acl_reg_7 every byte asked for was written, in the user's memory");
    CHECK_OK(aclrtMemcpy(host, 256, block.address, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(host[0] == 0xa7 && host[255] == 0xa7);
    CHECK_OK(aclrtMemcpy(host, 32, (char *)block.address + 256, 32, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(host[0] == 0xa7 && host[31] == 0xa7);
    CHECK_OK(aclrtFree(copy));
    CHECK_OK(aclrtFreeHost(host));
}

static void released_early(void)
{
    static Gate gate = GATE_CLOSED;
    static Pool freed_early;
    void *copy = NULL;
    unsigned char *host = NULL;
    GROUP("acl_reg_7 memory freed too early stays intact until the tasks have run");
    CHECK_OK(aclrtMallocHost((void **)&host, 256));
    CHECK_OK(aclrtMalloc(&copy, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    pool_open(&freed_early);
    pool_register(second, &freed_early);
    gate_put(&gate, second);
    CairnProbeBlock block = {256, 0, 0x3c, NULL, copy, NULL, 0};
    CairnProbe probe = {&block, 1, 0, NULL};
    CHECK_OK(cairnProbeExecute(second, &probe));
    pool_close(&freed_early);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_OK(aclrtMemcpy(host, 256, copy, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(host[0] == 0x3c && host[255] == 0x3c);
    CHECK_OK(aclrtAllocatorUnregister(second));
    CHECK_OK(aclrtFree(copy));
    CHECK_OK(aclrtFreeHost(host));
}

static void last_registration_wins(void)
{
    static Pool third;
    GROUP("acl_1_8_3 of two registrations only the second is used");
    pool_register(second, &pool);
    pool_register(second, &other);
    int before = pool.allocs;
    CHECK_OK(execute_with_tensor(second, 64, NULL));
    CHECK_EQ(pool.allocs, before);
    CHECK_EQ(other.allocs, 1);

    GROUP("acl_reg_4 also after executions, from the next one on");
    pool_open(&third);
    pool_register(second, &third);
    CHECK_OK(execute_with_tensor(second, 64, NULL));
    CHECK_EQ(other.allocs, 1);
    CHECK_EQ(third.allocs, 1);

    GROUP("acl_reg_4 blocks go back to the allocator that made them");
    CairnProbeBlock block = {64, 0, 1, NULL, NULL, NULL, 0};
    CairnProbe probe = {&block, 1, 1, NULL};
    CHECK_OK(cairnProbeExecute(second, &probe));
    CHECK(probe.kept != NULL);
    pool_register(second, &other);
    CHECK_OK(execute_with_tensor(second, 64, NULL));
    CHECK_EQ(third.out, 1);
    CHECK_OK(aclrtAllocatorUnregister(second));
    CHECK_OK(cairnProbeGiveBack(probe.kept));
    CHECK_FAIL(cairnProbeGiveBack(probe.kept), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    CHECK_FAIL(cairnProbeGiveBack(NULL), ACL_ERROR_INVALID_PARAM, "kept");
    CHECK_EQ(third.out, 0);
    CHECK_EQ(other.allocs, 2);
    CHECK_OK(aclrtSynchronizeStream(second));
    pool_close(&third);
}

static void without_allocator(void)
{
    CairnProbeBlock block = {0};
    GROUP("acl_1_8_4 after unregistering, the device serves");
    pool_register(second, &other);
    CHECK_OK(aclrtAllocatorUnregister(second));
    int before = other.allocs;
    CHECK_OK(execute_with_tensor(second, 64, &block));
    CHECK_EQ(other.allocs, before);
    CHECK(block.address != NULL && !in_pool(&other, block.address) && !in_pool(&pool, block.address));
    CHECK_OK(aclrtSynchronizeStream(second));

    GROUP("acl_1_8_4 the default stream has an allocator only under its own handle");
    aclrtStream default_stream = NULL;
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
    pool_register(default_stream, &other);
    CHECK_OK(execute_with_tensor(NULL, 64, &block));
    CHECK(!in_pool(&other, block.address));
    CHECK_OK(execute_with_tensor(default_stream, 64, &block));
    CHECK(in_pool(&other, block.address));
    CHECK_OK(aclrtSynchronizeStream(default_stream));
    CHECK_OK(aclrtAllocatorUnregister(default_stream));
}

static void two_streams(void)
{
    CairnProbeBlock block = {0};
    GROUP("acl_1_8_5 two streams, two allocators");
    pool_register(second, &other);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(execute_with_tensor(stream, 128, &block));
        CHECK(in_pool(&pool, block.address));
        CHECK_OK(execute_with_tensor(second, 128, &block));
        CHECK(in_pool(&other, block.address));
    }
    CHECK_OK(aclrtSynchronizeStream(second));

    GROUP("acl_reg_6 one allocator on two streams, one after the other");
    pool_register(second, &pool);
    for (int i = 0; i < 20; i++) {
        aclrtStream used = i & 1 ? second : stream;
        CHECK_OK(execute_with_tensor(used, 128, &block));
        CHECK(in_pool(&pool, block.address));
        CHECK_OK(aclrtSynchronizeStream(used));
    }
    CHECK_OK(aclrtAllocatorUnregister(second));
}

static void advice(void)
{
    GROUP("acl_reg_1 an advised address goes to allocAdvise, else alloc is called");
    int allocs = pool.allocs;
    CairnProbeBlock block = {64, 0, 1, pool.base + 4096, NULL, NULL, 0};
    CairnProbe probe = {&block, 1, 0, NULL};
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_EQ(pool.allocs, allocs + 1);
    CHECK_EQ(pool.advises, 0);
    aclrtAllocatorDesc desc = pool_describe(&pool);
    CHECK_OK(aclrtAllocatorSetAllocAdviseFuncToDesc(desc, pool_advise));
    CHECK_OK(aclrtAllocatorRegister(stream, desc));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_EQ(pool.allocs, allocs + 1);
    CHECK_EQ(pool.advises, 1);
    CHECK(pool.last_advice == pool.base + 4096);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_EQ(pool.allocs, allocs + 2);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second));
    pool_open(&pool);
    pool_open(&other);
    pool_register(stream, &pool);
    sizes();
    one_block();
    balance();
    asynchrony();
    released_early();
    last_registration_wins();
    without_allocator();
    two_streams();
    advice();

    GROUP("acl_1_8_7 balance at the end, the stream synchronized and destroyed");
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(second));
    pool_close(&pool);
    pool_close(&other);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
