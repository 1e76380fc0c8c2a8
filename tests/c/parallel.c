// env:
// env: CAIRN_WORKERS=1
// env: CAIRN_WORKERS=1 CAIRN_DEVICES=1
/* Streams run in parallel, and their work completes though no host thread waits for it. */
#include "gate.h"

static int left, right;

static void meet_left(void *unused)
{
    (void)unused;
    raise_flag(&left);
    SPIN_UNTIL(raised(&right));
}

static void meet_right(void *unused)
{
    (void)unused;
    raise_flag(&right);
    SPIN_UNTIL(raised(&left));
}

static void two_streams(void)
{
    aclrtStream a = NULL, b = NULL;
    GROUP("acl_3_2_50 two host functions on two streams wait for each other");
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    for (int i = 0; i < 100; i++) {
        left = right = 0;
        CHECK_OK(aclrtLaunchHostFunc(a, meet_left, NULL));
        CHECK_OK(aclrtLaunchHostFunc(b, meet_right, NULL));
        CHECK_OK(aclrtSynchronizeStream(i & 1 ? a : b));
        CHECK_OK(aclrtSynchronizeStream(i & 1 ? b : a));
        CHECK(raised(&left) && raised(&right));
    }
    CHECK_OK(aclrtDestroyStream(a));
    CHECK_OK(aclrtDestroyStream(b));
}

static void only_polling(void)
{
    aclrtStream a = NULL, b = NULL;
    aclrtEvent event = NULL, end = NULL;
    aclrtStreamStatus stream_status = ACL_STREAM_STATUS_NOT_READY;
    aclrtEventRecordedStatus event_status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    unsigned char *pinned = NULL;
    void *memory = NULL;
    enum { SIZE = 1 << 20 };
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtCreateEventExWithFlag(&end, ACL_EVENT_SYNC));
    CHECK_OK(aclrtMallocHost((void **)&pinned, SIZE));
    CHECK_OK(aclrtMalloc(&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));

    GROUP("acl_3_2_50 work completes without a host wait: a flag in host memory");
    memset(pinned, 0, SIZE);
    CHECK_OK(aclrtMemsetAsync(memory, SIZE, 1, SIZE, a));
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtMemcpyAsync(pinned, SIZE, memory, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, b));
    SPIN_UNTIL(__atomic_load_n(&pinned[SIZE - 1], __ATOMIC_SEQ_CST) == 1);
    CHECK_OK(aclrtSynchronizeStream(b));

    GROUP("acl_3_2_50 work completes without a host wait: the status of an event");
    CHECK_OK(aclrtMemsetAsync(memory, SIZE, 2, SIZE, a));
    CHECK_OK(aclrtRecordEvent(end, a));
    CHECK_OK(aclrtStreamWaitEvent(b, end));
    CHECK_OK(aclrtMemcpyAsync(pinned, SIZE, memory, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, b));
    CHECK_OK(aclrtRecordEvent(end, b));
    SPIN_UNTIL(
        aclrtQueryEventStatus(end, &event_status) != 0 || event_status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_EQ(pinned[0], 2);
    CHECK_EQ(pinned[SIZE - 1], 2);

    GROUP("acl_3_2_50 work completes without a host wait: the status of a stream");
    CHECK_OK(aclrtMemsetAsync(memory, SIZE, 3, SIZE, a));
    CHECK_OK(aclrtMemcpyAsync(pinned, SIZE, memory, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, a));
    SPIN_UNTIL(aclrtStreamQuery(a, &stream_status) != 0 || stream_status == ACL_STREAM_STATUS_COMPLETE);
    CHECK_EQ(pinned[0], 3);
    CHECK_EQ(pinned[SIZE - 1], 3);

    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyEvent(end));
    CHECK_OK(aclrtDestroyStream(a));
    CHECK_OK(aclrtDestroyStream(b));
}

/* Every stream but the first waits for the one before it, submitted in reverse. */
static void chain(void)
{
    enum { COUNT = 200 };
    static aclrtStream streams[COUNT];
    static aclrtEvent events[COUNT];
    static Gate gate = GATE_CLOSED;
    int ran = 0;
    GROUP("acl_3_2_50 two hundred streams that wait for each other need no thread each");
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(aclrtCreateStream(&streams[i]));
        CHECK_OK(aclrtCreateEvent(&events[i]));
    }
    for (int i = COUNT - 1; i > 0; i--) {
        CHECK_OK(aclrtStreamWaitEvent(streams[i], events[i - 1]));
        CHECK_OK(aclrtLaunchHostFunc(streams[i], count_up, &ran));
        CHECK_OK(aclrtRecordEvent(events[i], streams[i]));
    }
    gate_put(&gate, streams[0]);
    CHECK_OK(aclrtRecordEvent(events[0], streams[0]));
    CHECK_EQ(raised(&ran), 0);
    gate_open(&gate);
    SPIN_UNTIL(raised(&ran) == COUNT - 1);
    CHECK_OK(aclrtSynchronizeDevice());
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(aclrtDestroyStream(streams[i]));
        CHECK_OK(aclrtDestroyEvent(events[i]));
    }
}

/* Submitting to an idle stream wakes a worker, every time. */
static void idle_workers(void)
{
    aclrtStream stream = NULL;
    GROUP("acl_3_2_50 every submit wakes a sleeping worker");
    CHECK_OK(aclrtCreateStream(&stream));
    unsigned char *pinned = NULL;
    CHECK_OK(aclrtMallocHost((void **)&pinned, 64));
    for (int i = 0; i < 1000; i++) {
        volatile int pause = i % 7 * 20000;
        CHECK_OK(aclrtMemsetAsync(pinned, 64, i, 64, stream));
        SPIN_UNTIL(__atomic_load_n(&pinned[63], __ATOMIC_SEQ_CST) == (unsigned char)i);
        while (pause > 0)
            pause = pause - 1;
    }
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtDestroyStream(stream));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    two_streams();
    only_polling();
    chain();
    idle_workers();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
