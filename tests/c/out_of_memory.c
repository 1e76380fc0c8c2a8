// env: CAIRN_DEVICE_MEMORY=256mib
// env: CAIRN_DEVICE_MEMORY=256mib CAIRN_QUARANTINE=64mib CAIRN_WORKERS=1
/* A full device: the code, the figures in the text, and that everything works afterwards. */
#include "gate.h"

#define MIB ((size_t)1 << 20)

static size_t free_bytes(void)
{
    size_t available = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    CHECK_EQ(total, 256 * MIB);
    return available;
}

/* The text has the number, in bytes. */
static int has_number(const char *text, size_t number)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%zu", number);
    return strstr(text, digits) != NULL;
}

int main(void)
{
    enum { COUNT = 256 };
    static void *blocks[COUNT];
    int count = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("acl_3_2_51 more than the device has");
    void *memory = &count;
    CHECK_FAIL(
        aclrtMalloc(&memory, 257 * MIB, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "aclrtMalloc");
    CHECK(memory == NULL);
    CHECK_FAIL(
        aclrtMalloc(&memory, (size_t)-5, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "18446744073709551611 bytes (-5 as a signed number");
    CHECK_FAIL(
        aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION,
        "What to do: ask for less");

    GROUP("acl_3_2_51 a full device: asked, free, capacity and largest hole");
    while (count < COUNT && aclrtMallocAlign32(&blocks[count], 4 * MIB, ACL_MEM_MALLOC_HUGE_ONLY) == 0)
        count++;
    (void)aclGetRecentErrMsg();
    CHECK(count >= 60 && count <= 64);
    size_t left = free_bytes();
    CHECK(left < 16 * MIB);
    memory = &count;
    CHECK_CODE(
        aclrtMallocAlign32(&memory, 20 * MIB, ACL_MEM_MALLOC_HUGE_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    CHECK(memory == NULL);
    const char *text = aclGetRecentErrMsg();
    CHECK(text && has_number(text, 20 * MIB) && has_number(text, left) && has_number(text, 256 * MIB));
    CHECK(text && strstr(text, "largest"));
    CHECK(text && strstr(text, "What to do: free memory, use smaller batches, or set CAIRN_DEVICE_MEMORY"));
    printf("  the text: %s\n", text ? text : "(none)");

    GROUP("acl_3_2_51 freed memory is free again, and no more than that");
    for (int i = 0; i < 20; i += 2) {
        CHECK_OK(aclrtFree(blocks[i]));
        blocks[i] = NULL;
    }
    CHECK_EQ(free_bytes(), left + 40 * MIB);
    CHECK_CODE(
        aclrtMallocAlign32(&memory, left + 42 * MIB, ACL_MEM_MALLOC_HUGE_ONLY),
        ACL_ERROR_RT_MEMORY_ALLOCATION);
    text = aclGetRecentErrMsg();
    CHECK(text && has_number(text, left + 42 * MIB) && has_number(text, left + 40 * MIB));
    for (int i = 0; i < 20; i += 2)
        CHECK_OK(aclrtMallocAlign32(&blocks[i], 4 * MIB, ACL_MEM_MALLOC_HUGE_ONLY));
    CHECK_EQ(free_bytes(), left);

    GROUP("acl_3_2_51 tasks run after out of memory");
    for (int i = 0; i < count; i++)
        CHECK_OK(aclrtMemsetAsync(blocks[i], 4 * MIB, i, 4 * MIB, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    for (int i = 0; i < count; i++) {
        unsigned char byte = 0xff;
        CHECK_OK(aclrtMemcpy(&byte, 1, (char *)blocks[i] + 4 * MIB - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(byte, i & 255);
        CHECK_OK(aclrtFree(blocks[i]));
    }
    CHECK_OK(aclrtMalloc(&memory, 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(memory, 200 * MIB, 1, 200 * MIB));

    GROUP("acl_3_2_51 the other device is not full");
    void *on_device_1 = NULL;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&on_device_1, 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(on_device_1));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
