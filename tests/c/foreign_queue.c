// env: CAIRN_DEVICE_MEMORY=64mib
// env: CAIRN_DEVICE_MEMORY=64mib CAIRN_WORKERS=1
/* A queue of the program's own, as torch_npu has one: its thread waits in a copy on a blocked
   stream, and its next item reads memory that was freed meanwhile. That memory must not be allocated
   again, even if there is no other. */
#include "gate.h"

#define BIG ((size_t)40 << 20)

static aclrtStream stream;
static unsigned char *freed, *pinned, pageable[64];
static int tid;

static void *queue(void *unused)
{
    (void)unused;
    CHECK_OK(aclrtSetDevice(0));
    __atomic_store_n(&tid, (int)gettid(), __ATOMIC_SEQ_CST);
    CHECK_OK(aclrtMemcpyAsync(pageable, 64, pinned, 64, ACL_MEMCPY_HOST_TO_HOST, stream));
    CHECK_OK(aclrtMemcpyAsync(pageable, 64, freed, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    return NULL;
}

/* True if the queue's thread sleeps, which it only does inside its first copy. */
static int queue_sleeps(void)
{
    char path[64], text[256] = {0};
    int number = __atomic_load_n(&tid, __ATOMIC_SEQ_CST);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", number);
    FILE *file = number ? fopen(path, "r") : NULL;
    if (file == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *state = n > 0 ? strrchr(text, ')') : NULL;
    return state && state[2] == 'S';
}

int main(void)
{
    static Gate gate = GATE_CLOSED;
    void *block = NULL;
    pthread_t thread;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMallocHost((void **)&pinned, 64));
    CHECK_OK(aclrtMalloc((void **)&freed, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(freed, BIG, 'G', BIG));

    GROUP("acl_3_2_55 memory that only a queue of the program still names stays intact");
    gate_put(&gate, stream);
    CHECK(pthread_create(&thread, NULL, queue, NULL) == 0);
    SPIN_UNTIL(queue_sleeps());
    CHECK_OK(aclrtFree(freed));
    if (aclrtMalloc(&block, BIG, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS)
        CHECK_OK(aclrtMemset(block, BIG, 'B', BIG));
    else
        CHECK_TEXT("waiting for a stream");
    gate_open(&gate);
    pthread_join(thread, NULL);
    CHECK_EQ(pageable[0], 'G');
    CHECK_EQ(pageable[63], 'G');
    CHECK_OK(aclrtSynchronizeStream(stream));
    if (block)
        CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
