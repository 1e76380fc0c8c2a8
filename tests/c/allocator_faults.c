// env:
// env: CAIRN_MEMORY=stats,guard
/* Allocators that give what cannot be used: the execution fails with 500002 and says why, nothing
   leaks, the stream goes on. */
#include "pool.h"

static Pool pool;
static aclrtStream stream;

/* Gives one block at one address, whatever is asked. */
static struct {
    void *block, *address;
    int allocs, addresses, frees;
} odd;

static void *odd_alloc(aclrtAllocator object, size_t size)
{
    (void)object;
    (void)size;
    odd.allocs++;
    return odd.block;
}

static void *odd_address(aclrtAllocatorBlock block)
{
    CHECK(block == odd.block);
    odd.addresses++;
    return odd.address;
}

static void odd_free(aclrtAllocator object, aclrtAllocatorBlock block)
{
    CHECK(object == &odd && block == odd.block);
    odd.frees++;
}

static void now_odd(void *block, void *address)
{
    memset(&odd, 0, sizeof odd);
    odd.block = block;
    odd.address = address;
    register_with(stream, &odd, odd_alloc, odd_free, odd_address);
}

/* The stream works with a sane allocator, and with none. */
static void goes_on(void)
{
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(execute_with_tensor(stream, 512, NULL));
    pool_register(stream, &pool);
    CHECK_OK(execute_with_tensor(stream, 512, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

/* A block at this address is refused for this reason, and goes back. */
static void refused_at(void *address, const char *reason)
{
    now_odd(&odd, address);
    for (int times = 1; times <= 2; times++) {
        CairnProbeBlock block;
        CHECK_FAIL(execute_with_tensor(stream, 512, &block), ACL_ERROR_GE_FAILURE, reason);
        CHECK(block.address == NULL && block.asked == 0);
        CHECK_EQ(odd.allocs, times);
        CHECK_EQ(odd.addresses, times);
        CHECK_EQ(odd.frees, times);
    }
    goes_on();
}

static void nothing(void)
{
    int32_t id = 0;
    char name[32];
    GROUP("acl_1_8_6 alloc gives null: 500002, the text names allocator, stream and size");
    now_odd(NULL, NULL);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, "null");
    snprintf(name, sizeof name, "%p", (void *)&odd);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, name);
    CHECK_OK(aclrtStreamGetId(stream, &id));
    snprintf(name, sizeof name, "stream %d", id);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, name);
    CHECK_FAIL(execute_with_tensor(stream, 512, NULL), ACL_ERROR_GE_FAILURE, "alloc(544)");
    CHECK_EQ(odd.allocs, 4);
    CHECK_EQ(odd.addresses + odd.frees, 0);
    goes_on();

    GROUP("acl_1_8_6 the address is null: the same, and the block goes back");
    refused_at(NULL, "address is null");
}

/* The second of two blocks cannot be had. */
static void halfway(void)
{
    GROUP("acl_1_8_6 what was taken before the one that failed goes back, and nothing is queued");
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
    goes_on();
}

static void places(void)
{
    static char here[4096] __attribute__((aligned(64)));
    void *freed = NULL, *pinned = NULL, *far = NULL, *small = NULL;
    CHECK_OK(aclrtMalloc(&freed, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(freed));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_OK(aclrtMallocAlign32(&small, 256, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&far, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("acl_reg_1 a block in host memory is refused");
    refused_at(here, "host memory");
    refused_at(pinned, "pinned host memory");
    GROUP("acl_reg_1 a block nowhere is refused");
    refused_at((void *)64, "host memory that ACL does not know");
    GROUP("acl_reg_1 a block in freed memory is refused");
    refused_at(freed, "freed");
    GROUP("acl_reg_1 a block of another device is refused");
    refused_at(far, "device 1");
    GROUP("acl_reg_1 a block in an allocation that is too short is refused");
    refused_at(small, "too short");
    refused_at(pool.base + POOL_BYTES - 64, "too short");
    GROUP("acl_reg_1 an address that is no multiple of 32 is refused");
    refused_at(pool.base + 8, "multiple of 32");
    refused_at(pool.base + 1, "multiple of 32");

    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(small));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtFree(far));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
}

static void twice(void)
{
    GROUP("acl_reg_1 the same block while it is out is refused, and goes back once");
    now_odd(&odd, pool.base);
    CairnProbeBlock blocks[2] = {{64, 0, 1, NULL, NULL, NULL, 0}, {64, 0, 1, NULL, NULL, NULL, 0}};
    CairnProbe probe = {blocks, 2, 0, NULL};
    CHECK_FAIL(cairnProbeExecute(stream, &probe), ACL_ERROR_GE_FAILURE, "already allocated");
    CHECK_EQ(odd.allocs, 2);
    CHECK_EQ(odd.addresses, 1);
    CHECK_EQ(odd.frees, 1);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_EQ(odd.frees, 2);
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_reg_1 bytes of another block that is out are refused");
    pool_register(stream, &pool);
    CairnProbe keeps = {blocks, 1, 1, NULL};
    CHECK_OK(cairnProbeExecute(stream, &keeps));
    CHECK(in_pool(&pool, blocks[0].address));
    refused_at((char *)blocks[0].address + 32, "shares bytes");
    CHECK_OK(cairnProbeGiveBack(keeps.kept));
    CHECK_EQ(pool.out, 0);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    nothing();
    halfway();
    places();
    twice();
    CHECK_OK(aclrtDestroyStream(stream));
    pool_close(&pool);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
