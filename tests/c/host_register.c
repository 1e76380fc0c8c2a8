/* Host memory of the program, registered with the runtime. */
#include "gate.h"

enum { SIZE = 1 << 16 };
static unsigned char *bytes;
static aclrtStream stream;

static int location(const void *address)
{
    aclrtPtrAttributes attributes;
    CHECK_OK(aclrtPointerGetAttributes(address, &attributes));
    return (int)attributes.location.type;
}

static void registration(void)
{
    void *device_pointer = NULL;
    GROUP("acl_3_2_60 registered memory is host memory of the runtime");
    CHECK_EQ(location(bytes), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CHECK_OK(aclrtHostRegister(bytes, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer));
    CHECK(device_pointer == bytes);
    CHECK_EQ(location(bytes), ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_EQ(location(bytes + SIZE - 1), ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_EQ(location(bytes + SIZE), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    device_pointer = NULL;
    CHECK_OK(aclrtHostGetDevicePointer(bytes, &device_pointer, 0));
    CHECK(device_pointer == bytes);

    GROUP("acl_3_2_60 wrong arguments are refused");
    CHECK_FAIL(aclrtHostRegister(NULL, 64, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_RT_PARAM_INVALID, "ptr");
    CHECK_FAIL(aclrtHostRegister(bytes, 0, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_RT_PARAM_INVALID, "size");
    CHECK_FAIL(aclrtHostRegister(bytes, 64, ACL_HOST_REGISTER_MAPPED, NULL), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(
        aclrtHostRegister(bytes + SIZE, 64, (aclrtHostRegisterType)77, &device_pointer), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "77");
    CHECK_CODE(
        aclrtHostRegister(bytes, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_FAIL(
        aclrtHostRegister(bytes + SIZE - 1, 64, ACL_HOST_REGISTER_MAPPED, &device_pointer),
        ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "registered");
    CHECK_CODE(
        aclrtHostRegister(bytes + SIZE, SIZE_MAX, ACL_HOST_REGISTER_MAPPED, &device_pointer),
        ACL_ERROR_RT_PARAM_INVALID);
    CHECK_FAIL(
        aclrtHostRegister((void *)0x10000, 4096, ACL_HOST_REGISTER_MAPPED, &device_pointer),
        ACL_ERROR_RT_PARAM_INVALID, "0x10000");
    void *device = NULL;
    CHECK_OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_CODE(
        aclrtHostRegister(device, 4096, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtFree(device));

    GROUP("acl_3_2_60 unregistering");
    CHECK_FAIL(aclrtHostUnregister(NULL), ACL_ERROR_INVALID_PARAM, "ptr");
    CHECK_CODE(aclrtHostUnregister(bytes + 1), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_FAIL(aclrtHostUnregister((void *)0x10), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "0x10");
    CHECK_OK(aclrtHostUnregister(bytes));
    CHECK_CODE(aclrtHostUnregister(bytes), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_EQ(location(bytes), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    CHECK_FAIL(aclrtHostGetDevicePointer(bytes, &device_pointer, 0), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "registered");
    CHECK_FAIL(aclrtHostGetDevicePointer(NULL, &device_pointer, 0), ACL_ERROR_INVALID_PARAM, "pHost");
    CHECK_FAIL(aclrtHostGetDevicePointer(bytes, NULL, 0), ACL_ERROR_INVALID_PARAM, "pDevice");
}

static void register_v2(void)
{
    void *device_pointer = NULL;
    GROUP("acl_3_2_60 registering with flags");
    static const uint32_t flags[] = {
        ACL_HOST_REG_MAPPED, ACL_HOST_REG_PINNED, ACL_HOST_REG_MAPPED | ACL_HOST_REG_READONLY,
        ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        CHECK_OK(aclrtHostRegisterV2(bytes, SIZE, flags[i]));
        CHECK_EQ(location(bytes), ACL_MEM_LOCATION_TYPE_HOST);
        CHECK_CODE(
            aclrtHostRegisterV2(bytes, SIZE, flags[i]), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        CHECK_OK(aclrtHostGetDevicePointer(bytes, &device_pointer, 0));
        CHECK(device_pointer == bytes);
        CHECK_OK(aclrtHostUnregister(bytes));
    }
    CHECK_FAIL(aclrtHostRegisterV2(NULL, 64, ACL_HOST_REG_MAPPED), ACL_ERROR_RT_PARAM_INVALID, "ptr");
    CHECK_FAIL(aclrtHostRegisterV2(bytes, 0, ACL_HOST_REG_MAPPED), ACL_ERROR_RT_PARAM_INVALID, "size");
    CHECK_CODE(aclrtHostRegisterV2(bytes, 64, 0x40), ACL_ERROR_RT_PARAM_INVALID);
}

static void neighbours(void)
{
    void *device_pointer = NULL;
    GROUP("acl_3_2_60 ranges side by side");
    for (size_t i = 0; i < 16; i++)
        CHECK_OK(aclrtHostRegister(bytes + i * 4096, 4096, ACL_HOST_REGISTER_MAPPED, &device_pointer));
    for (size_t i = 0; i < 16; i += 2)
        CHECK_OK(aclrtHostUnregister(bytes + i * 4096));
    CHECK_CODE(
        aclrtHostRegister(bytes, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    for (size_t i = 1; i < 16; i += 2)
        CHECK_OK(aclrtHostUnregister(bytes + i * 4096));
}

static void pinned(void)
{
    unsigned char *block = NULL;
    void *device_pointer = NULL;
    GROUP("acl_3_2_60 pinned memory is registered, so that devices can touch it");
    CHECK_OK(aclrtMallocHost((void **)&block, SIZE));
    CHECK_OK(aclrtHostRegister(block, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer));
    CHECK(device_pointer == block);
    CHECK_CODE(
        aclrtHostRegister(block, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_OK(aclrtMemsetAsync(block, SIZE, 3, SIZE, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(block[SIZE - 1], 3);
    CHECK_OK(aclrtHostUnregister(block));
    CHECK_CODE(aclrtHostUnregister(block), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_EQ(location(block), ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_FAIL(
        aclrtHostRegisterV2(block, SIZE, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "pinned already");
    CHECK_FAIL(aclrtHostRegisterV2(block, 8 << 20, ACL_HOST_REG_MAPPED), ACL_ERROR_RT_PARAM_INVALID, "cannot be registered");
    CHECK_OK(aclrtHostRegisterV2(block + 4096, 4096, ACL_HOST_REG_MAPPED));

    GROUP("acl_3_2_60 a registration ends with the pinned memory");
    CHECK_OK(aclrtFreeHost(block));
    CHECK_CODE(aclrtHostUnregister(block + 4096), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_FAIL(aclrtHostRegister(block, 64, ACL_HOST_REGISTER_MAPPED, &device_pointer), ACL_ERROR_RT_PARAM_INVALID, "freed");
}

static void asynchronous(void)
{
    static Gate gate = GATE_CLOSED;
    void *device_pointer = NULL, *device = NULL;
    int flag = 0;
    GROUP("acl_3_2_60 copies with registered memory are asynchronous");
    CHECK_OK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(device, SIZE, 9, SIZE));
    CHECK_OK(aclrtHostRegister(bytes, SIZE, ACL_HOST_REGISTER_MAPPED, &device_pointer));
    memset(bytes, 1, SIZE);
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(bytes, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_EQ(*(volatile unsigned char *)bytes, 1);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(bytes[SIZE - 1], 9);

    GROUP("acl_3_2_60 unregister waits for the tasks queued before it");
    CHECK_OK(aclrtMemset(device, SIZE, 8, SIZE));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtMemcpyAsync(bytes, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtHostUnregister(bytes));
    CHECK_EQ(raised(&flag), 1);
    CHECK_EQ(bytes[SIZE - 1], 8);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(device));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    if (posix_memalign((void **)&bytes, 4096, 2 * SIZE) != 0)
        abort();
    registration();
    register_v2();
    neighbours();
    pinned();
    asynchronous();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    free(bytes);
    return END();
}
