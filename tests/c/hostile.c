// env:
// env: CAIRN_WORKERS=1
/* Misuse by the program: threads that end inside host functions, callbacks that cause further
   callbacks, registered memory that is read-only or unmapped, deep stacks. */
#include "gate.h"
#include <sys/mman.h>

static aclrtStream stream;
static int calls;

static void end_thread(void *unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static void use_deep_stack(void *sum)
{
    volatile char large[6 << 20];
    for (size_t i = 0; i < sizeof large; i += 4096)
        large[i] = 1;
    *(int *)sum = large[4096];
}

static void on_signal(int number)
{
    (void)number;
    calls++;
}

static void signal_itself(void *unused)
{
    (void)unused;
    raise(SIGUSR1);
}

static void host_functions(void)
{
    int sum = 0;
    GROUP("acl_3_2_50 a host function that ends its thread fails, and the stream continues");
    CHECK_OK(aclrtLaunchHostFunc(stream, end_thread, NULL));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_INTERNAL_ERROR, "ended its thread");
    CHECK_OK(aclrtLaunchHostFunc(stream, use_deep_stack, &sum));
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("acl_3_2_50 a host function has the stack and the signals of an ordinary thread");
    CHECK_EQ(sum, 1);
    calls = 0;
    signal(SIGUSR1, on_signal);
    CHECK_OK(aclrtLaunchHostFunc(stream, signal_itself, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(calls, 1);
}

static void destroy_again(aclrtStream dying, aclrtStreamState state, void *unused)
{
    (void)unused;
    calls++;
    if (state == ACL_RT_STREAM_STATE_DESTROY_PRE)
        CHECK_CODE(aclrtDestroyStream(dying), ACL_ERROR_RT_INVALID_HANDLE);
}

static void set_again(int32_t device, aclrtDeviceState state, void *unused)
{
    (void)unused;
    calls++;
    if (state == ACL_RT_DEVICE_STATE_SET_PRE) {
        CHECK_OK(aclrtSetDevice(device));
        CHECK_OK(aclrtResetDevice(device));
    }
}

static void callbacks(void)
{
    aclrtStream dying = NULL;
    GROUP("acl_3_2_38 a callback that makes another change is not called for that one");
    calls = 0;
    CHECK_OK(aclrtRegStreamStateCallback("again", destroy_again, NULL));
    CHECK_OK(aclrtCreateStream(&dying));
    CHECK_OK(aclrtDestroyStream(dying));
    CHECK_OK(aclrtRegStreamStateCallback("again", NULL, NULL));
    CHECK_EQ(calls, 2);
    calls = 0;
    CHECK_OK(aclrtRegDeviceStateCallback("again", set_again, NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtRegDeviceStateCallback("again", NULL, NULL));
    CHECK_EQ(calls, 4);
}

static void registered(void)
{
    enum { BYTES = 1 << 16 };
    void *device = NULL, *registered_pointer = NULL;
    GROUP("acl_3_2_60 registered memory that is read-only or unmapped is an error, not a crash");
    CHECK_OK(aclrtMalloc(&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    void *memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OK(aclrtHostRegister(memory, BYTES, ACL_HOST_REGISTER_READONLY, &registered_pointer));
    CHECK_OK(aclrtMemcpyAsync(device, BYTES, memory, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpyAsync(memory, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "read-only");
    munmap(memory, BYTES);
    CHECK_OK(aclrtMemcpyAsync(device, BYTES, memory, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "registered");
    CHECK_OK(aclrtHostUnregister(memory));
    CHECK_OK(aclrtFree(device));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    host_functions();
    callbacks();
    registered();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
