// breaks: overlapping-blocks use-after-free
// env:
// env: CAIRN_MEMORY=stats,guard
/* Allocators that return unusable blocks: the execution fails with 500002 and a reason, nothing
   leaks, the stream stays usable. */
#include "pool.h"

static Pool pool;
static aclrtStream stream;

/* An allocator that returns one block at one address for every request. */
static struct {
    void *block, *address;
    int allocs, addresses, frees;
} faulty;

static void *faulty_alloc(aclrtAllocator object, size_t size)
{
    (void)object;
    (void)size;
    faulty.allocs++;
    return faulty.block;
}

static void *faulty_address(aclrtAllocatorBlock block)
{
    CHECK(block == faulty.block);
    faulty.addresses++;
    return faulty.address;
}

static void faulty_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    CHECK(object == &faulty && block == faulty.block);
    faulty.frees++;
}

static void register_faulty(void *block, void *address)
{
    memset(&faulty, 0, sizeof faulty);
    faulty.block = block;
    faulty.address = address;
    register_with(stream, &faulty, faulty_alloc, faulty_free, faulty_address);
}

/* Checks that the stream works with a good allocator, and with none. */
static void check_stream_works(void)
{
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(execute_with_tensor(stream, 512, NULL));
    pool_register(stream, &pool);
    CHECK_OK(execute_with_tensor(stream, 512, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

/* Checks that a block at this address is refused for this reason, and freed. */
static void check_refused(void *address, const char *reason)
{
    register_faulty(&faulty, address);
    for (int times = 1; times <= 2; times++) {
        CairnProbeBlock block;
        CHECK_FAIL(execute_with_tensor(stream, 512, &block), ACL_ERROR_GE_FAILURE, reason);
        CHECK(block.address == NULL && block.asked == 0);
        CHECK_EQ(faulty.allocs, times);
        CHECK_EQ(faulty.addresses, times);
        CHECK_EQ(faulty.frees, times);
    }
    check_stream_works();
}

static void nulls(void)
{
    int32_t id = 0;
    char name[32];
    GROUP("acl_1_8_6 alloc gives null: 500002, the text names allocator, stream and size");
    register_faulty(NULL, NULL);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, "null");
    snprintf(name, sizeof name, "%p", (void *)&faulty);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, name);
    CHECK_OK(aclrtStreamGetId(stream, &id));
    snprintf(name, sizeof name, "stream %d", id);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, name);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, "alloc(544)");
    CHECK_EQ(faulty.allocs, 4);
    CHECK_EQ(faulty.addresses + faulty.frees, 0);
    check_stream_works();

    GROUP("acl_1_8_6 the address is null: the same, and the block is freed");
    check_refused(NULL, "address is null");
}

/* The second of three blocks cannot be allocated. */
static void second_block_fails(void)
{
    GROUP("acl_1_8_6 blocks taken before the one that failed are freed, and nothing is queued");
    CairnProbeBlock blocks[3] = {
        {64, 0, 0xee, NULL, NULL, NULL, 0}, {2 * POOL_BYTES, 1, 0xee, NULL, NULL, NULL, 0}, {64, 0, 0xee, NULL, NULL, NULL, 0}};
    CairnProbe probe = {blocks, 3, 0, NULL};
    unsigned char byte = 0;
    CHECK_OK(aclrtMemset(pool.base, POOL_BYTES, 0, POOL_BYTES));
    int allocs = pool.allocs, frees = pool.frees;
    CHECK_FAIL(cairnProbeExecute(stream, &probe), ACL_ERROR_GE_FAILURE, "null");
    CHECK_EQ(pool.allocs, allocs + 2);
    CHECK_EQ(pool.frees, frees + 1);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(&byte, 1, blocks[0].address, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(byte != 0xee);
    check_stream_works();
}

static void addresses(void)
{
    static char host[4096] __attribute__((aligned(64)));
    void *freed = NULL, *pinned = NULL, *on_device_1 = NULL, *small = NULL;
    CHECK_OK(aclrtMalloc(&freed, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(freed));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_OK(aclrtMallocAlign32(&small, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&on_device_1, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("acl_reg_1 a block in host memory is refused");
    check_refused(host, "host memory");
    check_refused(pinned, "pinned host memory");
    GROUP("acl_reg_1 a block at an address without memory is refused");
    check_refused((void *)64, "host memory that ACL does not know");
    GROUP("acl_reg_1 a block in freed memory is refused");
    check_refused(freed, "freed");
    GROUP("acl_reg_1 a block of another device is refused");
    check_refused(on_device_1, "device 1");
    GROUP("acl_reg_1 a block in an allocation that is too short is refused");
    check_refused(small, "too short");
    check_refused(pool.base + POOL_BYTES - 64, "too short");
    GROUP("acl_reg_1 an address that is no multiple of 32 is refused");
    check_refused(pool.base + 8, "multiple of 32");
    check_refused(pool.base + 1, "multiple of 32");

    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(small));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtFree(on_device_1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
}

static void overlapping_blocks(void)
{
    GROUP("acl_reg_1 the same block again before it was freed is refused, and freed once");
    register_faulty(&faulty, pool.base);
    CairnProbeBlock blocks[2] = {{64, 0, 1, NULL, NULL, NULL, 0}, {64, 0, 1, NULL, NULL, NULL, 0}};
    CairnProbe probe = {blocks, 2, 0, NULL};
    CHECK_FAIL(cairnProbeExecute(stream, &probe), ACL_ERROR_GE_FAILURE, "already allocated");
    CHECK_EQ(faulty.allocs, 2);
    CHECK_EQ(faulty.addresses, 1);
    CHECK_EQ(faulty.frees, 1);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_EQ(faulty.frees, 2);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_reg_1 bytes of another allocated block are refused");
    pool_register(stream, &pool);
    CairnProbe keeping_probe = {blocks, 1, 1, NULL};
    CHECK_OK(cairnProbeExecute(stream, &keeping_probe));
    CHECK(in_pool(&pool, blocks[0].address));
    check_refused((char *)blocks[0].address + 32, "shares bytes");
    CHECK_OK(cairnProbeGiveBack(keeping_probe.kept));
    CHECK_EQ(pool.out, 0);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    nulls();
    second_block_fails();
    addresses();
    overlapping_blocks();
    CHECK_OK(aclrtDestroyStream(stream));
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
