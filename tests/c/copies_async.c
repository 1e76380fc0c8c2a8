// env:
// env: CAIRN_WORKERS=1
/* Copies and fills as tasks: when they happen, and how their failures are reported. */
#include "gate.h"

enum { SIZE = 1 << 18 };
static unsigned char *device, *second, *pinned, *other, *pageable;
static aclrtStream stream;
static Gate gate = GATE_CLOSED;

static int all_equal(const unsigned char *bytes, unsigned char value)
{
    for (size_t i = 0; i < SIZE; i++)
        if (((volatile const unsigned char *)bytes)[i] != value)
            return 0;
    return 1;
}

static int device_is(unsigned char *address, unsigned char value)
{
    unsigned char *copy = malloc(SIZE);
    CHECK_OK(aclrtMemcpy(copy, SIZE, address, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    int holds = all_equal(copy, value);
    free(copy);
    return holds;
}

static void pinned_memory(void)
{
    GROUP("acl_3_2_60 with pinned memory a copy is asynchronous");
    CHECK_OK(aclrtMemset(device, SIZE, 2, SIZE));
    memset(pinned, 1, SIZE);
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(pinned, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    CHECK(all_equal(pinned, 1));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(all_equal(pinned, 2));

    GROUP("acl_3_2_60 the source is read when the copy runs");
    memset(pinned, 3, SIZE);
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(device, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtMemcpyAsync(other, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_HOST, stream));
    memset(pinned, 4, SIZE);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(device_is(device, 4));
    CHECK(all_equal(other, 4));
}

static aclError host_func_code;

/* A host function that copies to pageable memory on its own stream. */
static void copy_in_host_func(void *argument)
{
    unsigned char local[64] = {0};
    host_func_code = aclrtMemcpyAsync(local, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, argument);
}

static void pageable_special_cases(void)
{
    GROUP("acl_3_2_60 pageable copies are complete on return on every kind of stream");
    aclrtStream persistent = NULL;
    CHECK_OK(aclrtCreateStreamWithConfig(&persistent, 0, ACL_STREAM_PERSISTENT));
    CHECK_OK(aclrtMemset(device, SIZE, 9, SIZE));
    memset(pageable, 1, SIZE);
    CHECK_OK(aclrtMemcpyAsync(pageable, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, persistent));
    CHECK(all_equal(pageable, 9));
    CHECK_OK(aclrtDestroyStream(persistent));

    GROUP("acl_3_2_60 a pageable copy from the stream's own host function is refused before it is queued");
    CHECK_OK(aclrtLaunchHostFunc(stream, copy_in_host_func, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(host_func_code, ACL_ERROR_RT_PARAM_INVALID);

    GROUP("acl_3_2_60 after a pageable copy, synchronize still reports an earlier failure");
    CHECK_OK(aclrtMemsetAsync(device + SIZE - 64, 4096, 0, 4096, stream));
    CHECK_OK(aclrtMemcpyAsync(pageable, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID, "aclrtMemsetAsync");
}

static void pageable_memory(void)
{
    int flag = 0;
    GROUP("acl_3_2_60 with pageable memory a copy is complete on return, in order");
    CHECK_OK(aclrtMemset(device, SIZE, 5, SIZE));
    memset(pageable, 1, SIZE);
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtMemsetAsync(device, SIZE, 6, SIZE, stream));
    CHECK_OK(aclrtMemcpyAsync(pageable, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_EQ(raised(&flag), 1);
    CHECK(all_equal(pageable, 6));
    memset(pageable, 7, SIZE);
    CHECK_OK(aclrtMemcpyAsync(device, SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(pageable, 8, SIZE);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(device_is(device, 7));
    memset(pageable, 9, SIZE);
    CHECK_OK(aclrtMemcpyAsync(device, SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream));
    memset(pageable, 8, SIZE);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(device_is(device, 9));
}

static void on_the_device(void)
{
    static const aclrtMemcpyKind kinds[] = {
        ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_MEMCPY_DEFAULT, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE};
    GROUP("acl_3_2_60 fills and copies on the device run in order");
    for (size_t i = 0; i < 3; i++) {
        gate_put(&gate, stream);
        CHECK_OK(aclrtMemsetAsync(device, SIZE, 10 + (int)i, SIZE, stream));
        CHECK_OK(aclrtMemcpyAsync(second, SIZE, device, SIZE, kinds[i], stream));
        CHECK_OK(aclrtMemsetAsync(device, SIZE, 99, SIZE, stream));
        gate_open(&gate);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(device_is(second, (unsigned char)(10 + i)));
        CHECK(device_is(device, 99));
    }
    memset(pinned, 42, SIZE);
    CHECK_OK(aclrtMemcpyAsync(device, SIZE, pinned, SIZE, ACL_MEMCPY_DEFAULT, NULL));
    CHECK_OK(aclrtMemsetAsync(pinned, SIZE, 43, SIZE, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    CHECK(device_is(device, 42));
    CHECK(all_equal(pinned, 43));
}

static void refused_by_call(void)
{
    GROUP("acl_3_2_57 what the call itself refuses");
    CHECK_OK(aclrtMemcpyAsync(NULL, 0, NULL, 0, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK_OK(aclrtMemsetAsync(NULL, 0, 1, 0, stream));
    CHECK_FAIL(
        aclrtMemcpyAsync(NULL, 8, pinned, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_ERROR_INVALID_PARAM, "dst");
    CHECK_FAIL(
        aclrtMemcpyAsync(device, 8, NULL, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_ERROR_INVALID_PARAM, "src");
    CHECK_FAIL(
        aclrtMemcpyAsync(device, 8, pinned, 8, (aclrtMemcpyKind)8, stream), ACL_ERROR_INVALID_PARAM, "8");
    CHECK_CODE(
        aclrtMemcpyAsync(device, 8, pinned, 8, (aclrtMemcpyKind)-1, stream), ACL_ERROR_INVALID_PARAM);
    CHECK_FAIL(
        aclrtMemcpyAsync(device, 8, pinned, 9, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "9");
    CHECK_FAIL(aclrtMemsetAsync(NULL, 8, 1, 8, stream), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtMemsetAsync(device, 8, 1, 9, stream), ACL_ERROR_RT_PARAM_INVALID, "9");

    GROUP("acl_3_2_59 addresses that contradict the kind");
    CHECK_FAIL(
        aclrtMemcpyAsync(pinned, 8, other, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "dst");
    CHECK_FAIL(
        aclrtMemcpyAsync(device, 8, second, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "src");
    CHECK_CODE(
        aclrtMemcpyAsync(pinned, 8, other, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpyAsync(device, 8, second, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpyAsync(device, 8, pinned, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpyAsync(device, 8, pinned, 8, ACL_MEMCPY_HOST_TO_HOST, stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtSynchronizeStream(stream));
}

/* The failure shows at synchronize, with the task, the argument, the address and the length. */
static void check_fails_at_synchronize(int submitted, const char *task, const char *argument, void *address, const char *length)
{
    char address_text[32];
    if (!CHECK_CODE(submitted, 0))
        return;
    (void)aclGetRecentErrMsg();
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    const char *text = aclGetRecentErrMsg();
    snprintf(address_text, sizeof address_text, "%p", address);
    if (!CHECK(text && strstr(text, task) && strstr(text, argument) && strstr(text, address_text) && strstr(text, length)))
        printf("  expected %s, %s, %s, %s in: %s\n", task, argument, address_text, length, text ? text : "(none)");
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void failed_tasks(void)
{
    GROUP("acl_3_2_58 ranges that leave their allocation fail at synchronize");
    check_fails_at_synchronize(
        aclrtMemsetAsync(device, 2 * SIZE, 1, SIZE + 512, stream), "aclrtMemsetAsync", "destination", device, "262656");
    check_fails_at_synchronize(
        aclrtMemcpyAsync(device, 2 * SIZE, pinned, SIZE + 512, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        "aclrtMemcpyAsync", "source", pinned, "262656");
    check_fails_at_synchronize(
        aclrtMemcpyAsync(second + 512, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        "aclrtMemcpyAsync", "destination", second + 512, "262144");
    check_fails_at_synchronize(
        aclrtMemsetAsync(device, SIZE_MAX, 1, SIZE_MAX, stream), "aclrtMemsetAsync", "destination", device,
        "18446744073709551615");
    check_fails_at_synchronize(
        aclrtMemcpyAsync(pinned, SIZE_MAX, device, (size_t)1 << 36, ACL_MEMCPY_DEVICE_TO_HOST, stream),
        "aclrtMemcpyAsync", "source", device, "68719476736");
    CHECK_FAIL(
        aclrtMemcpyAsync(device + 10, SIZE, device, 20, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "overlap");
    CHECK_CODE(
        aclrtMemcpyAsync(second, SIZE_MAX, device, SIZE_MAX - 8, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID);

    GROUP("acl_3_2_58 a failed copy changes nothing and later ones run");
    CHECK_OK(aclrtMemset(device, SIZE, 1, SIZE));
    CHECK_OK(aclrtMemset(second, SIZE, 2, SIZE));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(device, 2 * SIZE, 77, SIZE + 512, stream));
    CHECK_OK(aclrtMemcpyAsync(second, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    gate_open(&gate);
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    CHECK(device_is(second, 1));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMallocAlign32((void **)&device, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMallocAlign32((void **)&second, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMallocHost((void **)&pinned, SIZE));
    CHECK_OK(aclrtMallocHost((void **)&other, SIZE));
    pageable = malloc(SIZE);
    pinned_memory();
    pageable_memory();
    pageable_special_cases();
    on_the_device();
    refused_by_call();
    failed_tasks();
    CHECK_OK(aclrtFree(device));
    CHECK_OK(aclrtFree(second));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtFreeHost(other));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    free(pageable);
    return END();
}
