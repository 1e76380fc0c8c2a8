/* Callbacks for the life of streams and devices. */
#include "gate.h"

typedef struct Note {
    void *object;
    int32_t device;
    int state;
    void *args;
} Note;

static Note notes[64];
static int count;
static int inner_code = -1;

static void on_stream(aclrtStream stream, aclrtStreamState state, void *args)
{
    uint32_t flags = 99;
    notes[count++ & 63] = (Note){stream, -1, (int)state, args};
    inner_code = aclrtStreamGetFlags(stream, &flags);
}

static void on_device(int32_t device, aclrtDeviceState state, void *args)
{
    uint32_t devices = 0;
    notes[count++ & 63] = (Note){NULL, device, (int)state, args};
    inner_code = aclrtGetDeviceCount(&devices);
}

static void is_stream(int at, aclrtStream stream, int state, void *args)
{
    CHECK(notes[at].object == stream && notes[at].args == args);
    CHECK_EQ(notes[at].state, state);
}

static void is_device(int at, int32_t device, int state, void *args)
{
    CHECK(notes[at].args == args);
    CHECK_EQ(notes[at].device, device);
    CHECK_EQ(notes[at].state, state);
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
    is_stream(0, stream, ACL_RT_STREAM_STATE_CREATE_POST, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(count, 2);
    is_stream(1, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH));
    CHECK_OK(aclrtDestroyStreamForce(stream));
    CHECK_EQ(count, 4);
    is_stream(3, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &a);

    GROUP("acl_3_2_37 several names, and taking them away");
    CHECK_OK(aclrtRegStreamStateCallback("second", on_stream, &b));
    count = 0;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_EQ(count, 2);
    CHECK(notes[0].args != notes[1].args);
    CHECK_OK(aclrtRegStreamStateCallback("first", NULL, NULL));
    CHECK_FAIL(aclrtRegStreamStateCallback("first", NULL, NULL), ACL_ERROR_INVALID_PARAM, "first");
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_EQ(count, 3);
    is_stream(2, stream, ACL_RT_STREAM_STATE_DESTROY_PRE, &b);
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
    is_device(0, 1, ACL_RT_DEVICE_STATE_SET_PRE, &a);
    is_device(1, 1, ACL_RT_DEVICE_STATE_SET_POST, &a);
    CHECK_EQ(inner_code, 0);
    CHECK_OK(aclrtResetDevice(1));
    CHECK_EQ(count, 4);
    is_device(2, 1, ACL_RT_DEVICE_STATE_RESET_PRE, &a);
    is_device(3, 1, ACL_RT_DEVICE_STATE_RESET_POST, &a);
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDeviceForce(1));
    CHECK_EQ(count, 8);
    is_device(7, 1, ACL_RT_DEVICE_STATE_RESET_POST, &a);
    CHECK_OK(aclrtRegDeviceStateCallback("watch", NULL, NULL));
    CHECK_FAIL(aclrtRegDeviceStateCallback("watch", NULL, NULL), ACL_ERROR_INVALID_PARAM, "watch");
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_EQ(count, 8);
}

static aclrtStream made_inside;

static void nested(aclrtStream stream, aclrtStreamState state, void *depth)
{
    (void)stream;
    if (state == ACL_RT_STREAM_STATE_CREATE_POST && (*(int *)depth)-- > 0) {
        CHECK_OK(aclrtCreateStream(&made_inside));
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
    CHECK(made_inside != NULL && made_inside != stream);
    CHECK_OK(aclrtDestroyStream(made_inside));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtRegStreamStateCallback("outer", NULL, NULL));
}

static void leave_on_stream(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)stream, (void)state;
    raise_flag(args);
    pthread_exit(NULL);
}

static void leave_on_device(int32_t device, aclrtDeviceState state, void *args)
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
    CHECK(!"the callback came back");
    return unused;
}

static void *set_device(void *unused)
{
    aclrtSetDevice(1);
    CHECK(!"the callback came back");
    return unused;
}

static void ends_its_thread(void)
{
    int left = 0;
    pthread_t thread;
    aclrtStream stream = NULL;
    GROUP("acl_3_2_37 a callback that ends its thread leaves it parked; nothing unwinds, and others go on");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtRegStreamStateCallback("leaves", leave_on_stream, &left));
    CHECK_EQ(pthread_create(&thread, NULL, make_stream, NULL), 0);
    SPIN_UNTIL(raised(&left));
    CHECK_OK(aclrtRegStreamStateCallback("leaves", NULL, NULL));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    left = 0;
    CHECK_OK(aclrtRegDeviceStateCallback("leaves", leave_on_device, &left));
    CHECK_EQ(pthread_create(&thread, NULL, set_device, NULL), 0);
    SPIN_UNTIL(raised(&left));
    CHECK_OK(aclrtRegDeviceStateCallback("leaves", NULL, NULL));
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
