// breaks: wrong-free
/* Devices: numbers, reference counts, the device of a thread, figures. */
#include "gate.h"

static void without_device(void *unused)
{
    (void)unused;
    int32_t id = -1;
    size_t free_bytes, total;
    void *memory = &id, *pinned = NULL;
    aclrtStream stream;
    aclrtEvent event;
    aclrtContext context;
    aclrtStreamStatus status;
    aclrtFloatOverflowMode mode;
    char a[8] = "1234567", b[8] = "";
    uint32_t available;
    GROUP("acl_3_2_17 without a device everything that needs one is 107002");
    CHECK_FAIL(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    CHECK_CODE(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCtxGetCurrentDefaultStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK(memory == NULL);
    CHECK_CODE(aclrtMallocAlign32(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMallocCached(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(
        aclrtMallocWithCfg(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCreateStreamWithConfig(&stream, 0, 0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCreateEvent(&event), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(10), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(NULL, 10), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtStreamQuery(NULL, &status), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtLaunchHostFunc(NULL, raise_flag, &id), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMemsetAsync(b, 8, 0, 8, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(
        aclrtMemcpyAsync(b, 8, a, 8, ACL_MEMCPY_HOST_TO_HOST, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMemcpy(b, 8, a, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtGetStreamAvailableNum(&available), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtGetEventAvailNum(&available), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSetOpWaitTimeout(5), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSetOpExecuteTimeOut(5), ACL_ERROR_RT_CONTEXT_NULL);

    GROUP("acl_3_2_17 what needs no device works without one");
    CHECK_OK(aclrtGetDeviceSatMode(&mode));
    CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    CHECK_OK(aclrtGetDeviceSatMode(&mode));
    CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_SATURATION);
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    CHECK_FAIL(aclrtSetDeviceSatMode((aclrtFloatOverflowMode)2), ACL_ERROR_RT_PARAM_INVALID, "2");
    CHECK_FAIL(aclrtGetDeviceSatMode(NULL), ACL_ERROR_INVALID_PARAM, "mode");
    CHECK_OK(aclrtMemcpy(b, 8, a, 8, ACL_MEMCPY_HOST_TO_HOST));
    CHECK(memcmp(a, b, 8) == 0);
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_OK(aclrtFreeHost(pinned));
}

static void numbers(void)
{
    uint32_t count = 0;
    GROUP("acl_3_2_13 device numbers");
    CHECK_OK(aclrtGetDeviceCount(&count));
    CHECK_EQ(count, 2);
    CHECK_FAIL(aclrtGetDeviceCount(NULL), ACL_ERROR_INVALID_PARAM, "count");
    static const int32_t bad[] = {2, -1, 16, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", bad[i]);
        CHECK_FAIL(aclrtSetDevice(bad[i]), ACL_ERROR_RT_INVALID_DEVICEID, text);
        CHECK_FAIL(aclrtResetDevice(bad[i]), ACL_ERROR_RT_INVALID_DEVICEID, text);
        CHECK_FAIL(aclrtResetDeviceForce(bad[i]), ACL_ERROR_RT_INVALID_DEVICEID, text);
    }
    int32_t id = 0;
    CHECK_CODE(aclrtGetDevice(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
}

typedef struct ThreadState {
    aclrtContext context;
    aclrtStream stream;
    int32_t expected;
} ThreadState;

static void read_thread_state(void *argument)
{
    ThreadState *state = argument;
    int32_t id = -1;
    CHECK_CODE(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_OK(aclrtSetDevice(state->expected));
    CHECK_OK(aclrtGetDevice(&id));
    CHECK_EQ(id, state->expected);
    CHECK_OK(aclrtGetCurrentContext(&state->context));
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&state->stream));
    CHECK_OK(aclrtResetDevice(state->expected));
}

static void per_thread(void)
{
    ThreadState main_thread = {0}, on_device_0 = {0}, on_device_1 = {0};
    int32_t id = -1, flag = 0;
    on_device_1.expected = 1;
    GROUP("acl_3_2_13 the current device belongs to the thread");
    CHECK_OK(aclrtSetDevice(0));
    on_thread(read_thread_state, &on_device_0);
    on_thread(read_thread_state, &on_device_1);
    CHECK_OK(aclrtGetDevice(&id));
    CHECK_EQ(id, 0);

    GROUP("acl_3_2_14 one primary context with one default stream, shared by all threads");
    CHECK_OK(aclrtGetCurrentContext(&main_thread.context));
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&main_thread.stream));
    CHECK(main_thread.context && main_thread.stream);
    CHECK(main_thread.context == on_device_0.context && main_thread.stream == on_device_0.stream);
    CHECK(main_thread.context != on_device_1.context && main_thread.stream != on_device_1.stream);
    CHECK_OK(aclrtLaunchHostFunc(main_thread.stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK_EQ(raised(&flag), 1);
    CHECK_CODE(aclrtGetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtCtxGetCurrentDefaultStream(NULL), ACL_ERROR_INVALID_PARAM);
    CHECK_OK(aclrtResetDevice(0));
}

static void lose_device(void *argument)
{
    pthread_barrier_t *barrier = argument;
    int32_t id = -1;
    CHECK_OK(aclrtSetDevice(1));
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    CHECK_CODE(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
}

static void counts(void)
{
    int32_t id = -1;
    int flag = 0;
    void *memory = NULL, *more = NULL;
    aclrtStream stream = NULL;
    aclrtStreamStatus status;
    GROUP("acl_3_2_15 set and reset are counted");
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtGetDevice(&id));
    CHECK_EQ(id, 1);
    CHECK_OK(aclrtStreamQuery(stream, &status));

    GROUP("acl_3_2_15 the last reset waits for pending work and frees");
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_EQ(raised(&flag), 1);
    CHECK_CODE(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMalloc(&more, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_FAIL(aclrtResetDevice(1), ACL_ERROR_RT_CONTEXT_NULL, "1");

    GROUP("acl_3_2_15 the last reset takes the device from every thread");
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t thread = start_thread(lose_device, &barrier);
    pthread_barrier_wait(&barrier);
    CHECK_OK(aclrtResetDevice(1));
    pthread_barrier_wait(&barrier);
    join_thread(thread);
    pthread_barrier_destroy(&barrier);
}

static void force(void)
{
    int32_t id = -1;
    GROUP("acl_3_2_16 force frees whatever the count is");
    for (int i = 0; i < 3; i++)
        CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_CODE(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_FAIL(aclrtResetDeviceForce(0), ACL_ERROR_RT_CONTEXT_NULL, "0");
    CHECK_CODE(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    for (int i = 0; i < 3; i++)
        CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtGetDevice(&id));
    CHECK_OK(aclrtResetDevice(0));
}

/* What nobody has recorded ends no wait; a reset by force does. What can run has run. */
static void force_with_waits(void)
{
    aclrtEvent plain = NULL, recorded = NULL;
    aclrtNotify notify = NULL;
    aclrtStream streams[3];
    int flags[3] = {0, 0, 0};
    GROUP("acl_3_2_16 force does not wait for what nobody records");
    CHECK_OK(aclrtSetDevice(0));
    for (int i = 0; i < 3; i++)
        CHECK_OK(aclrtCreateStream(&streams[i]));
    CHECK_OK(aclrtCreateEvent(&plain));
    CHECK_OK(aclrtCreateEvent(&recorded));
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    CHECK_OK(aclrtStreamWaitEvent(streams[0], plain));
    CHECK_OK(aclrtLaunchHostFunc(streams[0], raise_flag_late, &flags[0]));
    CHECK_OK(aclrtRecordEvent(recorded, streams[0]));
    CHECK_OK(aclrtWaitAndResetNotify(notify, streams[1], 0));
    CHECK_OK(aclrtStreamWaitEvent(streams[1], plain));
    CHECK_OK(aclrtLaunchHostFunc(streams[1], raise_flag, &flags[1]));
    CHECK_OK(aclrtStreamWaitEvent(streams[2], recorded));
    CHECK_OK(aclrtLaunchHostFunc(streams[2], raise_flag, &flags[2]));
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK(raised(&flags[0]) && raised(&flags[1]) && raised(&flags[2]));
    CHECK_OK(aclrtDestroyEvent(plain));
    CHECK_OK(aclrtDestroyEvent(recorded));
    CHECK_OK(aclrtDestroyNotify(notify));
}

static void figures(void)
{
    int64_t value = -1;
    int32_t number = -1;
    size_t free_bytes = 0, total = 0;
    CHECK_OK(aclrtSetDevice(0));
    GROUP("acl_3_2_18 figures of a device");
    static const int attrs[] = {
        ACL_DEV_ATTR_AICPU_CORE_NUM, ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM,
        ACL_DEV_ATTR_VECTOR_CORE_NUM, ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE,
        ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, ACL_DEV_ATTR_L2_CACHE_SIZE};
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        value = -1;
        CHECK_OK(aclrtGetDeviceInfo(0, (aclrtDevAttr)attrs[i], &value));
        if (!CHECK(value > 0))
            printf("  for attribute %d\n", attrs[i]);
    }
    CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_IS_VIRTUAL, &value));
    CHECK_OK(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_PHY_CHIP_ID, &value));
    CHECK_EQ(value, 1);
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
    CHECK_EQ(value, total);
    CHECK_FAIL(
        aclrtGetDeviceInfo(9, ACL_DEV_ATTR_AICPU_CORE_NUM, &value), ACL_ERROR_RT_INVALID_DEVICEID, "9");
    CHECK_FAIL(aclrtGetDeviceInfo(0, (aclrtDevAttr)999, &value), ACL_ERROR_RT_PARAM_INVALID, "999");
    CHECK_FAIL(
        aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, NULL), ACL_ERROR_INVALID_PARAM, "value");

    CHECK_OK(aclrtGetDeviceCapability(0, ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV, &number));
    CHECK(number == ACL_DEV_FEATURE_SUPPORT || number == ACL_DEV_FEATURE_NOT_SUPPORT);
    CHECK_OK(aclrtGetDeviceCapability(1, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &number));
    CHECK_FAIL(
        aclrtGetDeviceCapability(-3, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, &number),
        ACL_ERROR_RT_INVALID_DEVICEID, "-3");
    CHECK_FAIL(
        aclrtGetDeviceCapability(0, (aclrtDevFeatureType)777, &number), ACL_ERROR_RT_PARAM_INVALID,
        "777");
    CHECK_FAIL(
        aclrtGetDeviceCapability(0, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV, NULL),
        ACL_ERROR_INVALID_PARAM, "value");

    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_ABNORMAL;
    CHECK_OK(aclrtQueryDeviceStatus(1, &status));
    CHECK_EQ(status, ACL_RT_DEVICE_STATUS_NORMAL);
    CHECK_FAIL(aclrtQueryDeviceStatus(2, &status), ACL_ERROR_RT_INVALID_DEVICEID, "2");
    CHECK_FAIL(aclrtQueryDeviceStatus(0, NULL), ACL_ERROR_INVALID_PARAM, "deviceStatus");

    aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    CHECK_OK(aclrtGetDeviceSatMode(&mode));
    CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_SATURATION);
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    CHECK_OK(aclrtGetDeviceSatMode(&mode));
    CHECK_EQ(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
    CHECK_FAIL(aclrtSetDeviceSatMode((aclrtFloatOverflowMode)7), ACL_ERROR_RT_PARAM_INVALID, "7");
    CHECK_FAIL(aclrtGetDeviceSatMode(NULL), ACL_ERROR_INVALID_PARAM, "mode");

    GROUP("acl_3_2_63 the process id");
    CHECK_OK(aclrtDeviceGetBareTgid(&number));
    CHECK_EQ(number, getpid());
    CHECK_FAIL(aclrtDeviceGetBareTgid(NULL), ACL_ERROR_INVALID_PARAM, "pid");
    CHECK_OK(aclrtResetDevice(0));
}

static void memory_info(void)
{
    GROUP("acl_3_2_62 free and total memory, by attribute");
    size_t free_bytes, total, hbm_free = 0, hbm_total = 0;
    void *memory = NULL;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &hbm_free, &hbm_total));
    CHECK(hbm_total > 0 && hbm_free <= hbm_total && hbm_total <= (size_t)64 << 30);
    for (int attr = ACL_DDR_MEM; attr <= ACL_MEM_P2P_HUGE1G; attr++) {
        int none = attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL
            || attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL
            || attr == ACL_HBM_MEM_HUGE1G || attr == ACL_HBM_MEM_P2P_HUGE1G
            || attr == ACL_MEM_HUGE1G || attr == ACL_MEM_P2P_HUGE1G;
        free_bytes = total = 12345;
        CHECK_OK(aclrtGetMemInfo((aclrtMemAttr)attr, &free_bytes, &total));
        if (!CHECK_EQ(total, none ? 0 : hbm_total) || !CHECK_EQ(free_bytes, none ? 0 : hbm_free))
            printf("  for attribute %d\n", attr);
    }
    CHECK_FAIL(aclrtGetMemInfo((aclrtMemAttr)18, &free_bytes, &total), ACL_ERROR_INVALID_PARAM, "18");
    CHECK_CODE(aclrtGetMemInfo((aclrtMemAttr)-1, &free_bytes, &total), ACL_ERROR_INVALID_PARAM);
    CHECK_FAIL(aclrtGetMemInfo(ACL_HBM_MEM, NULL, &total), ACL_ERROR_INVALID_PARAM, "free");
    CHECK_FAIL(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, NULL), ACL_ERROR_INVALID_PARAM, "total");
    CHECK_OK(aclrtMalloc(&memory, 64 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK(hbm_free - free_bytes >= 64 << 20 && hbm_free - free_bytes <= 70 << 20);
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    CHECK_EQ(free_bytes, hbm_free);
    CHECK_OK(aclrtResetDevice(0));
}

#define CONVERT(function, in) \
    do { \
        int32_t out = -1; \
        CHECK_OK(function(in, &out)); \
        CHECK_EQ(out, in); \
        CHECK_FAIL(function(in, NULL), ACL_ERROR_INVALID_PARAM, #function); \
        CHECK_FAIL(function(31, &out), ACL_ERROR_RT_INVALID_DEVICEID, "31"); \
        CHECK_FAIL(function(-1, &out), ACL_ERROR_RT_INVALID_DEVICEID, "-1"); \
    } while (0)

static void conversions(void)
{
    GROUP("acl_3_2_21 numbers of a device, without renumbering");
    for (int32_t id = 0; id < 2; id++) {
        CONVERT(aclrtGetLogicDevIdByUserDevId, id);
        CONVERT(aclrtGetUserDevIdByLogicDevId, id);
        CONVERT(aclrtGetPhyDevIdByLogicDevId, id);
        CONVERT(aclrtGetLogicDevIdByPhyDevId, id);
        CONVERT(aclrtGetPhyDevIdByUserDevId, id);
        CONVERT(aclrtGetUserDevIdByPhyDevId, id);
    }
}

static void synchronize(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtStream stream = NULL, second = NULL;
    int flag = 0;
    GROUP("acl_3_2_31 synchronizing a device");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(raised(&flag), 1);
    gate_put(&gate, second);
    CHECK_FAIL(
        aclrtSynchronizeDeviceWithTimeout(30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "aclrtSynchronizeDeviceWithTimeout");
    CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(0), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK_FAIL(aclrtSynchronizeDeviceWithTimeout(-2), ACL_ERROR_RT_PARAM_INVALID, "-2");
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeDeviceWithTimeout(-1));
    CHECK_OK(aclrtSynchronizeDeviceWithTimeout(1000));
    CHECK_OK(aclrtSetOpExecuteTimeOut(5));
    CHECK_OK(aclrtSetOpWaitTimeout(0));
    CHECK_OK(aclrtResetDevice(0));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    without_device(NULL);
    numbers();
    per_thread();
    counts();
    force();
    force_with_waits();
    figures();
    memory_info();
    conversions();
    synchronize();
    CHECK_OK(aclFinalize());
    return END();
}
