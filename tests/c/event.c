/* Events: recording, waiting, querying, timing. */
#include "gate.h"

static Gate gate = GATE_CLOSED;
static aclrtStream a, b;

static int old_status(aclrtEvent event)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    CHECK_OK(aclrtQueryEvent(event, &status));
    return (int)status;
}

static int new_status(aclrtEvent event)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)77;
    CHECK_OK(aclrtQueryEventStatus(event, &status));
    return (int)status;
}

static int wait_status(aclrtEvent event)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    CHECK_OK(aclrtQueryEventWaitStatus(event, &status));
    return (int)status;
}

static void plain(void)
{
    aclrtEvent event = NULL;
    float ms = -1;
    GROUP("acl_3_2_39 aclrtCreateEvent gives an event with time that streams can wait for");
    CHECK_FAIL(aclrtCreateEvent(NULL), ACL_ERROR_INVALID_PARAM, "event");
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_OK(aclrtEventElapsedTime(&ms, event, event));
    CHECK(ms == 0);
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_CODE(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_FAIL(aclrtDestroyEvent(NULL), ACL_ERROR_INVALID_PARAM, "event");
}

static void flags(void)
{
    aclrtEvent event = NULL;
    GROUP("acl_3_2_40 without SYNC no stream waits for an event and it is not reset");
    CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE));
    CHECK_FAIL(aclrtStreamWaitEvent(a, event), ACL_ERROR_RT_PARAM_INVALID, "SYNC");
    CHECK_FAIL(aclrtStreamWaitEventWithTimeout(a, event, 1), ACL_ERROR_RT_PARAM_INVALID, "SYNC");
    CHECK_FAIL(aclrtResetEvent(event, a), ACL_ERROR_RT_PARAM_INVALID, "SYNC");
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtResetEvent(event, b));
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_OK(aclrtDestroyEvent(event));

    GROUP("acl_3_2_40 with EXTERNAL alone, as torch_npu makes events of graphs: a wait holds until the record, a reset ends it");
    int passed = 0;
    CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
    for (int round = 1; round <= 2; round++) {
        CHECK_OK(aclrtStreamWaitEvent(b, event));
        CHECK_OK(aclrtResetEvent(event, b));
        CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &passed));
        CHECK_CODE(aclrtSynchronizeStreamWithTimeout(b, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        CHECK_EQ(raised(&passed), 0);
        CHECK_OK(aclrtRecordEvent(event, a));
        CHECK_OK(aclrtSynchronizeStream(b));
        CHECK_EQ(raised(&passed), 1);
        passed = 0;
    }
    CHECK_OK(aclrtDestroyEvent(event));

    GROUP("acl_3_2_39 flags that do not exist");
    CHECK_FAIL(aclrtCreateEventWithFlag(NULL, 1), ACL_ERROR_INVALID_PARAM, "event");
    CHECK_FAIL(aclrtCreateEventExWithFlag(NULL, 1), ACL_ERROR_INVALID_PARAM, "event");
    static const uint32_t bad[] = {0, 4, 128, 0x80000000u, 9 | 256};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAIL(aclrtCreateEventWithFlag(&event, bad[i]), ACL_ERROR_RT_PARAM_INVALID, "flag");
        CHECK_FAIL(aclrtCreateEventExWithFlag(&event, bad[i]), ACL_ERROR_RT_PARAM_INVALID, "flag");
    }
    GROUP("acl_3_2_49 events between processes have no other flag");
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_FAIL(
        aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC | ACL_EVENT_SYNC), ACL_ERROR_RT_PARAM_INVALID, "flag");
}

static void ex_events(void)
{
    aclrtEvent event = NULL;
    aclrtEventStatus status;
    aclrtEventWaitStatus waits;
    GROUP("acl_3_2_41 functions that take no Ex event");
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    CHECK_FAIL(aclrtResetEvent(event, a), ACL_ERROR_RT_PARAM_INVALID, "aclrtCreateEventExWithFlag");
    CHECK_FAIL(aclrtQueryEvent(event, &status), ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEvent");
    CHECK_FAIL(
        aclrtQueryEventWaitStatus(event, &waits), ACL_ERROR_RT_PARAM_INVALID,
        "aclrtQueryEventWaitStatus");

    GROUP("acl_3_2_42 an Ex event that was never recorded is complete");
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, 0));
    CHECK_OK(aclrtStreamWaitEvent(a, event));
    CHECK_OK(aclrtSynchronizeStream(a));

    GROUP("acl_3_2_43 recording again does not move an earlier wait");
    static Gate second = GATE_CLOSED;
    int passed = 0;
    aclrtStream c = NULL;
    CHECK_OK(aclrtCreateStream(&c));
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &passed));
    gate_put(&second, c);
    CHECK_OK(aclrtRecordEvent(event, c));
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_EQ(raised(&passed), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(raised(&passed), 1);
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    passed = 0;
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &passed));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(b, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(raised(&passed), 0);
    gate_open(&second);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_OK(aclrtDestroyStream(c));
    CHECK_OK(aclrtDestroyEvent(event));
}

static void unrecorded(void)
{
    aclrtEvent event = NULL;
    int passed = 0;
    GROUP("acl_3_2_44 the old query says 0 for complete, the new one 1");
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_EQ(old_status(event), ACL_EVENT_STATUS_NOT_READY);
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_FAIL(aclrtSynchronizeEvent(event), ACL_ERROR_RT_INTERNAL_ERROR, "never recorded");
    CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 10), ACL_ERROR_RT_INTERNAL_ERROR);
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &passed));
    CHECK_EQ(wait_status(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(b, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_EQ(old_status(event), ACL_EVENT_STATUS_NOT_READY);
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    CHECK_EQ(raised(&passed), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(raised(&passed), 1);
    CHECK_EQ(old_status(event), ACL_EVENT_STATUS_COMPLETE);
    CHECK_EQ(new_status(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    CHECK_EQ(wait_status(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    CHECK_FAIL(aclrtQueryEvent(event, NULL), ACL_ERROR_INVALID_PARAM, "status");
    CHECK_FAIL(aclrtQueryEventStatus(event, NULL), ACL_ERROR_INVALID_PARAM, "status");
    CHECK_FAIL(aclrtQueryEventWaitStatus(event, NULL), ACL_ERROR_INVALID_PARAM, "status");

    GROUP("acl_3_2_40 a reset makes an event unrecorded");
    CHECK_OK(aclrtResetEvent(event, a));
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_EQ(old_status(event), ACL_EVENT_STATUS_NOT_READY);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_EQ(old_status(event), ACL_EVENT_STATUS_COMPLETE);
    CHECK_OK(aclrtDestroyEvent(event));
}

static void destroyed_early(void)
{
    aclrtEvent event = NULL;
    int passed = 0;
    GROUP("acl_3_2_45 destroying an event does not wait, and its waits still pass");
    CHECK_OK(aclrtCreateEvent(&event));
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &passed));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_CODE(aclrtRecordEvent(event, a), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(raised(&passed), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(raised(&passed), 1);
}

static void synchronize_with_timeout(void)
{
    aclrtEvent event = NULL;
    GROUP("acl_3_2_46 synchronizing an event with a timeout");
    CHECK_OK(aclrtCreateEvent(&event));
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(event, a));
    double start = seconds();
    CHECK_FAIL(aclrtSynchronizeEventWithTimeout(event, 40), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "40");
    CHECK(seconds() - start > 0.039);
    CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 0), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    CHECK_FAIL(aclrtSynchronizeEventWithTimeout(event, -2), ACL_ERROR_RT_PARAM_INVALID, "-2");
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, -1));
    CHECK_OK(aclrtSynchronizeEventWithTimeout(event, 10));
    CHECK_OK(aclrtDestroyEvent(event));
}

static void elapsed(void)
{
    aclrtEvent start = NULL, end = NULL, timeless = NULL, fresh = NULL;
    float ms = -1;
    uint64_t first = 0, last = 0;
    int flag = 0;
    GROUP("acl_3_2_47 elapsed time in milliseconds");
    CHECK_OK(aclrtCreateEvent(&start));
    CHECK_OK(aclrtCreateEventExWithFlag(&end, ACL_EVENT_TIME_LINE));
    CHECK_OK(aclrtCreateEventWithFlag(&timeless, ACL_EVENT_SYNC));
    CHECK_OK(aclrtCreateEvent(&fresh));
    CHECK_OK(aclrtRecordEvent(start, a));
    CHECK_OK(aclrtLaunchHostFunc(a, raise_flag_late, &flag));
    CHECK_OK(aclrtRecordEvent(end, a));
    CHECK_OK(aclrtRecordEvent(timeless, a));
    double before = seconds();
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_OK(aclrtEventElapsedTime(&ms, start, end));
    CHECK(ms >= 100 && ms < 100 + (seconds() - before) * 1000);
    CHECK_OK(aclrtEventGetTimestamp(start, &first));
    CHECK_OK(aclrtEventGetTimestamp(end, &last));
    CHECK(last - first >= 100000 && (double)(last - first) < 2 + (double)ms * 1000);
    CHECK_FAIL(aclrtEventElapsedTime(NULL, start, end), ACL_ERROR_INVALID_PARAM, "ms");
    CHECK_FAIL(aclrtEventElapsedTime(&ms, NULL, end), ACL_ERROR_INVALID_PARAM, "startEvent");
    CHECK_FAIL(aclrtEventElapsedTime(&ms, start, NULL), ACL_ERROR_INVALID_PARAM, "endEvent");
    CHECK_CODE(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
    CHECK_FAIL(
        aclrtEventElapsedTime(&ms, start, timeless), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "TIME_LINE");
    CHECK_FAIL(
        aclrtEventElapsedTime(&ms, start, fresh), ACL_ERROR_RT_INTERNAL_ERROR, "never recorded");
    CHECK_FAIL(aclrtEventGetTimestamp(fresh, &first), ACL_ERROR_RT_INTERNAL_ERROR, "never recorded");
    CHECK_CODE(aclrtEventGetTimestamp(timeless, &first), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_FAIL(aclrtEventGetTimestamp(start, NULL), ACL_ERROR_INVALID_PARAM, "timestamp");
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(end, a));
    CHECK_CODE(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    CHECK_CODE(aclrtEventGetTimestamp(end, &last), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_OK(aclrtDestroyEvent(start));
    CHECK_OK(aclrtDestroyEvent(end));
    CHECK_OK(aclrtDestroyEvent(timeless));
    CHECK_OK(aclrtDestroyEvent(fresh));
}

static void wait_with_timeout(void)
{
    aclrtEvent event = NULL;
    int later = 0;
    GROUP("acl_3_2_48 a stream waits for seconds, then the wait fails and the stream continues");
    CHECK_OK(aclrtCreateEvent(&event));
    double start = seconds();
    CHECK_OK(aclrtStreamWaitEventWithTimeout(b, event, 1));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &later));
    CHECK_FAIL(aclrtSynchronizeStream(b), ACL_ERROR_RT_WAIT_TIMEOUT, "waited");
    CHECK(seconds() - start > 0.99);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(raised(&later), 1);
    CHECK_FAIL(aclrtStreamWaitEventWithTimeout(b, event, -2), ACL_ERROR_RT_PARAM_INVALID, "-2");
    later = 0;
    CHECK_OK(aclrtStreamWaitEventWithTimeout(b, event, -1));
    CHECK_OK(aclrtStreamWaitEventWithTimeout(b, event, 0));
    CHECK_OK(aclrtStreamWaitEventWithTimeout(b, event, INT32_MAX));
    CHECK_OK(aclrtLaunchHostFunc(b, raise_flag, &later));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(b, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_EQ(raised(&later), 0);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(raised(&later), 1);

    GROUP("acl_3_2_48 the default limit of aclrtStreamWaitEvent");
    CHECK_OK(aclrtResetEvent(event, a));
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_OK(aclrtSetOpWaitTimeout(1));
    CHECK_OK(aclrtStreamWaitEvent(b, event));
    CHECK_CODE(aclrtSynchronizeStream(b), ACL_ERROR_RT_WAIT_TIMEOUT);
    CHECK_OK(aclrtSetOpWaitTimeout(0));
    CHECK_OK(aclrtDestroyEvent(event));
}

static void other_contexts_and_devices(void)
{
    aclrtContext explicit_context = NULL, primary = NULL;
    aclrtStream on_device_1 = NULL, other = NULL;
    aclrtEvent event = NULL;
    int passed = 0;
    GROUP("acl_3_2_39 waits across contexts and devices");
    CHECK_OK(aclrtGetCurrentContext(&primary));
    CHECK_OK(aclrtCreateEvent(&event));
    gate_put(&gate, a);
    CHECK_OK(aclrtRecordEvent(event, a));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&on_device_1));
    CHECK_OK(aclrtStreamWaitEvent(on_device_1, event));
    CHECK_OK(aclrtLaunchHostFunc(on_device_1, count_up, &passed));
    CHECK_OK(aclrtCreateContext(&explicit_context, 0));
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtStreamWaitEvent(other, event));
    CHECK_OK(aclrtLaunchHostFunc(other, count_up, &passed));
    CHECK_EQ(raised(&passed), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSynchronizeStream(on_device_1));
    CHECK_EQ(raised(&passed), 2);
    CHECK_OK(aclrtDestroyStream(on_device_1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtDestroyContext(explicit_context));
    CHECK_OK(aclrtSetCurrentContext(primary));
    CHECK_OK(aclrtDestroyEvent(event));
}

static void ids(void)
{
    aclrtEvent first = NULL, second = NULL;
    uint32_t x = 0, y = 0, available = 0, before = 0;
    GROUP("acl_3_2_39 ids and how many are left");
    CHECK_OK(aclrtGetEventAvailNum(&before));
    CHECK_OK(aclrtCreateEvent(&first));
    CHECK_OK(aclrtCreateEvent(&second));
    CHECK_OK(aclrtGetEventId(first, &x));
    CHECK_OK(aclrtGetEventId(second, &y));
    CHECK(x != y);
    CHECK_OK(aclrtGetEventAvailNum(&available));
    CHECK_EQ(available, before - 2);
    CHECK_FAIL(aclrtGetEventId(first, NULL), ACL_ERROR_INVALID_PARAM, "eventId");
    CHECK_FAIL(aclrtGetEventAvailNum(NULL), ACL_ERROR_INVALID_PARAM, "eventCount");
    CHECK_OK(aclrtDestroyEvent(first));
    CHECK_OK(aclrtDestroyEvent(second));
}

static void destroyed_unrecorded(void)
{
    aclrtStream waiting = NULL;
    aclrtEvent never = NULL;
    int ran = 0;
    GROUP("acl_3_2_45 destroying an event that was never recorded releases the streams that wait for it");
    CHECK_OK(aclrtCreateStream(&waiting));
    CHECK_OK(aclrtCreateEvent(&never));
    CHECK_OK(aclrtStreamWaitEvent(waiting, never));
    CHECK_OK(aclrtLaunchHostFunc(waiting, raise_flag, &ran));
    CHECK_OK(aclrtDestroyEvent(never));
    CHECK_OK(aclrtSynchronizeStream(waiting));
    CHECK_EQ(raised(&ran), 1);
    CHECK_OK(aclrtDestroyStream(waiting));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    plain();
    flags();
    ex_events();
    unrecorded();
    destroyed_early();
    synchronize_with_timeout();
    elapsed();
    wait_with_timeout();
    other_contexts_and_devices();
    ids();
    CHECK_OK(aclrtDestroyStream(a));
    CHECK_OK(aclrtDestroyStream(b));
    destroyed_unrecorded();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
