/* Forking before the runtime is used, after, and with work pending. */
#include "child.h"
#include "acl/acl_op_compiler.h"

static aclrtStream stream;
static aclrtEvent event;
static aclrtContext context;
static void *memory, *pinned;
static Gate gate = GATE_CLOSED;

static void full_use(void)
{
    int flag = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

/* The driver's count, by which torch_npu finds out whether there is a device. */
extern int drvGetDevNum(uint32_t *count);

static void asked(void)
{
    uint32_t devices = 0, driver_devices = 0;
    int32_t number = -1, mapped = -1;
    int64_t value = 0;
    char runtime[] = "runtime", text[ACL_PKG_VERSION_MAX_SIZE];
    aclrtRunMode mode;
    aclrtFloatOverflowMode overflow;
    CHECK_EQ(drvGetDevNum(&devices), 0);
    CHECK_OK(aclrtGetDeviceCount(&driver_devices));
    CHECK(devices == 2 && driver_devices == 2);
    CHECK(drvGetDevNum(NULL) != 0);
    CHECK(aclrtGetSocName() != NULL);
    CHECK_OK(aclrtGetPhyDevIdByUserDevId(1, &mapped));
    CHECK_EQ(mapped, 1);
    CHECK_OK(aclrtGetUserDevIdByPhyDevId(1, &mapped));
    CHECK_OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
    CHECK(value > 0);
    CHECK_OK(aclrtDeviceCanAccessPeer(&number, 0, 1));
    CHECK_OK(aclrtGetVersion(&number, &number, &number));
    CHECK_OK(aclsysGetVersionStr(runtime, text));
    CHECK_OK(aclrtGetRunMode(&mode));
    CHECK_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    CHECK_OK(aclrtGetDeviceSatMode(&overflow));
    CHECK_FAIL(aclrtGetDeviceInfo(9, ACL_DEV_ATTR_AICPU_CORE_NUM, &value), ACL_ERROR_RT_INVALID_DEVICEID, "9");
}

#define DEAD(call) CHECK_CODE(call, ACL_ERROR_RT_INTERNAL_ERROR)

static void dead_devices(void)
{
    uint32_t count;
    int32_t number;
    int64_t value;
    uint64_t left;
    size_t a, b;
    char text[ACL_PKG_VERSION_MAX_SIZE], runtime[] = "runtime";
    aclCANNPackageVersion version;
    aclrtRunMode mode;
    aclrtContext created;
    DEAD(aclInit(NULL));
    DEAD(aclFinalize());
    DEAD(aclFinalizeReference(&left));
    DEAD(aclrtGetVersion(&number, &number, &number));
    DEAD(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
    DEAD(aclsysGetVersionStr(runtime, text));
    DEAD(aclsysGetVersionNum(runtime, &number));
    DEAD(aclrtGetRunMode(&mode));
    DEAD(aclrtGetDeviceCount(&count));
    DEAD(aclrtSetDevice(0));
    DEAD(aclrtResetDevice(0));
    DEAD(aclrtResetDeviceForce(0));
    DEAD(aclrtGetDevice(&number));
    DEAD(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, &value));
    DEAD(aclrtGetMemInfo(ACL_HBM_MEM, &a, &b));
    DEAD(aclrtDeviceEnablePeerAccess(1, 0));
    DEAD(aclrtSynchronizeDevice());
    DEAD(aclrtSynchronizeDeviceWithTimeout(100));
    DEAD(aclrtDeviceGetBareTgid(&number));
    created = (void *)&created;
    DEAD(aclrtCreateContext(&created, 0));
    CHECK(created == NULL);
    void *memory = (void *)&created;
    DEAD(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(memory == NULL);
    DEAD(aclrtDestroyContext(context));
    DEAD(aclrtSetCurrentContext(context));
    DEAD(aclrtGetCurrentContext(&created));
    DEAD(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    DEAD(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    DEAD(aclSetCompileopt(ACL_PRECISION_MODE, "x"));
    DEAD(aclrtProcessReport(1));
    DEAD(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    DEAD(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}

static void dead_streams(void)
{
    aclrtStream created;
    aclrtEvent another;
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    uint32_t number;
    float ms;
    DEAD(aclrtCreateStream(&created));
    DEAD(aclrtCreateStreamWithConfig(&created, 0, 0));
    DEAD(aclrtDestroyStream(stream));
    DEAD(aclrtDestroyStreamForce(stream));
    DEAD(aclrtStreamAbort(stream));
    DEAD(aclrtStreamQuery(stream, &status));
    DEAD(aclrtSynchronizeStream(stream));
    DEAD(aclrtSynchronizeStreamWithTimeout(stream, 100));
    DEAD(aclrtStreamGetFlags(stream, &number));
    DEAD(aclrtSetStreamFailureMode(stream, 0));
    DEAD(aclrtLaunchHostFunc(stream, raise_flag, &number));
    DEAD(aclrtCreateEvent(&another));
    DEAD(aclrtDestroyEvent(event));
    DEAD(aclrtRecordEvent(event, stream));
    DEAD(aclrtStreamWaitEvent(stream, event));
    DEAD(aclrtResetEvent(event, stream));
    DEAD(aclrtQueryEventStatus(event, &recorded));
    DEAD(aclrtSynchronizeEvent(event));
    DEAD(aclrtEventElapsedTime(&ms, event, event));
    DEAD(aclrtRegStreamStateCallback("x", NULL, NULL));
    CHECK(aclrtCreateStreamConfigHandle() == NULL);
}

static void dead_memory(void)
{
    void *created = NULL;
    char bytes[64];
    aclrtPtrAttributes attributes;
    DEAD(aclrtMalloc(&created, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    DEAD(aclrtMallocHost(&created, 64));
    DEAD(aclrtFree(memory));
    DEAD(aclrtFreeWithDevSync(memory));
    DEAD(aclrtFreeHost(pinned));
    DEAD(aclrtMemset(memory, 64, 0, 64));
    DEAD(aclrtMemsetAsync(memory, 64, 0, 64, stream));
    DEAD(aclrtMemcpy(bytes, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    DEAD(aclrtMemcpyAsync(bytes, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    DEAD(aclrtPointerGetAttributes(memory, &attributes));
    DEAD(aclrtHostRegister(bytes, 64, ACL_HOST_REGISTER_MAPPED, &created));
    DEAD(aclrtHostUnregister(bytes));
    CHECK(aclCreateDataBuffer(bytes, 64) == NULL);
    CHECK(aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND) == NULL);
    CHECK(aclrtGetSocName() == NULL);
}

static void dead(void)
{
    const char *text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "fork"));
    dead_devices();
    dead_streams();
    dead_memory();
    text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "fork"));
    ACL_APP_LOG(ACL_ERROR, "a line from the child");
}

static void quick_end(void)
{
    DEAD(aclrtSynchronizeDevice());
    fflush(NULL);
    _exit(check_failures != 0);
}

static void become_another(void)
{
    execl("/bin/true", "true", (char *)NULL);
    CHECK(!"exec failed");
}

static int stop;
static int submitted;

static void submit_for_ever(void *unused)
{
    (void)unused;
    aclrtStream own = NULL;
    void *block = NULL;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&own));
    while (!raised(&stop)) {
        CHECK_OK(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtMemsetAsync(block, 4096, 1, 4096, own));
        CHECK_OK(aclrtSynchronizeStream(own));
        CHECK_OK(aclrtFree(block));
        aclrtSetDevice(99);
        count_up(&submitted);
    }
    CHECK_OK(aclrtDestroyStream(own));
    CHECK_OK(aclrtResetDevice(0));
}

static void in_the_middle(void)
{
    GROUP("acl_3_2_63 forks while other threads are inside the library");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(submit_for_ever, NULL);
    for (int i = 0; i < 30; i++) {
        int now = raised(&submitted);
        SPIN_UNTIL(raised(&submitted) > now + 5);
        CHECK_EQ(in_child(i & 1 ? quick_end : dead_memory, 30), 0);
    }
    raise_flag(&stop);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
}

int main(void)
{
    int flag = 0;
    GROUP("acl_3_2_63 a fork before the runtime is used: the child is free to use it");
    CHECK_EQ(in_child(full_use, 60), 0);
    CHECK_EQ(in_child(full_use, 60), 0);

    GROUP("acl_3_2_63 questions that touch no device start nothing: a fork afterwards is as one before");
    asked();
    CHECK_EQ(in_child(full_use, 60), 0);
    CHECK_EQ(in_child(asked, 60), 0);

    GROUP("acl_3_2_63 a fork afterwards: every call of the child is 507000, nothing hangs");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtCreateContext(&context, 0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(in_child(dead, 60), 0);
    CHECK_EQ(in_child(quick_end, 60), 0);
    CHECK_EQ(in_child(become_another, 60), 0);
    CHECK_EQ(system("true"), 0);

    GROUP("acl_3_2_63 the parent goes on");
    CHECK_NO_TEXT();
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);

    GROUP("acl_3_2_63 a fork with work pending");
    flag = 0;
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_EQ(in_child(dead, 60), 0);
    CHECK_EQ(in_child(quick_end, 60), 0);
    CHECK_EQ(raised(&flag), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    unsigned char byte = 0;
    CHECK_OK(aclrtMemcpy(&byte, 1, (char *)memory + 77, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 1);

    in_the_middle();
    CHECK_OK(aclrtDestroyContext(context));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
