// breaks: wrong-free
/* Contexts: the primary one of a device and explicit ones. */
#include "gate.h"

static void explicit_contexts(void)
{
    aclrtContext primary = NULL, first = NULL, second = NULL, current = NULL;
    aclrtStream default_stream = NULL, other_default = NULL;
    int32_t device = -1;
    int flag = 0;
    GROUP("acl_3_2_22 a new context is current in the thread and has its own default stream");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtGetCurrentContext(&primary));
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
    CHECK_OK(aclrtCreateContext(&first, 0));
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK(current == first && first != primary);
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&other_default));
    CHECK(other_default && other_default != default_stream);
    CHECK_OK(aclrtLaunchHostFunc(NULL, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(other_default));
    CHECK_EQ(raised(&flag), 1);
    CHECK_FAIL(aclrtCreateContext(NULL, 0), ACL_ERROR_INVALID_PARAM, "context");
    CHECK_FAIL(aclrtCreateContext(&second, 2), ACL_ERROR_RT_INVALID_DEVICEID, "2");
    CHECK_FAIL(aclrtCreateContext(&second, -1), ACL_ERROR_RT_INVALID_DEVICEID, "-1");

    GROUP("acl_3_2_23 the context decides the device");
    CHECK_OK(aclrtCreateContext(&second, 1));
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    CHECK_OK(aclrtSetCurrentContext(first));
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 0);
    CHECK_OK(aclrtSetCurrentContext(second));
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
    CHECK_OK(aclrtSetCurrentContext(primary));
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 0);
    CHECK_FAIL(aclrtSetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM, "context");

    GROUP("acl_3_2_24 the primary context cannot be destroyed");
    CHECK_FAIL(aclrtDestroyContext(primary), ACL_ERROR_RT_PARAM_INVALID, "aclrtResetDevice");
    CHECK_FAIL(aclrtDestroyContext(NULL), ACL_ERROR_INVALID_PARAM, "context");
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK(current == primary);

    GROUP("acl_3_2_22 destroying an explicit context");
    aclrtStream stream = NULL;
    CHECK_OK(aclrtSetCurrentContext(first));
    CHECK_OK(aclrtCreateStream(&stream));
    flag = 0;
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyContext(first));
    CHECK_CODE(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtDestroyContext(first), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_CODE(aclrtSetCurrentContext(first), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_OK(aclrtSetCurrentContext(primary));
    CHECK_CODE(aclrtSynchronizeStream(other_default), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_OK(aclrtDestroyContext(second));
    CHECK_OK(aclrtGetCurrentContext(&current));
    CHECK(current == primary);
    CHECK_OK(aclrtResetDevice(0));
}

typedef struct SharedContext {
    aclrtContext context;
    pthread_barrier_t barrier;
} SharedContext;

static void use_shared_context(void *argument)
{
    SharedContext *shared = argument;
    aclrtContext current = NULL;
    CHECK_CODE(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_OK(aclrtSetCurrentContext(shared->context));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    pthread_barrier_wait(&shared->barrier);
    pthread_barrier_wait(&shared->barrier);
    CHECK_CODE(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
}

static void threads(void)
{
    GROUP("acl_3_2_13 a context can be current in several threads");
    SharedContext shared;
    pthread_barrier_init(&shared.barrier, NULL, 2);
    CHECK_OK(aclrtCreateContext(&shared.context, 0));
    pthread_t thread = start_thread(use_shared_context, &shared);
    pthread_barrier_wait(&shared.barrier);
    CHECK_OK(aclrtDestroyContext(shared.context));
    pthread_barrier_wait(&shared.barrier);
    join_thread(thread);
    pthread_barrier_destroy(&shared.barrier);
}

static void foreign_streams(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtContext first = NULL, second = NULL;
    aclrtStream stream = NULL;
    aclrtStreamStatus status;
    aclrtEvent event = NULL;
    char text[32];
    void *memory = NULL;
    int32_t id;
    uint32_t number;
    int flag = 0;
    GROUP("acl_3_2_22 a stream of another context is 107003, and both are named");
    CHECK_OK(aclrtCreateContext(&first, 0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtCreateContext(&second, 0));
    CHECK_OK(aclrtCreateEvent(&event));
    snprintf(text, sizeof text, "%p", first);
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT, text);
    snprintf(text, sizeof text, "%p", second);
    CHECK_FAIL(aclrtSynchronizeStreamWithTimeout(stream, 9), ACL_ERROR_RT_STREAM_CONTEXT, text);
    CHECK_CODE(aclrtStreamQuery(stream, &status), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtLaunchHostFunc(stream, raise_flag, &flag), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtMemsetAsync(memory, 64, 0, 64, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtRecordEvent(event, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtStreamWaitEventWithTimeout(stream, event, 1), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_CODE(aclrtResetEvent(event, stream), ACL_ERROR_RT_STREAM_CONTEXT);
    CHECK_OK(aclrtStreamGetId(stream, &id));
    CHECK_OK(aclrtStreamGetFlags(stream, &number));
    CHECK_OK(aclrtStreamGetPriority(stream, &number));
    CHECK_EQ(raised(&flag), 0);
    CHECK_OK(aclrtSetCurrentContext(first));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSetCurrentContext(second));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtFree(memory));

    GROUP("acl_3_2_31 synchronizing the device waits for the streams of all contexts");
    CHECK_OK(aclrtSetCurrentContext(first));
    CHECK_OK(aclrtCreateStream(&stream));
    gate_put(&gate, stream);
    CHECK_OK(aclrtSetCurrentContext(second));
    CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtDestroyContext(second));
    CHECK_OK(aclrtDestroyContext(first));
}

static void memory_of_contexts(void)
{
    GROUP("acl_3_2_15 an explicit context keeps the device's memory after the last reset");
    aclrtContext context = NULL;
    void *memory = NULL;
    aclrtPtrAttributes attributes;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtCreateContext(&context, 1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtPointerGetAttributes(memory, &attributes));
    CHECK_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    CHECK_OK(aclrtSetCurrentContext(context));
    CHECK_OK(aclrtMemset(memory, 4096, 3, 4096));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtDestroyContext(context));
    CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
}

static void primary_state(void)
{
    GROUP("acl_3_2_26 the state of the primary context");
    int32_t active = -1;
    uint32_t flags = 0;
    CHECK_OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 0);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 1);
    CHECK_OK(aclrtGetPrimaryCtxState(0, NULL, &active));
    CHECK_EQ(active, 0);
    CHECK_FAIL(aclrtGetPrimaryCtxState(1, &flags, &active), ACL_ERROR_INVALID_PARAM, "flags");
    CHECK_FAIL(aclrtGetPrimaryCtxState(1, NULL, NULL), ACL_ERROR_INVALID_PARAM, "active");
    CHECK_FAIL(aclrtGetPrimaryCtxState(5, NULL, &active), ACL_ERROR_RT_INVALID_DEVICEID, "5");
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtGetPrimaryCtxState(1, NULL, &active));
    CHECK_EQ(active, 0);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    primary_state();
    explicit_contexts();
    threads();
    foreign_streams();
    memory_of_contexts();
    CHECK_OK(aclFinalize());
    return END();
}
