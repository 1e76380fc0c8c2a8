// env: CAIRN_DEVICE_MEMORY=512mib
// env: CAIRN_DEVICE_MEMORY=512mib CAIRN_WORKERS=1
/*
 * Memory freed while tasks that use it are queued: allocate, copy asynchronously, free at once, and
 * every byte arrives. Far more is freed than the quarantine holds.
 */
#include "gate.h"

enum { SIZE = 16 << 10, SLOTS = 64 };
static unsigned char *results;
static aclrtStream stream;

static void fill(unsigned char *bytes, uint32_t seed)
{
    uint32_t *words = (uint32_t *)bytes;
    for (uint32_t i = 0; i < SIZE / 4; i++)
        words[i] = seed * 2654435761u + i;
}

static int is_filled(const unsigned char *bytes, uint32_t seed)
{
    const uint32_t *words = (const uint32_t *)bytes;
    for (uint32_t i = 0; i < SIZE / 4; i++)
        if (words[i] != seed * 2654435761u + i)
            return 0;
    return 1;
}

/* Copies host, device, device, host, each buffer freed before its copy has run. */
static int copy_through(uint32_t seed, unsigned char *result, int32_t second_device)
{
    unsigned char *pinned = NULL;
    void *first = NULL, *second = NULL;
    int ok = CHECK_OK(aclrtMallocHost((void **)&pinned, SIZE));
    ok = ok && CHECK_OK(aclrtMalloc(&first, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    if (ok && second_device) {
        aclrtContext current = NULL;
        ok = CHECK_OK(aclrtGetCurrentContext(&current)) && CHECK_OK(aclrtSetDevice(second_device));
        ok = ok && CHECK_OK(aclrtMalloc(&second, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        ok = ok && CHECK_OK(aclrtResetDevice(second_device)) && CHECK_OK(aclrtSetCurrentContext(current));
    } else if (ok) {
        ok = CHECK_OK(aclrtMalloc(&second, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    if (!ok)
        return 0;
    fill(pinned, seed);
    ok = CHECK_OK(aclrtMemcpyAsync(first, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    ok &= CHECK_OK(aclrtFreeHost(pinned));
    ok &= CHECK_OK(aclrtMemcpyAsync(second, SIZE, first, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    ok &= CHECK_OK(aclrtFree(first));
    ok &= CHECK_OK(aclrtMemcpyAsync(result, SIZE, second, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    ok &= CHECK_OK(aclrtFree(second));
    return ok;
}

static void copy_many(uint32_t count, int32_t second_device)
{
    for (uint32_t i = 0; i < count; i += SLOTS) {
        memset(results, 0, (size_t)SIZE * SLOTS);
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            if (!copy_through(i + slot, results + (size_t)slot * SIZE, second_device))
                return;
        if (!CHECK_OK(aclrtSynchronizeStream(stream)))
            return;
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            if (!is_filled(results + (size_t)slot * SIZE, i + slot)) {
                CHECK_EQ(i + slot, -1);
                return;
            }
    }
}

/* Freed memory is not allocated again while a queued task reads it. */
static void kept_until_copied(void)
{
    static Gate gate = GATE_CLOSED;
    enum { MORE = 400, BIG = 128 << 10 };
    void *blocks[SLOTS];
    void *more[MORE];
    aclrtStream other = NULL;
    GROUP("acl_3_2_55 freed memory keeps its contents until the queued copies have run");
    CHECK_OK(aclrtCreateStream(&other));
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(aclrtMalloc(&blocks[i], BIG, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtMemset(blocks[i], BIG, i + 1, BIG));
    }
    memset(results, 0, (size_t)SIZE * SLOTS);
    gate_put(&gate, stream);
    for (int i = 0; i < SLOTS; i++) {
        CHECK_OK(aclrtMemcpyAsync(
            results + (size_t)i * SIZE, SIZE, (char *)blocks[i] + BIG - SIZE, SIZE,
            ACL_MEMCPY_DEVICE_TO_HOST, stream));
        CHECK_OK(aclrtFree(blocks[i]));
    }
    for (int i = 0; i < MORE; i++) {
        CHECK_OK(aclrtMalloc(&more[i], BIG, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtMemsetAsync(more[i], BIG, 0xee, BIG, other));
    }
    CHECK_OK(aclrtSynchronizeStream(other));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < SLOTS; i++) {
        const unsigned char *bytes = results + (size_t)i * SIZE;
        if (bytes[0] != i + 1 || bytes[SIZE - 1] != i + 1) {
            CHECK_EQ(bytes[0], i + 1);
            break;
        }
    }
    for (int i = 0; i < MORE; i++)
        CHECK_OK(aclrtFree(more[i]));
    CHECK_OK(aclrtDestroyStream(other));
}

int main(void)
{
    size_t free_before = 0, free_after = 0, total = 0;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMallocHost((void **)&results, (size_t)SIZE * SLOTS));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_before, &total));
    kept_until_copied();
    GROUP("acl_3_2_55 a hundred thousand copies through freed memory");
    copy_many(100000, 0);
    GROUP("acl_3_2_20 the same between two devices");
    copy_many(20000, 1);
    GROUP("acl_3_2_62 nothing is lost");
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_after, &total));
    CHECK_EQ(free_after, free_before);
    CHECK_OK(aclrtFreeHost(results));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
