// env: CAIRN_MEMORY=limit:1mib
// env: CAIRN_MEMORY=stats,limit:1mib,guard
// env: CAIRN_MEMORY=guard,stats,limit:1mib
/* A limit on the memory of each device: exact, also under eight threads. */
#include "gate.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define THREADS 8
#define TRIES 20
#define PIECE (32 * KIB)

static void *pieces[THREADS * TRIES];
static int taken;

static void take_pieces(void *unused)
{
    (void)unused;
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < TRIES; i++) {
        void *piece = (void *)1;
        int code = aclrtMallocAlign32(&piece, PIECE, ACL_MEM_MALLOC_NORMAL_ONLY);
        if (code == ACL_SUCCESS)
            pieces[__atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST)] = piece;
        else
            CHECK(code == ACL_ERROR_RT_MEMORY_ALLOCATION && piece == NULL);
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

    GROUP("CAIRN_MEMORY limit: what is there works");
    CHECK_OK(aclrtMemsetAsync(half, MIB / 2, 5, MIB / 2, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(((unsigned char *)half)[MIB / 2 - 1], 5);

    GROUP("CAIRN_MEMORY limit: a device has its own, pinned memory has none");
    void *far = NULL;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMallocAlign32(&far, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_FAIL(aclrtMallocAlign32(&more, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION, "device 1");
    CHECK_OK(aclrtMallocHost(&pinned, 2 * MIB));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(far));
    CHECK_OK(aclrtResetDevice(1));

    GROUP("CAIRN_MEMORY limit: freed memory may be taken again at once");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtFree(half));
    CHECK_OK(aclrtFree(rest));
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(half));

    GROUP("CAIRN_MEMORY limit: eight threads get exactly what it allows");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(take_pieces, NULL);
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    CHECK_EQ(taken, MIB / PIECE);
    for (int i = 0; i < taken; i++)
        CHECK_OK(aclrtFree(pieces[i]));

    GROUP("CAIRN_MEMORY limit: a reset brings it all back");
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMallocAlign32(&half, MIB, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtFree(half));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
