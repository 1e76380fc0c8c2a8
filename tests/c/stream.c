/* Streams: creation, destruction, synchronization, queries. */
#include "gate.h"

static Gate gate = GATE_CLOSED;

static void default_stream(void)
{
    aclrtStream stream = NULL;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    int flag = 0;
    GROUP("acl_3_2_27 NULL is the default stream of the current context");
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&stream));
    gate_put(&gate, NULL);
    CHECK_OK(aclrtStreamQuery(stream, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    CHECK_OK(aclrtStreamQuery(NULL, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(raised(&flag), 1);
    CHECK_FAIL(aclrtDestroyStream(stream), ACL_ERROR_RT_PARAM_INVALID, "default");
    CHECK_FAIL(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_PARAM_INVALID, "default");
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void destruction(void)
{
    aclrtStream stream = NULL;
    aclrtStreamStatus status;
    int flag = 0, dropped = 0;
    GROUP("acl_3_2_28 destroy waits for pending work");
    CHECK_FAIL(aclrtDestroyStream(NULL), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(raised(&flag), 1);
    CHECK_CODE(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_CODE(aclrtStreamQuery(stream, &status), ACL_ERROR_RT_INVALID_HANDLE);

    GROUP("acl_3_2_29 force does not wait and drops what is queued");
    CHECK_FAIL(aclrtDestroyStreamForce(NULL), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_OK(aclrtCreateStream(&stream));
    gate_put(&gate, stream);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &dropped));
    CHECK_OK(aclrtDestroyStreamForce(stream));
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(raised(&dropped), 0);
}

static void creation(void)
{
    aclrtStream stream = NULL;
    uint32_t number = 77, available = 0, before = 0;
    int32_t first = -1, second = -1, least = -1, greatest = -1;
    GROUP("acl_3_2_30 flags are kept, priority is ignored by aclrtCreateStreamWithConfig");
    CHECK_FAIL(aclrtCreateStream(NULL), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_FAIL(aclrtCreateStreamWithConfig(NULL, 0, 0), ACL_ERROR_INVALID_PARAM, "stream");
    for (uint32_t flags = 0; flags < 64; flags++) {
        CHECK_OK(aclrtCreateStreamWithConfig(&stream, 5, flags));
        CHECK_OK(aclrtStreamGetFlags(stream, &number));
        CHECK_EQ(number, flags);
        CHECK_OK(aclrtStreamGetPriority(stream, &number));
        CHECK_EQ(number, 0);
        CHECK_OK(aclrtDestroyStream(stream));
    }
    CHECK_FAIL(aclrtCreateStreamWithConfig(&stream, 0, 64), ACL_ERROR_RT_PARAM_INVALID, "0x40");
    CHECK_CODE(aclrtCreateStreamWithConfig(&stream, 0, 0xffffffff), ACL_ERROR_RT_PARAM_INVALID);

    GROUP("acl_3_2_30 ids and priorities");
    CHECK_OK(aclrtGetStreamAvailableNum(&before));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtStreamGetId(stream, &first));
    CHECK_OK(aclrtGetStreamAvailableNum(&available));
    CHECK_EQ(available, before - 1);
    aclrtStream other = NULL;
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtStreamGetId(other, &second));
    CHECK(first != second);
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_FAIL(aclrtStreamGetId(stream, NULL), ACL_ERROR_INVALID_PARAM, "streamId");
    CHECK_FAIL(aclrtStreamGetFlags(stream, NULL), ACL_ERROR_INVALID_PARAM, "flags");
    CHECK_FAIL(aclrtStreamGetPriority(stream, NULL), ACL_ERROR_INVALID_PARAM, "priority");
    CHECK_OK(aclrtStreamGetId(NULL, &first));
    CHECK_OK(aclrtStreamGetFlags(NULL, &number));
    CHECK_OK(aclrtStreamGetPriority(NULL, &number));
    CHECK_OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK_EQ(least, 7);
    CHECK_EQ(greatest, 0);
    CHECK_FAIL(aclrtDeviceGetStreamPriorityRange(NULL, NULL), ACL_ERROR_INVALID_PARAM, "Priority");
    CHECK_FAIL(aclrtGetStreamAvailableNum(NULL), ACL_ERROR_INVALID_PARAM, "streamCount");
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtGetStreamAvailableNum(&available));
    CHECK_EQ(available, before);
}

static void create_v2(void)
{
    aclrtStream stream = NULL;
    size_t flag = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC, bad_flag = 1024;
    uint32_t priority = 6, bad_priority = 8, number = 0;
    void *work = NULL;
    size_t size = 0;
    GROUP("acl_3_2_30 aclrtCreateStreamV2 honours its settings");
    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    if (!CHECK(config != NULL))
        return;
    CHECK_OK(aclrtCreateStreamV2(&stream, config));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_FLAG, &flag, sizeof flag));
    CHECK_OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
    CHECK_OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_WORK_ADDR_PTR, &work, sizeof work));
    CHECK_OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_WORK_SIZE, &size, sizeof size));
    CHECK_OK(aclrtCreateStreamV2(&stream, config));
    CHECK_OK(aclrtStreamGetFlags(stream, &number));
    CHECK_EQ(number, flag);
    CHECK_OK(aclrtStreamGetPriority(stream, &number));
    CHECK_EQ(number, 6);
    CHECK_OK(aclrtDestroyStream(stream));

    CHECK_FAIL(
        aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_FLAG, NULL, sizeof flag),
        ACL_ERROR_INVALID_PARAM, "attrValue");
    CHECK_FAIL(
        aclrtSetStreamConfigOpt(NULL, ACL_RT_STREAM_FLAG, &flag, sizeof flag),
        ACL_ERROR_INVALID_PARAM, "handle");
    CHECK_CODE(
        aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, 1),
        ACL_ERROR_INVALID_PARAM);
    CHECK_FAIL(
        aclrtSetStreamConfigOpt(config, (aclrtStreamConfigAttr)9, &flag, sizeof flag),
        ACL_ERROR_INVALID_PARAM, "9");
    CHECK_FAIL(aclrtCreateStreamV2(NULL, config), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_FAIL(aclrtCreateStreamV2(&stream, NULL), ACL_ERROR_INVALID_PARAM, "handle");
    CHECK_FAIL(aclrtDestroyStreamConfigHandle(NULL), ACL_ERROR_INVALID_PARAM, "handle");
    aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &bad_priority, sizeof bad_priority);
    CHECK_FAIL(aclrtCreateStreamV2(&stream, config), ACL_ERROR_RT_PARAM_INVALID, "8");
    CHECK_OK(aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_PRIORITY, &priority, sizeof priority));
    aclrtSetStreamConfigOpt(config, ACL_RT_STREAM_FLAG, &bad_flag, sizeof bad_flag);
    CHECK_CODE(aclrtCreateStreamV2(&stream, config), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtDestroyStreamConfigHandle(config));
    CHECK_CODE(aclrtDestroyStreamConfigHandle(config), ACL_ERROR_RT_INVALID_HANDLE);
}

static void synchronize_with_timeout(void)
{
    aclrtStream stream = NULL;
    GROUP("acl_3_2_31 synchronize with a timeout");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, 0));
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
    gate_put(&gate, stream);
    double start = seconds();
    CHECK_FAIL(
        aclrtSynchronizeStreamWithTimeout(stream, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "50");
    CHECK(seconds() - start > 0.049);
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 0), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_FAIL(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_RT_PARAM_INVALID, "-2");
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, INT32_MIN), ACL_ERROR_RT_PARAM_INVALID);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
    CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, INT32_MAX));
    CHECK_OK(aclrtDestroyStream(stream));
}

static void query(void)
{
    aclrtStream stream = NULL;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    GROUP("acl_3_2_32 a query returns 0 and reports the state");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtStreamQuery(stream, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    gate_put(&gate, stream);
    CHECK_OK(aclrtStreamQuery(stream, &status));
    CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    gate_open(&gate);
    SPIN_UNTIL(aclrtStreamQuery(stream, &status) != 0 || status == ACL_STREAM_STATUS_COMPLETE);
    CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    CHECK_FAIL(aclrtStreamQuery(stream, NULL), ACL_ERROR_INVALID_PARAM, "status");
    CHECK_OK(aclrtDestroyStream(stream));
}

static void not_waited_for(void)
{
    static const uint32_t flags[] = {
        ACL_STREAM_PERSISTENT, ACL_STREAM_DEVICE_USE_ONLY, ACL_STREAM_CPU_SCHEDULE};
    aclrtStream stream = NULL;
    GROUP("acl_3_2_33 persistent, device-only and CPU-scheduled streams are not waited for");
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, flags[i]));
        gate_put(&gate, stream);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, 0));
        gate_open(&gate);
        CHECK_OK(aclrtDestroyStream(stream));
    }
}

static void limit(void)
{
    static aclrtStream streams[2100];
    uint32_t available = 0;
    int count = 0, code = 0;
    GROUP("acl_3_2_34 at most 1984 streams on a device");
    CHECK_OK(aclrtGetStreamAvailableNum(&available));
    CHECK(available > 1900 && available <= 1984);
    (void)aclGetRecentErrMsg();
    while (count < 2100 && (code = aclrtCreateStream(&streams[count])) == 0)
        count++;
    CHECK_CODE(code, ACL_ERROR_RT_NO_STREAM_RESOURCE);
    CHECK_TEXT("1984");
    CHECK_EQ(count, available);
    CHECK_OK(aclrtGetStreamAvailableNum(&available));
    CHECK_EQ(available, 0);
    int ran = 0;
    for (int i = 0; i < count; i += 50)
        CHECK_OK(aclrtLaunchHostFunc(streams[i], count_up, &ran));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(ran, (count + 49) / 50);
    CHECK_OK(aclrtSetDevice(1));
    aclrtStream other = NULL;
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < count; i++)
        if (!CHECK_OK(aclrtDestroyStream(streams[i])))
            break;
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_OK(aclrtResetDevice(0));
}

static void expect_abort(void *stream)
{
    CHECK_OK(aclrtSetDevice(0));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT, "abort");
    CHECK_OK(aclrtResetDevice(0));
}

static void abort_stream(void)
{
    aclrtStream stream = NULL;
    int dropped = 0, later = 0;
    GROUP("acl_3_2_35 abort drops what is queued, waiters get 107023 once");
    CHECK_FAIL(aclrtStreamAbort(NULL), ACL_ERROR_INVALID_PARAM, "stream");
    CHECK_OK(aclrtCreateStream(&stream));
    gate_put(&gate, stream);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &dropped));
    pthread_t waiter = start_thread(expect_abort, stream);
    CHECK_OK(aclrtStreamAbort(stream));
    gate_open(&gate);
    join_thread(waiter);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&dropped), 0);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &later));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&later), 1);
    CHECK_OK(aclrtDestroyStream(stream));
}

static void attributes(void)
{
    aclrtStream stream = NULL;
    aclrtStreamAttrValue value;
    GROUP("acl_3_2_36 attributes of a stream");
    CHECK_OK(aclrtCreateStream(&stream));
    memset(&value, 0, sizeof value);
    const struct {
        aclrtStreamAttr attr;
        uint32_t before, after, wrong;
    } numbers[] = {
        {ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, 0, 1, 2},
        {ACL_STREAM_ATTR_CACHE_OP_INFO, 0, 1, 3},
        {ACL_STREAM_ATTR_PRIORITY, 0, 5, 8},
        {ACL_STREAM_ATTR_USER_CUSTOM_TAG, 0, 4000000000u, 0},
    };
    for (int i = 0; i < 4; i++) {
        aclrtStreamAttr attr = numbers[i].attr;
        CHECK_OK(aclrtGetStreamAttribute(stream, attr, &value));
        CHECK_EQ(value.reserve[0], numbers[i].before);
        value.reserve[0] = numbers[i].after;
        CHECK_OK(aclrtSetStreamAttribute(stream, attr, &value));
        if (numbers[i].wrong) {
            value.reserve[0] = numbers[i].wrong;
            CHECK_FAIL(aclrtSetStreamAttribute(stream, attr, &value), ACL_ERROR_RT_PARAM_INVALID, "expected 0");
        }
        memset(&value, 0x77, sizeof value);
        CHECK_OK(aclrtGetStreamAttribute(stream, attr, &value));
        CHECK_EQ(value.reserve[0], numbers[i].after);
    }
    uint32_t priority = 9, checks = 9;
    CHECK_OK(aclrtStreamGetPriority(stream, &priority));
    CHECK_EQ(priority, 5);
    CHECK_OK(aclrtGetStreamOverflowSwitch(stream, &checks));
    CHECK_EQ(checks, 1);
    value.failureMode = ACL_STOP_ON_FAILURE;
    CHECK_OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    value.failureMode = 77;
    CHECK_OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value));
    CHECK_EQ(value.failureMode, ACL_STOP_ON_FAILURE);
    CHECK_FAIL(
        aclrtSetStreamAttribute(stream, (aclrtStreamAttr)99, &value), ACL_ERROR_RT_PARAM_INVALID, "99");
    CHECK_FAIL(
        aclrtGetStreamAttribute(stream, (aclrtStreamAttr)99, &value), ACL_ERROR_RT_PARAM_INVALID, "99");
    CHECK_FAIL(
        aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, NULL),
        ACL_ERROR_INVALID_PARAM, "value");
    CHECK_FAIL(
        aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, NULL),
        ACL_ERROR_INVALID_PARAM, "value");
    CHECK_OK(aclrtDestroyStream(stream));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    default_stream();
    destruction();
    creation();
    create_v2();
    synchronize_with_timeout();
    query();
    not_waited_for();
    limit();
    abort_stream();
    attributes();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
