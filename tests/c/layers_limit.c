// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=limit:1mib
// env: CAIRN_MEMORY=stats,limit:1mib,guard
// env: CAIRN_MEMORY=guard,stats,limit:1mib
/* A limit on the memory of each device: exact, also under eight threads. */
#include "gate.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define THREADS 8
#define TRIES 20
#define BLOCK (32 * KIB)

static void *blocks[THREADS * TRIES];
static int block_count;

static void allocate_blocks(void *unused)
{
    (void)unused;
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < TRIES; i++) {
        void *block = (void *)1;
        int code = aclrtMallocAlign32(&block, BLOCK, ACL_MEM_MALLOC_NORMAL_ONLY);
        if (code == ACL_SUCCESS)
            blocks[__atomic_fetch_add(&block_count, 1, __ATOMIC_SEQ_CST)] = block;
        else
            CHECK(code == ACL_ERROR_RT_MEMORY_ALLOCATION && block == NULL);
    }
    CHECK_OK(aclrtResetDevice(0));
}

int main(void)
{
    void *half = NULL, *rest = NULL, *more = (void *)1, *pinned = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("CAIRN_MEMORY limit: one byte too many is refused");
    CHECK_OK(aclrtMallocAlign32(&half, MIB / 2, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_FAIL(
        aclrtMallocAlign32(&more, MIB / 2 + 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "asked 524320 bytes of the memory of device 0, live 524288, limit 1048576");
    CHECK(more == NULL);
    CHECK_OK(aclrtMallocAlign32(&rest, MIB / 2, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_FAIL(aclrtMallocAlign32(&more, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION, "limit:1mib");
    CHECK_FAIL(aclrtMalloc(&more, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION, "limit:1mib");

    GROUP("CAIRN_MEMORY limit: the padding of aclrtMalloc counts");
    CHECK_OK(aclrtFree(rest));
    CHECK_FAIL(aclrtMalloc(&more, MIB / 2, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION, "asked 524320");
    CHECK_OK(aclrtMalloc(&rest, MIB / 2 - 32, ACL_MEM_MALLOC_NORMAL_ONLY));

    GROUP("CAIRN_MEMORY limit: allocated memory works");
    CHECK_OK(aclrtMemsetAsync(half, MIB / 2, 5, MIB / 2, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(((unsigned char *)half)[MIB / 2 - 1], 5);

    GROUP("CAIRN_MEMORY limit: a device has its own, pinned memory has none");
    void *on_device_1 = NULL;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMallocAlign32(&on_device_1, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_FAIL(aclrtMallocAlign32(&more, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION, "device 1");
    CHECK_OK(aclrtMallocHost(&pinned, 2 * MIB));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(on_device_1));
    CHECK_OK(aclrtResetDevice(1));

    GROUP("CAIRN_MEMORY limit: freed memory may be allocated again at once");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtFree(half));
    CHECK_OK(aclrtFree(rest));
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(half));

    GROUP("CAIRN_MEMORY limit: eight threads get exactly what it allows");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(allocate_blocks, NULL);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    CHECK_EQ(block_count, MIB / BLOCK);
    for (int i = 0; i < block_count; i++)
        CHECK_OK(aclrtFree(blocks[i]));

    GROUP("CAIRN_MEMORY limit: a reset frees everything");
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(half));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
