/* Callbacks for the life of streams and devices. */
#include "gate.h"

typedef struct CallbackCall {
    void *object;
    int32_t device;
    int state;
    void *args;
} CallbackCall;

static CallbackCall calls[64];
static int count;
static int inner_code = -1;

static void on_stream(aclrtStream stream, aclrtStreamState state, void *args)
{
    uint32_t flags = 99;
    calls[count++ & 63] = (CallbackCall){stream, -1, (int)state, args};
    inner_code = aclrtStreamGetFlags(stream, &flags);
}

static void on_device(int32_t device, aclrtDeviceState state, void *args)
{
    uint32_t devices = 0;
    calls[count++ & 63] = (CallbackCall){NULL, device, (int)state, args};
    inner_code = aclrtGetDeviceCount(&devices);
}

static void check_stream_call(int index, aclrtStream stream, int state, void *args)
{
    CHECK(calls[index].object == stream && calls[index].args == args);
    CHECK_EQ(calls[index].state, state);
}

static void check_device_call(int index, int32_t device, int state, void *args)
{
    CHECK(calls[index].args == args);
    CHECK_EQ(calls[index].device, device);
    CHECK_EQ(calls[index].state, state);
}

static void streams(void)
{
    aclrtStream stream = NULL;
    int a, b;
    GROUP("acl_3_2_37 a callback after a stream was made and before it is destroyed");
    CHECK_FAIL(aclrtRegStreamStateCallback(NULL, on_stream, NULL), ACL_ERROR_INVALID_PARAM, "regName");
    CHECK_OK(aclrtRegStreamStateCallback("first", on_stream, &a));
    CHECK_FAIL(aclrtRegStreamStateCallback("first", on_stream, &b), ACL_ERROR_INVALID_PARAM, "first");
    count = 0;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_EQ(count, 1);
    check_stream_call(0, stream, ACL_RT_STREAM_STATE_CREATE_POST, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(count, 2);
    check_stream_call(1, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH));
    CHECK_OK(aclrtDestroyStreamForce(stream));
    CHECK_EQ(count, 4);
    check_stream_call(3, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &a);

    GROUP("acl_3_2_37 several names, and unregistering them");
    CHECK_OK(aclrtRegStreamStateCallback("second", on_stream, &b));
    count = 0;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_EQ(count, 2);
    CHECK(calls[0].args != calls[1].args);
    CHECK_OK(aclrtRegStreamStateCallback("first", NULL, NULL));
    CHECK_FAIL(aclrtRegStreamStateCallback("first", NULL, NULL), ACL_ERROR_INVALID_PARAM, "first");
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(count, 3);
    check_stream_call(2, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &b);
    CHECK_OK(aclrtRegStreamStateCallback("second", NULL, NULL));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(count, 3);
    CHECK_OK(aclrtRegStreamStateCallback("first", on_stream, &a));
    CHECK_OK(aclrtRegStreamStateCallback("first", NULL, NULL));
}

static void devices(void)
{
    int a, b;
    GROUP("acl_3_2_38 callbacks around setting and resetting a device");
    CHECK_FAIL(aclrtRegDeviceStateCallback(NULL, on_device, NULL), ACL_ERROR_INVALID_PARAM, "regName");
    CHECK_OK(aclrtRegDeviceStateCallback("watch", on_device, &a));
    CHECK_FAIL(aclrtRegDeviceStateCallback("watch", on_device, &b), ACL_ERROR_INVALID_PARAM, "watch");
    count = 0;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_EQ(count, 2);
    check_device_call(0, 1, ACL_RT_DEVICE_STATE_SET_PRE, &a);
    check_device_call(1, 1, ACL_RT_DEVICE_STATE_SET_POST, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtResetDevice(1));
    CHECK_EQ(count, 4);
    check_device_call(2, 1, ACL_RT_DEVICE_STATE_RESET_PRE, &a);
    check_device_call(3, 1, ACL_RT_DEVICE_STATE_RESET_POST, &a);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_EQ(count, 8);
    check_device_call(7, 1, ACL_RT_DEVICE_STATE_RESET_POST, &a);
    CHECK_OK(aclrtRegDeviceStateCallback("watch", NULL, NULL));
    CHECK_FAIL(aclrtRegDeviceStateCallback("watch", NULL, NULL), ACL_ERROR_INVALID_PARAM, "watch");
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_EQ(count, 8);
}

static aclrtStream created_in_callback;

static void nested(aclrtStream stream, aclrtStreamState state, void *depth)
{
    (void)stream;
    if (state == ACL_RT_STREAM_STATE_CREATE_POST && (*(int *)depth)-- > 0) {
        CHECK_OK(aclrtCreateStream(&created_in_callback));
        CHECK_OK(aclrtRegStreamStateCallback("inner", on_stream, NULL));
        CHECK_OK(aclrtRegStreamStateCallback("inner", NULL, NULL));
    }
}

static void reentrant(void)
{
    aclrtStream stream = NULL;
    int depth = 1;
    GROUP("acl_3_2_37 a callback may make streams and register callbacks");
    CHECK_OK(aclrtRegStreamStateCallback("outer", nested, &depth));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(created_in_callback != NULL && created_in_callback != stream);
    CHECK_OK(aclrtDestroyStream(created_in_callback));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtRegStreamStateCallback("outer", NULL, NULL));
}

static void exit_thread_on_stream(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)stream, (void)state;
    raise_flag(args);
    pthread_exit(NULL);
}

static void exit_thread_on_device(int32_t device, aclrtDeviceState state, void *args)
{
    (void)device, (void)state;
    raise_flag(args);
    pthread_exit(NULL);
}

static void *make_stream(void *unused)
{
    aclrtStream created;
    CHECK_OK(aclrtSetDevice(0));
    aclrtCreateStream(&created);
    CHECK(!"the callback returned");
    return unused;
}

static void *set_device(void *unused)
{
    aclrtSetDevice(1);
    CHECK(!"the callback returned");
    return unused;
}

static void ends_its_thread(void)
{
    int called = 0;
    pthread_t thread;
    aclrtStream stream = NULL;
    GROUP("acl_3_2_37 a callback that ends its thread leaves it parked; nothing unwinds, and other threads continue");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtRegStreamStateCallback("exits", exit_thread_on_stream, &called));
    CHECK_EQ(pthread_create(&thread, NULL, make_stream, NULL), 0);
    SPIN_UNTIL(raised(&called));
    CHECK_OK(aclrtRegStreamStateCallback("exits", NULL, NULL));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    called = 0;
    CHECK_OK(aclrtRegDeviceStateCallback("exits", exit_thread_on_device, &called));
    CHECK_EQ(pthread_create(&thread, NULL, set_device, NULL), 0);
    SPIN_UNTIL(raised(&called));
    CHECK_OK(aclrtRegDeviceStateCallback("exits", NULL, NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtResetDevice(0));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    streams();
    reentrant();
    devices();
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDeviceForce(0));
    ends_its_thread();
    CHECK_OK(aclFinalize());
    return END();
}
