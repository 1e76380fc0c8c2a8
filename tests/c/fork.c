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

static void queries_without_device(void)
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

/* The call fails because the process was forked. */
#define FORKED(call) CHECK_CODE(call, ACL_ERROR_RT_INTERNAL_ERROR)

static void devices_after_fork(void)
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
    FORKED(aclInit(NULL));
    FORKED(aclFinalize());
    FORKED(aclFinalizeReference(&left));
    FORKED(aclrtGetVersion(&number, &number, &number));
    FORKED(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
    FORKED(aclsysGetVersionStr(runtime, text));
    FORKED(aclsysGetVersionNum(runtime, &number));
    FORKED(aclrtGetRunMode(&mode));
    FORKED(aclrtGetDeviceCount(&count));
    FORKED(aclrtSetDevice(0));
    FORKED(aclrtResetDevice(0));
    FORKED(aclrtResetDeviceForce(0));
    FORKED(aclrtGetDevice(&number));
    FORKED(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, &value));
    FORKED(aclrtGetMemInfo(ACL_HBM_MEM, &a, &b));
    FORKED(aclrtDeviceEnablePeerAccess(1, 0));
    FORKED(aclrtSynchronizeDevice());
    FORKED(aclrtSynchronizeDeviceWithTimeout(100));
    FORKED(aclrtDeviceGetBareTgid(&number));
    created = (void *)&created;
    FORKED(aclrtCreateContext(&created, 0));
    CHECK(created == NULL);
    void *memory = (void *)&created;
    FORKED(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(memory == NULL);
    FORKED(aclrtDestroyContext(context));
    FORKED(aclrtSetCurrentContext(context));
    FORKED(aclrtGetCurrentContext(&created));
    FORKED(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    FORKED(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    FORKED(aclSetCompileopt(ACL_PRECISION_MODE, "x"));
    FORKED(aclrtProcessReport(1));
    FORKED(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    FORKED(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
}

static void streams_after_fork(void)
{
    aclrtStream created;
    aclrtEvent another;
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    uint32_t number;
    float ms;
    FORKED(aclrtCreateStream(&created));
    FORKED(aclrtCreateStreamWithConfig(&created, 0, 0));
    FORKED(aclrtDestroyStream(stream));
    FORKED(aclrtDestroyStreamForce(stream));
    FORKED(aclrtStreamAbort(stream));
    FORKED(aclrtStreamQuery(stream, &status));
    FORKED(aclrtSynchronizeStream(stream));
    FORKED(aclrtSynchronizeStreamWithTimeout(stream, 100));
    FORKED(aclrtStreamGetFlags(stream, &number));
    FORKED(aclrtSetStreamFailureMode(stream, 0));
    FORKED(aclrtLaunchHostFunc(stream, raise_flag, &number));
    FORKED(aclrtCreateEvent(&another));
    FORKED(aclrtDestroyEvent(event));
    FORKED(aclrtRecordEvent(event, stream));
    FORKED(aclrtStreamWaitEvent(stream, event));
    FORKED(aclrtResetEvent(event, stream));
    FORKED(aclrtQueryEventStatus(event, &recorded));
    FORKED(aclrtSynchronizeEvent(event));
    FORKED(aclrtEventElapsedTime(&ms, event, event));
    FORKED(aclrtRegStreamStateCallback("x", NULL, NULL));
    CHECK(aclrtCreateStreamConfigHandle() == NULL);
}

static void memory_after_fork(void)
{
    void *created = NULL;
    char bytes[64];
    aclrtPtrAttributes attributes;
    FORKED(aclrtMalloc(&created, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    FORKED(aclrtMallocHost(&created, 64));
    FORKED(aclrtFree(memory));
    FORKED(aclrtFreeWithDevSync(memory));
    FORKED(aclrtFreeHost(pinned));
    FORKED(aclrtMemset(memory, 64, 0, 64));
    FORKED(aclrtMemsetAsync(memory, 64, 0, 64, stream));
    FORKED(aclrtMemcpy(bytes, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    FORKED(aclrtMemcpyAsync(bytes, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    FORKED(aclrtPointerGetAttributes(memory, &attributes));
    FORKED(aclrtHostRegister(bytes, 64, ACL_HOST_REGISTER_MAPPED, &created));
    FORKED(aclrtHostUnregister(bytes));
    CHECK(aclCreateDataBuffer(bytes, 64) == NULL);
    CHECK(aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND) == NULL);
    CHECK(aclrtGetSocName() == NULL);
}

static void all_after_fork(void)
{
    const char *text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "fork"));
    devices_after_fork();
    streams_after_fork();
    memory_after_fork();
    text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "fork"));
    ACL_APP_LOG(ACL_ERROR, "a line from the child");
}

static void exit_quickly(void)
{
    FORKED(aclrtSynchronizeDevice());
    fflush(NULL);
    _exit(check_failures != 0);
}

static void exec_another(void)
{
    execl("/bin/true", "true", (char *)NULL);
    CHECK(!"exec failed");
}

static int stop;
static int submitted;

static void submit_for_ever(void *unused)
{
    (void)unused;
    aclrtStream thread_stream = NULL;
    void *block = NULL;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&thread_stream));
    while (!raised(&stop)) {
        CHECK_OK(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtMemsetAsync(block, 4096, 1, 4096, thread_stream));
        CHECK_OK(aclrtSynchronizeStream(thread_stream));
        CHECK_OK(aclrtFree(block));
        aclrtSetDevice(99);
        count_up(&submitted);
    }
    CHECK_OK(aclrtDestroyStream(thread_stream));
    CHECK_OK(aclrtResetDevice(0));
}

static void while_threads_work(void)
{
    GROUP("acl_3_2_63 forks while other threads are inside the library");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(submit_for_ever, NULL);
    for (int i = 0; i < 30; i++) {
        int now = raised(&submitted);
        SPIN_UNTIL(raised(&submitted) > now + 5);
        CHECK_EQ(in_child(i & 1 ? exit_quickly : memory_after_fork, 30), 0);
    }
    raise_flag(&stop);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
}

int main(void)
{
    int flag = 0;
    GROUP("acl_3_2_63 a fork before the runtime is used: the child may use it");
    CHECK_EQ(in_child(full_use, 60), 0);
    CHECK_EQ(in_child(full_use, 60), 0);

    GROUP("acl_3_2_63 queries that touch no device start nothing: the child of a fork afterwards may use the runtime");
    queries_without_device();
    CHECK_EQ(in_child(full_use, 60), 0);
    CHECK_EQ(in_child(queries_without_device, 60), 0);

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
    CHECK_EQ(in_child(all_after_fork, 60), 0);
    CHECK_EQ(in_child(exit_quickly, 60), 0);
    CHECK_EQ(in_child(exec_another, 60), 0);
    CHECK_EQ(system("true"), 0);

    GROUP("acl_3_2_63 the parent still works");
    CHECK_NO_TEXT();
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);

    GROUP("acl_3_2_63 a fork with work pending");
    flag = 0;
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(memory, 1 << 20, 1, 1 << 20, stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_EQ(in_child(all_after_fork, 60), 0);
    CHECK_EQ(in_child(exit_quickly, 60), 0);
    CHECK_EQ(raised(&flag), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    unsigned char byte = 0;
    CHECK_OK(aclrtMemcpy(&byte, 1, (char *)memory + 77, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 1);

    while_threads_work();
    CHECK_OK(aclrtDestroyContext(context));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
