// env:
// env: CAIRN_WORKERS=1
/* A C++ exception in a host function or a callback stays there: the task fails, the stream goes on. */
#include "gate.h"
#include <stdexcept>

static void throw_error(void *)
{
    throw std::runtime_error("thrown by a host function");
}

static void throw_int(void *)
{
    throw 42;
}

static void throw_on_stream(aclrtStream, aclrtStreamState, void *)
{
    throw std::runtime_error("thrown by a callback of streams");
}

static void throw_on_device(int32_t, aclrtDeviceState, void *)
{
    throw std::runtime_error("thrown by a callback of devices");
}

int main()
{
    aclrtStream stream = nullptr;
    int flag = 0;
    GROUP("acl_3_2_50 an exception in a host function is 500000 at synchronize");
    CHECK_OK(aclInit(nullptr));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtLaunchHostFunc(stream, throw_error, nullptr));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_INTERNAL_ERROR, "aclrtLaunchHostFunc");
    CHECK_EQ(raised(&flag), 1);

    GROUP("acl_3_2_50 the stream can still be used");
    flag = 0;
    CHECK_OK(aclrtLaunchHostFunc(stream, throw_int, nullptr));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_INTERNAL_ERROR, "exception");
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag, &flag));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(raised(&flag), 1);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(aclrtLaunchHostFunc(stream, i & 1 ? throw_error : throw_int, nullptr));
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_INTERNAL_ERROR);

    GROUP("acl_3_2_37 an exception in a callback does not reach the caller");
    aclrtStream created = nullptr;
    CHECK_OK(aclrtRegStreamStateCallback("throws", throw_on_stream, nullptr));
    CHECK_OK(aclrtCreateStream(&created));
    CHECK_OK(aclrtDestroyStream(created));
    CHECK_OK(aclrtRegStreamStateCallback("throws", nullptr, nullptr));
    CHECK_OK(aclrtRegDeviceStateCallback("throws", throw_on_device, nullptr));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtRegDeviceStateCallback("throws", nullptr, nullptr));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
