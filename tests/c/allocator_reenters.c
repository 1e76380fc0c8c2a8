// breaks: order use-after-free
// env:
// env: CAIRN_WORKERS=1
/*
 * Callbacks of an allocator that call ACL: nothing deadlocks. An execution is a probe
 * (cairn/probe.h): it takes blocks from the stream's allocator as an operator would, queues tasks that write them, and
 * gives them back. Groups begin with the id of a sentence in README.md.
 */
#include "pool.h"

static Pool pool, inner;
static aclrtStream stream, second;
static aclrtAllocatorDesc registered_desc;
static int calls;

/* True once after `calls` was reset: a hook that calls the pool again acts only the first time. */
static int first_time(void)
{
    return calls++ == 0;
}

static void use_memory(Pool *unused)
{
    void *device = NULL, *host = NULL;
    (void)unused;
    if (!first_time())
        return;
    CHECK_OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost(&host, 4096));
    CHECK_OK(aclrtMemset(device, 4096, 0x42, 4096));
    CHECK_OK(aclrtMemcpy(host, 4096, device, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(((char *)host)[4095], 0x42);
    CHECK_OK(aclrtMemcpyAsync(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(host, 4096, device, 4096, ACL_MEMCPY_DEVICE_TO_HOST, second));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_OK(aclrtFree(device));
    CHECK_OK(aclrtFreeHost(host));
}

static void use_events(Pool *unused)
{
    aclrtEvent event = NULL;
    (void)unused;
    if (!first_time())
        return;
    CHECK_OK(aclrtCreateEvent(&event));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aclrtStreamWaitEvent(second, event));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_OK(aclrtDestroyEvent(event));
}

static void use_streams(Pool *unused)
{
    aclrtStream created = NULL;
    int flag = 0;
    (void)unused;
    if (!first_time())
        return;
    CHECK_OK(aclrtCreateStream(&created));
    CHECK_OK(aclrtLaunchHostFunc(created, raise_flag, &flag));
    CHECK_OK(aclrtDestroyStream(created));
    CHECK_EQ(raised(&flag), 1);
}

static void synchronize(Pool *unused)
{
    (void)unused;
    calls++;
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeDevice());
}

static void change_registrations(Pool *called)
{
    if (!first_time())
        return;
    CHECK_OK(aclrtAllocatorUnregister(stream));
    CHECK_OK(aclrtAllocatorDestroyDesc(registered_desc));
    registered_desc = pool_describe(called);
    CHECK_OK(aclrtAllocatorRegister(stream, registered_desc));
    pool_register(second, &inner);
}

static void execute_elsewhere(Pool *unused)
{
    CairnProbeBlock block = {0};
    (void)unused;
    if (!first_time())
        return;
    CHECK_OK(execute_with_tensor(second, 64, &block));
    CHECK(in_pool(&inner, block.address));
}

static void execute_again(Pool *called)
{
    CairnProbeBlock block = {0};
    if (calls++ >= 3)
        return;
    CHECK_OK(execute_with_tensor(stream, 64, &block));
    CHECK(in_pool(called, block.address));
}

static void fail(Pool *unused)
{
    (void)unused;
    if (first_time())
        CHECK_CODE(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);
}

/* One execution with the hook in alloc, one with it in free. */
static void run_with_hook(void (*hook)(Pool *))
{
    for (int in_free = 0; in_free < 2; in_free++) {
        unsigned char byte = 0;
        CairnProbeBlock block = {.bytes = 64, .value = 0x77};
        CairnProbe probe = {.blocks = &block, .count = 1};
        calls = 0;
        pool.in_alloc = in_free ? NULL : hook;
        pool.in_free = in_free ? hook : NULL;
        CHECK_OK(cairnProbeExecute(stream, &probe));
        CHECK(calls > 0);
        pool.in_alloc = pool.in_free = NULL;
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(in_pool(&pool, block.address));
        CHECK_OK(aclrtMemcpy(&byte, 1, block.address, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(byte, hook == execute_again ? byte : 0x77);
        CHECK_EQ(pool.out, 0);
    }
}

static void synchronize_in_free(void)
{
    static Gate gate = GATE_CLOSED;
    int finished = 0;
    GROUP("acl_reg_7 a free that synchronizes waits for what is queued before it");
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &finished));
    pool.in_free = synchronize;
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    CHECK_EQ(raised(&finished), 1);
    pool.in_free = NULL;
    GROUP("acl_reg_7 an execution without it does not wait");
    gate_put(&gate, stream);
    CHECK_OK(execute_with_tensor(stream, 64, NULL));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void destroy_second_stream(Pool *unused)
{
    (void)unused;
    if (first_time())
        CHECK_OK(aclrtDestroyStream(second));
}

static void destroy_stream_in_callback(void)
{
    GROUP("acl_reg_1 an allocator that destroys the stream of the execution fails only that execution");
    CHECK_OK(aclrtSynchronizeStream(second));
    pool_register(second, &inner);
    inner.in_alloc = destroy_second_stream;
    calls = 0;
    CHECK_FAIL(execute_with_tensor(second, 64, NULL), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    inner.in_alloc = NULL;
    CHECK_EQ(inner.out, 0);
    CHECK_OK(aclrtCreateStream(&second));
    pool_register(second, &inner);
    CHECK_OK(execute_with_tensor(second, 64, NULL));
    inner.in_free = destroy_second_stream;
    calls = 0;
    CHECK_OK(execute_with_tensor(second, 64, NULL));
    inner.in_free = NULL;
    CHECK_EQ(inner.out, 0);
}

static void execute_in_host_func(void *code)
{
    *(aclError *)code = execute_with_tensor(stream, 64, NULL);
}

static void synchronize_own(Pool *unused)
{
    (void)unused;
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "own host function");
}

static void host_functions(void)
{
    aclError code = -1;
    GROUP("acl_reg_6 a host function may execute, also on its own stream");
    int frees = pool.frees;
    CHECK_OK(aclrtLaunchHostFunc(second, execute_in_host_func, &code));
    CHECK_OK(aclrtSynchronizeStream(second));
    CHECK_OK(code);
    pool.in_free = synchronize_own;
    code = -1;
    CHECK_OK(aclrtLaunchHostFunc(stream, execute_in_host_func, &code));
    CHECK_OK(aclrtSynchronizeStream(stream));
    pool.in_free = NULL;
    CHECK_OK(code);
    CHECK_EQ(pool.frees, frees + 2);
}

static void reset_device(Pool *unused)
{
    (void)unused;
    if (first_time())
        CHECK_OK(aclrtResetDeviceForce(0));
}

static void reset_device_in_callback(void)
{
    GROUP("acl_reg_1 an allocator that resets the device fails the execution");
    pool.in_alloc = reset_device;
    calls = 0;
    CHECK_FAIL(execute_with_tensor(stream, 64, NULL), ACL_ERROR_GE_FAILURE, "without an allocation");
    pool.in_alloc = NULL;
    CHECK_EQ(pool.out, 0);
    CHECK_EQ(pool.overlaps, 0);
    CHECK_FAIL(execute_with_tensor(stream, 64, NULL), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&second));
    pool_open(&pool);
    pool_open(&inner);
    registered_desc = pool_describe(&pool);
    CHECK_OK(aclrtAllocatorRegister(stream, registered_desc));
    pool_register(second, &inner);

    GROUP("acl_reg_1 a callback may use memory");
    run_with_hook(use_memory);
    GROUP("acl_reg_1 a callback may use events");
    run_with_hook(use_events);
    GROUP("acl_reg_1 a callback may make, use and destroy streams");
    run_with_hook(use_streams);
    GROUP("acl_reg_7 a callback may synchronize its stream and the device");
    run_with_hook(synchronize);
    GROUP("acl_reg_4 a callback may unregister and register, and destroy its own descriptor");
    run_with_hook(change_registrations);
    GROUP("acl_reg_6 a callback may execute on another stream");
    run_with_hook(execute_elsewhere);
    GROUP("acl_reg_6 a callback may execute on its own stream, with its own allocator");
    run_with_hook(execute_again);
    GROUP("acl_1_8_6 a call that fails inside a callback fails nothing else");
    run_with_hook(fail);
    synchronize_in_free();
    host_functions();
    destroy_stream_in_callback();
    pool_close(&inner);
    reset_device_in_callback();
    CHECK_OK(aclrtAllocatorDestroyDesc(registered_desc));
    CHECK_OK(aclFinalize());
    return END();
}
