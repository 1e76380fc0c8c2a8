// env: CAIRN_HOST_MEMORY=640mib CAIRN_QUARANTINE=0
/*
 * Two processes under one limit, each with two devices, allocate and touch until there is no more: both
 * get 207001, and together they never hold more than the limit allows.
 */
#include "child.h"
#include <sys/mman.h>

enum { BLOCK = 4 << 20, MAX_BLOCKS = 256, ALLOWED_MIB = 512, ALLOWED_BLOCKS = ALLOWED_MIB * (1 << 20) / BLOCK };

/* What the two processes share. */
typedef struct SharedState {
    pthread_barrier_t barrier;
    int counts[2];
    int second_count;
} SharedState;

static SharedState *shared;
static int process;

/* Allocates and touches memory of both devices by turns until 207001. */
static int allocate_until_full(void *blocks[MAX_BLOCKS])
{
    int count = 0;
    for (; count < MAX_BLOCKS; count++) {
        CHECK_OK(aclrtSetDevice(count & 1));
        aclError code = aclrtMalloc(&blocks[count], BLOCK, ACL_MEM_MALLOC_NORMAL_ONLY);
        if (code != ACL_SUCCESS) {
            CHECK_CODE(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
            CHECK_TEXT("other processes");
            break;
        }
        CHECK_OK(aclrtMemset(blocks[count], BLOCK, process + 1, BLOCK));
    }
    return count;
}

static void run_process(void)
{
    static void *blocks[MAX_BLOCKS];
    size_t left = 0, total = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    pthread_barrier_wait(&shared->barrier);
    int count = shared->counts[process] = allocate_until_full(blocks);
    pthread_barrier_wait(&shared->barrier);
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    CHECK(left < 3 * BLOCK);
    for (int i = 0; i < count; i++) {
        unsigned char byte = 0;
        CHECK_OK(aclrtMemcpy(&byte, 1, (char *)blocks[i] + BLOCK - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(byte, process + 1);
    }
    pthread_barrier_wait(&shared->barrier);
    if (process == 1) {
        /* What this process gives back, the other gets. */
        for (int i = 0; i < count; i++)
            CHECK_OK(aclrtFree(blocks[i]));
        CHECK_OK(aclrtSynchronizeDevice());
        CHECK_OK(aclrtResetDevice(0));
        CHECK_OK(aclrtResetDevice(1));
        CHECK_OK(aclFinalize());
    }
    pthread_barrier_wait(&shared->barrier);
    if (process == 0)
        shared->second_count = allocate_until_full(blocks);
}

int main(void)
{
    pthread_barrierattr_t attributes;
    pid_t children[2];
    GROUP("acl_3_2_51 two processes on two devices allocate all there is: 207001, nobody is killed");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, 2);
    fflush(NULL);
    for (process = 0; process < 2; process++) {
        children[process] = fork();
        if (children[process] == 0) {
            check_failures = 0;
            start_watchdog();
            run_process();
            exit(check_failures != 0);
        }
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ(child_status(children[i]), 0);
    printf("%d and %d blocks of %d, then %d more\n", shared->counts[0], shared->counts[1], ALLOWED_BLOCKS, shared->second_count);
    CHECK(shared->counts[0] + shared->counts[1] <= ALLOWED_BLOCKS);
    CHECK(shared->counts[0] + shared->counts[1] > ALLOWED_BLOCKS / 2);

    GROUP("acl_3_2_51 what one process gives back, the other gets");
    CHECK(shared->second_count >= shared->counts[1] - 2 * (64 << 20) / BLOCK);
    CHECK(shared->counts[0] + shared->second_count <= ALLOWED_BLOCKS);
    return END();
}
