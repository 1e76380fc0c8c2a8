// breaks: use-after-free
/* Copies and fills that are complete on return. */
#include "gate.h"

#define MIB ((size_t)1 << 20)

static unsigned char *device, *second, *pinned, *pageable, *expected;
enum { SIZE = 1 << 20 };

static void fill_pattern(unsigned char *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

/* Copies `count` bytes through the device and compares them. */
static void round_trip(size_t count, size_t device_offset, size_t host_offset, aclrtMemcpyKind to_device, aclrtMemcpyKind to_host)
{
    unsigned char *host = pageable + host_offset;
    fill_pattern(host, count, (unsigned)(count + device_offset));
    memcpy(expected, host, count);
    CHECK_OK(aclrtMemcpy(device + device_offset, SIZE - device_offset, host, count, to_device));
    memset(host, 0, count);
    CHECK_OK(aclrtMemcpy(host, SIZE - host_offset, device + device_offset, count, to_host));
    if (!CHECK(memcmp(host, expected, count) == 0))
        printf("  %zu bytes, offsets %zu and %zu\n", count, device_offset, host_offset);
}

static void kinds(void)
{
    static const size_t counts[] = {1, 2, 7, 63, 64, 65, 4095, 4096, 65537, SIZE - 300};
    GROUP("acl_3_2_59 every kind, many sizes, unaligned addresses");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t offset = 0; offset < 300; offset += 101) {
            round_trip(counts[i], offset, 300 - offset, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST);
            round_trip(counts[i], offset, offset, ACL_MEMCPY_DEFAULT, ACL_MEMCPY_DEFAULT);
            round_trip(counts[i], offset, 0, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST);
        }
    fill_pattern(pageable, SIZE, 5);
    CHECK_OK(aclrtMemcpy(pinned, SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_HOST));
    CHECK(memcmp(pinned, pageable, SIZE) == 0);
    CHECK_OK(aclrtMemcpy(device, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtMemcpy(second, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    memset(pinned, 0, SIZE);
    CHECK_OK(aclrtMemcpy(pinned, SIZE, second, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(pinned, pageable, SIZE) == 0);

    GROUP("acl_3_2_59 the addresses decide, the kind is advice");
    for (int kind = 0; kind <= 5; kind++)
        for (int second_kind = 0; second_kind <= 5; second_kind++)
            round_trip(1000, 3, 5, (aclrtMemcpyKind)kind, (aclrtMemcpyKind)second_kind);
}

static void checks(void)
{
    unsigned char byte = 1;
    char address[32];
    GROUP("acl_3_2_56 a copy of 0 bytes checks nothing");
    CHECK_OK(aclrtMemcpy(NULL, 0, NULL, 0, ACL_MEMCPY_HOST_TO_HOST));
    CHECK_OK(aclrtMemcpy(device, 0, NULL, 0, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtMemcpy((void *)0x10, 0, (void *)0x20, 0, (aclrtMemcpyKind)99));

    GROUP("acl_3_2_57 null pointers and unknown kinds");
    CHECK_FAIL(aclrtMemcpy(NULL, 8, pageable, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM, "dst");
    CHECK_FAIL(aclrtMemcpy(device, 8, NULL, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_INVALID_PARAM, "src");
    CHECK_FAIL(aclrtMemcpy(device, 8, pageable, 8, (aclrtMemcpyKind)6), ACL_ERROR_INVALID_PARAM, "6");
    CHECK_CODE(aclrtMemcpy(device, 8, pageable, 8, (aclrtMemcpyKind)-1), ACL_ERROR_INVALID_PARAM);
    CHECK_FAIL(aclrtMemcpy(device, 8, pageable, 8, (aclrtMemcpyKind)1000), ACL_ERROR_INVALID_PARAM, "1000");

    GROUP("acl_3_2_58 more bytes than destMax");
    CHECK_FAIL(
        aclrtMemcpy(device, 8, pageable, 9, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID, "9");
    CHECK_CODE(aclrtMemcpy(device, 0, pageable, 1, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtMemcpy(device, 8, device, 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK_OK(aclrtMemcpy(pageable, 8, pageable, 8, ACL_MEMCPY_HOST_TO_HOST));

    GROUP("acl_3_2_58 ranges that leave their allocation, and that overlap");
    snprintf(address, sizeof address, "%p", (void *)device);
    CHECK_FAIL(
        aclrtMemcpy(device, 2 * SIZE, pageable, SIZE + 512, ACL_MEMCPY_HOST_TO_DEVICE),
        ACL_ERROR_RT_PARAM_INVALID, address);
    CHECK_CODE(
        aclrtMemcpy(pageable, 2 * SIZE, device + SIZE - 10, 600, ACL_MEMCPY_DEVICE_TO_HOST),
        ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpy(pinned + SIZE - 1, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST),
        ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpy(device + 1, 100, device, 100, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(
        aclrtMemcpy(device, 100, device + 99, 100, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtMemcpy(device, 100, device + 100, 100, ACL_MEMCPY_DEVICE_TO_DEVICE));
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)1 << 63, (size_t)1 << 47};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        CHECK_CODE(
            aclrtMemcpy(device, SIZE_MAX, pageable, huge[i], ACL_MEMCPY_HOST_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
        CHECK_CODE(
            aclrtMemcpy(pageable, SIZE_MAX, device, huge[i], ACL_MEMCPY_DEVICE_TO_HOST),
            ACL_ERROR_RT_PARAM_INVALID);
        CHECK_CODE(
            aclrtMemcpy(second, SIZE_MAX, device, huge[i], ACL_MEMCPY_DEVICE_TO_DEVICE),
            ACL_ERROR_RT_PARAM_INVALID);
        CHECK_CODE(aclrtMemset(device, SIZE_MAX, 0, huge[i]), ACL_ERROR_RT_PARAM_INVALID);
    }
    CHECK_CODE(
        aclrtMemcpy(pageable, SIZE_MAX, expected, SIZE_MAX, ACL_MEMCPY_HOST_TO_HOST),
        ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtMemcpy(&byte, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));

    GROUP("acl_3_2_58 a destination that is read-only");
    static const unsigned char read_only[8192] = {7};
    CHECK_FAIL(
        aclrtMemcpy((void *)(uintptr_t)read_only, sizeof read_only, device, sizeof read_only, ACL_MEMCPY_DEVICE_TO_HOST),
        ACL_ERROR_RT_PARAM_INVALID, "read-only");
    CHECK_FAIL(
        aclrtMemset((void *)(uintptr_t)read_only, sizeof read_only, 0, sizeof read_only), ACL_ERROR_RT_PARAM_INVALID,
        "read-only");
    CHECK_EQ(read_only[0], 7);
}

static void unmapped_addresses(void)
{
    void *const wild = (void *)0x10010;
    GROUP("acl_3_2_58 addresses without memory");
    CHECK_FAIL(
        aclrtMemcpy(pageable, 64, wild, 64, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID, "0x10010");
    CHECK_CODE(aclrtMemcpy(wild, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtMemcpy(device, 64, wild, 64, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtMemcpy(wild, 64, pageable, 64, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtMemset(wild, 64, 1, 64), ACL_ERROR_RT_PARAM_INVALID);
    void *freed = NULL;
    CHECK_OK(aclrtMalloc(&freed, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(freed));
    CHECK_OK(aclrtMemcpyAsync(pinned, 64, freed, 64, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
}

static void fills(void)
{
    unsigned char bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    GROUP("acl_3_2_61 filling memory");
    CHECK_OK(aclrtMemset(NULL, 0, 1, 0));
    CHECK_OK(aclrtMemset(device, 0, 1, 0));
    CHECK_FAIL(aclrtMemset(NULL, 8, 1, 8), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtMemset(device, 8, 1, 9), ACL_ERROR_RT_PARAM_INVALID, "9");
    CHECK_CODE(aclrtMemset(device, 2 * SIZE, 1, SIZE + 512), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtMemset(device, SIZE, 0x1fe, SIZE));
    CHECK_OK(aclrtMemset(device + 3, SIZE - 3, -1, 2));
    CHECK_OK(aclrtMemcpy(bytes, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(bytes[2], 0xfe);
    CHECK_EQ(bytes[3], 0xff);
    CHECK_EQ(bytes[4], 0xff);
    CHECK_EQ(bytes[5], 0xfe);
    CHECK_OK(aclrtMemset(bytes, 8, 7, 3));
    CHECK_EQ(bytes[2], 7);
    CHECK_EQ(bytes[3], 0xff);
    CHECK_OK(aclrtMemset(pinned, SIZE, 9, SIZE));
    CHECK_EQ(pinned[SIZE - 1], 9);
}

static void other_device(void)
{
    void *memory = NULL;
    GROUP("acl_3_2_58 addresses of another device");
    unsigned char byte = 0;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(memory, 4096, 3, 4096));
    CHECK_OK(aclrtMemcpy(&byte, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 3);
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(1));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtMallocAlign32((void **)&device, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMallocAlign32((void **)&second, SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMallocHost((void **)&pinned, SIZE));
    pageable = malloc(SIZE);
    expected = malloc(SIZE);
    kinds();
    checks();
    unmapped_addresses();
    fills();
    other_device();
    CHECK_OK(aclrtFree(device));
    CHECK_OK(aclrtFree(second));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    free(pageable);
    free(expected);
    return END();
}
