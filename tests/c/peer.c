/* Access from one device to the memory of another. */
#include "gate.h"

enum { SIZE = 1 << 16 };
static void *on_device_0, *on_device_1;
static aclrtStream stream;

static int status(int32_t from, int32_t to)
{
    int32_t value = -1;
    CHECK_OK(aclrtDevicePeerAccessStatus(from, to, &value));
    return value;
}

static void queries(void)
{
    int32_t can = -1;
    GROUP("acl_3_2_20 whether two devices can reach each other");
    CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 1));
    CHECK_EQ(can, 1);
    CHECK_OK(aclrtDeviceCanAccessPeer(&can, 1, 0));
    CHECK_EQ(can, 1);
    CHECK_FAIL(aclrtDeviceCanAccessPeer(&can, 0, 0), ACL_ERROR_INVALID_PARAM, "0");
    CHECK_FAIL(aclrtDeviceCanAccessPeer(NULL, 0, 1), ACL_ERROR_INVALID_PARAM, "canAccessPeer");
    CHECK_FAIL(aclrtDeviceCanAccessPeer(&can, 0, 5), ACL_ERROR_RT_INVALID_DEVICEID, "5");
    CHECK_FAIL(aclrtDeviceCanAccessPeer(&can, -4, 0), ACL_ERROR_RT_INVALID_DEVICEID, "-4");
    CHECK_FAIL(aclrtDevicePeerAccessStatus(0, 1, NULL), ACL_ERROR_INVALID_PARAM, "status");
    CHECK_FAIL(aclrtDevicePeerAccessStatus(0, 9, &can), ACL_ERROR_RT_INVALID_DEVICEID, "9");
}

static void without_access(void)
{
    GROUP("acl_3_2_20 without access a copy between devices fails");
    CHECK_EQ(status(0, 1), 0);
    CHECK_EQ(status(1, 0), 0);
    CHECK_CODE(
        aclrtMemcpy(on_device_0, SIZE, on_device_1, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_TEXT("aclrtDeviceEnablePeerAccess");
    CHECK_OK(aclrtMemcpyAsync(on_device_0, SIZE, on_device_1, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpyAsync");
}

static void enabling(void)
{
    GROUP("acl_3_2_20 access goes one way, flags are 0");
    CHECK_FAIL(aclrtDeviceEnablePeerAccess(1, 1), ACL_ERROR_INVALID_PARAM, "flags");
    CHECK_FAIL(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_INVALID_PARAM, "0");
    CHECK_FAIL(aclrtDeviceEnablePeerAccess(8, 0), ACL_ERROR_RT_INVALID_DEVICEID, "8");
    CHECK_FAIL(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_PARAM_INVALID, "1");
    CHECK_FAIL(aclrtDeviceDisablePeerAccess(8), ACL_ERROR_RT_INVALID_DEVICEID, "8");
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_EQ(status(0, 1), 1);
    CHECK_EQ(status(1, 0), 0);
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtDeviceDisablePeerAccess(1));
    CHECK_EQ(status(0, 1), 0);
    CHECK_CODE(aclrtDeviceDisablePeerAccess(1), ACL_ERROR_RT_PARAM_INVALID);
}

static int has_value(void *memory, unsigned char value)
{
    unsigned char bytes[SIZE];
    CHECK_OK(aclrtMemcpy(bytes, SIZE, memory, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < SIZE; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

static void copying(void)
{
    GROUP("acl_3_2_20 with access copies go both ways");
    CHECK_OK(aclrtMemset(on_device_0, SIZE, 1, SIZE));
    CHECK_OK(aclrtMemset(on_device_1, SIZE, 2, SIZE));
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtMemcpy(on_device_0, SIZE, on_device_1, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(has_value(on_device_0, 2));
    CHECK_OK(aclrtMemset(on_device_0, SIZE, 3, SIZE));
    CHECK_OK(aclrtMemcpy(on_device_1, SIZE, on_device_0, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK(has_value(on_device_1, 3));
    CHECK_OK(aclrtMemsetAsync(on_device_0, SIZE, 4, SIZE, stream));
    CHECK_OK(aclrtMemcpyAsync(on_device_1, SIZE, on_device_0, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(has_value(on_device_1, 4));
    CHECK_OK(aclrtMemsetAsync(on_device_0, SIZE, 5, SIZE, stream));
    CHECK_OK(aclrtMemcpyAsync(on_device_1, SIZE, on_device_0, SIZE, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(has_value(on_device_1, 5));
    CHECK_OK(aclrtDeviceDisablePeerAccess(1));
    CHECK_OK(aclrtMemcpyAsync(on_device_1, SIZE, on_device_0, SIZE, ACL_MEMCPY_DEFAULT, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceEnablePeerAccess");
    CHECK_CODE(
        aclrtMemcpy(on_device_0, SIZE, on_device_1, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&on_device_1, SIZE, ACL_MEM_MALLOC_HUGE_FIRST_P2P));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMalloc(&on_device_0, SIZE, ACL_MEM_MALLOC_HUGE_FIRST_P2P));
    CHECK_OK(aclrtCreateStream(&stream));
    queries();
    without_access();
    enabling();
    copying();
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtFree(on_device_0));
    CHECK_OK(aclrtFree(on_device_1));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclFinalize());
    return END();
}
