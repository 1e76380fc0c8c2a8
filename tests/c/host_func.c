// env:
// env: CAIRN_WORKERS=1
/* Host functions: where they run, in which order, what they may call. */
#include "gate.h"

static aclrtStream stream;
static pthread_t runner;
static int numbers[1000], number_count;
static int codes[8];

static void record_thread(void *unused)
{
    (void)unused;
    runner = pthread_self();
}

static void record_number(void *number)
{
    int index = __atomic_fetch_add(&number_count, 1, __ATOMIC_SEQ_CST);
    numbers[index] = (int)(intptr_t)number;
}

static void order(void)
{
    GROUP("acl_3_2_50 a thread of the runtime runs them, in the order of the stream");
    CHECK_OK(aclrtLaunchHostFunc(stream, record_thread, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(!pthread_equal(runner, pthread_self()));
    for (intptr_t i = 0; i < 1000; i++)
        CHECK_OK(aclrtLaunchHostFunc(stream, record_number, (void *)i));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(number_count, 1000);
    for (int i = 0; i < 1000; i++)
        if (numbers[i] != i) {
            CHECK_EQ(numbers[i], i);
            break;
        }
    CHECK_FAIL(aclrtLaunchHostFunc(stream, NULL, NULL), ACL_ERROR_INVALID_PARAM, "fn");
}

static void blocking(void)
{
    static Gate gate = GATE_CLOSED;
    unsigned char *pinned = NULL;
    void *memory = NULL;
    int flag = 0;
    GROUP("acl_3_2_50 the stream waits for them");
    CHECK_OK(aclrtMallocHost((void **)&pinned, 4096));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    memset(pinned, 1, 4096);
    CHECK_OK(aclrtMemset(memory, 4096, 2, 4096));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(pinned, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(*(volatile unsigned char *)pinned, 1);
    CHECK_EQ(raised(&flag), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(pinned[0], 2);
    CHECK_EQ(pinned[4095], 2);
    CHECK_EQ(raised(&flag), 1);
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFree(memory));
}

static void call_acl(void *other)
{
    void *memory = NULL;
    int flag = 0;
    codes[0] = aclrtSynchronizeStream(stream);
    codes[1] = aclrtSetDevice(0);
    codes[2] = aclrtSynchronizeStream(stream);
    codes[3] = aclrtLaunchHostFunc(other, raise_flag, &flag);
    codes[4] = aclrtSynchronizeStream(other);
    codes[5] = raised(&flag);
    codes[6] = aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    codes[6] |= aclrtMemset(memory, 4096, 1, 4096);
    codes[6] |= aclrtFree(memory);
    codes[7] = aclrtResetDevice(0);
}

static void submit_more(void *left)
{
    int *count = left;
    if (--*count > 0) {
        aclrtSetDevice(0);
        aclrtLaunchHostFunc(stream, submit_more, left);
        aclrtResetDevice(0);
    }
}

static void calls_inside(void)
{
    aclrtStream other = NULL;
    GROUP("acl_3_2_50 they may use ACL, but not wait for their own stream");
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtLaunchHostFunc(stream, call_acl, other));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(codes[0] == ACL_ERROR_RT_CONTEXT_NULL || codes[0] == ACL_ERROR_RT_STREAM_CONTEXT
        || codes[0] == ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(codes[1], 0);
    CHECK_EQ(codes[2], ACL_ERROR_RT_PARAM_INVALID);
    CHECK_EQ(codes[3], 0);
    CHECK_EQ(codes[4], 0);
    CHECK_EQ(codes[5], 1);
    CHECK_EQ(codes[6], 0);
    CHECK_EQ(codes[7], 0);
    CHECK_OK(aclrtDestroyStream(other));
    int left = 100;
    CHECK_OK(aclrtLaunchHostFunc(stream, submit_more, &left));
    SPIN_UNTIL(raised(&left) == 0);
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void many_blocked(void)
{
    static Gate gate = GATE_CLOSED;
    enum { COUNT = 64 };
    aclrtStream streams[COUNT];
    int flag = 0;
    GROUP("acl_3_2_50 blocked host functions block no other stream");
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        CHECK_OK(aclrtLaunchHostFunc(streams[i], gate_hold, &gate));
    }
    gate_wait_entered(&gate, COUNT);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    gate_open(&gate);
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(aclrtDestroyStream(streams[i]));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    order();
    blocking();
    calls_inside();
    many_blocked();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
