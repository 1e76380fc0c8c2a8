// env: CAIRN_HOST_MEMORY=640mib CAIRN_QUARANTINE=0
/*
 * Two processes under one limit, each with two devices, allocate and touch until there is no more: both are
 * told so, and together they never hold more than the limit allows.
 */
#include "child.h"
#include <sys/mman.h>

enum { PIECE = 4 << 20, MOST = 256, ALLOWED = 512, PIECES = ALLOWED * (1 << 20) / PIECE };

typedef struct Both {
    pthread_barrier_t barrier;
    int pieces[2];
    int again;
} Both;

static Both *both;
static int me;

/* Takes and touches memory of both devices by turns until 207001. */
static int to_the_end(void *blocks[MOST])
{
    int count = 0;
    for (; count < MOST; count++) {
        CHECK_OK(aclrtSetDevice(count & 1));
        aclError code = aclrtMalloc(&blocks[count], PIECE, ACL_MEM_MALLOC_NORMAL_ONLY);
        if (code != ACL_SUCCESS) {
            CHECK_CODE(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
            CHECK_TEXT("other processes");
            break;
        }
        CHECK_OK(aclrtMemset(blocks[count], PIECE, me + 1, PIECE));
    }
    return count;
}

static void take_all(void)
{
    static void *blocks[MOST];
    size_t left = 0, total = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    pthread_barrier_wait(&both->barrier);
    int count = both->pieces[me] = to_the_end(blocks);
    pthread_barrier_wait(&both->barrier);
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    CHECK(left < 3 * PIECE);
    for (int i = 0; i < count; i++) {
        unsigned char byte = 0;
        CHECK_OK(aclrtMemcpy(&byte, 1, (char *)blocks[i] + PIECE - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(byte, me + 1);
    }
    pthread_barrier_wait(&both->barrier);
    if (me == 1) {
        /* What this process gives back, the other gets. */
        for (int i = 0; i < count; i++)
            CHECK_OK(aclrtFree(blocks[i]));
        CHECK_OK(aclrtSynchronizeDevice());
        CHECK_OK(aclrtResetDevice(0));
        CHECK_OK(aclrtResetDevice(1));
        CHECK_OK(aclFinalize());
    }
    pthread_barrier_wait(&both->barrier);
    if (me == 0)
        both->again = to_the_end(blocks);
}

int main(void)
{
    pthread_barrierattr_t shared;
    pid_t children[2];
    GROUP("acl_3_2_51 two processes and two devices take what there is: 207001, no kill");
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&both->barrier, &shared, 2);
    fflush(NULL);
    for (me = 0; me < 2; me++) {
        children[me] = fork();
        if (children[me] == 0) {
            check_failures = 0;
            start_watchdog();
            take_all();
            exit(check_failures != 0);
        }
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(child_status(children[i]), 0);
    printf("%d and %d pieces of %d, then %d more\n", both->pieces[0], both->pieces[1], PIECES, both->again);
    CHECK(both->pieces[0] + both->pieces[1] <= PIECES);
    CHECK(both->pieces[0] + both->pieces[1] > PIECES / 2);

    GROUP("acl_3_2_51 what one process gives back, the other gets");
    CHECK(both->again >= both->pieces[1] - 2 * (64 << 20) / PIECE);
    CHECK(both->pieces[0] + both->again <= PIECES);
    return END();
}
