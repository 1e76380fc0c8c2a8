// breaks: wrong-free
/* Device and host memory: policies, alignment, freeing, what an address is. */
#include "gate.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static aclrtStream stream;

static int aligned(const void *address, size_t alignment)
{
    return ((uintptr_t)address & (alignment - 1)) == 0;
}

/* Writes every byte and reads the ends back. */
static void write_and_read(void *memory, size_t size)
{
    unsigned char ends[2] = {0, 0};
    CHECK_OK(aclrtMemset(memory, size, 0x5a, size));
    CHECK_OK(aclrtMemcpy(&ends[0], 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_OK(aclrtMemcpy(&ends[1], 1, (char *)memory + size - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(ends[0], 0x5a);
    CHECK_EQ(ends[1], 0x5a);
}

static size_t expected_alignment(int policy, size_t size)
{
    switch (policy & 0xff) {
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
        return GIB;
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
        return 2 * MIB;
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
        return 512;
    default:
        return size >= 2 * MIB ? 2 * MIB : 512;
    }
}

static void policies(void)
{
    static const int policy[] = {
        0, 1, 2, 3, 4, 5, 6, 7, ACL_MEM_TYPE_LOW_BAND_WIDTH, ACL_MEM_TYPE_HIGH_BAND_WIDTH,
        ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_ACCESS_USER_SPACE_READONLY,
        ACL_MEM_ACCESS_USER_SPACE_READONLY | ACL_MEM_MALLOC_NORMAL_ONLY};
    static const size_t size[] = {1, 31, 32, 33, 511, 4096, 1000003, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB};
    GROUP("acl_3_2_52 every policy, every size: alignment and use");
    for (size_t p = 0; p < sizeof policy / sizeof *policy; p++)
        for (size_t s = 0; s < sizeof size / sizeof *size; s++)
            for (int function = 0; function < 4; function++) {
                aclrtMemMallocPolicy chosen = (aclrtMemMallocPolicy)policy[p];
                void *memory = NULL;
                int code = function == 0 ? aclrtMalloc(&memory, size[s], chosen)
                    : function == 1      ? aclrtMallocAlign32(&memory, size[s], chosen)
                    : function == 2      ? aclrtMallocCached(&memory, size[s], chosen)
                                     : aclrtMallocWithCfg(&memory, size[s], chosen, NULL);
                if (!CHECK_CODE(code, 0)
                    || !CHECK(aligned(memory, expected_alignment(policy[p], size[s])))) {
                    printf("  policy %#x size %zu function %d at %p\n", policy[p], size[s], function, memory);
                    continue;
                }
                if (function == 0)
                    write_and_read(memory, size[s]);
                CHECK_OK(aclrtFree(memory));
            }

    GROUP("acl_3_2_54 an unknown policy means huge pages from 2 MiB on");
    void *memory = NULL;
    CHECK_OK(aclrtMalloc(&memory, 2 * MIB, (aclrtMemMallocPolicy)77));
    CHECK(aligned(memory, 2 * MIB));
    write_and_read(memory, 2 * MIB);
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtMalloc(&memory, 100, (aclrtMemMallocPolicy)-1));
    CHECK(aligned(memory, 512));
    CHECK_OK(aclrtFree(memory));
}

static void rounding(void)
{
    void *memory = NULL;
    GROUP("acl_3_2_53 without padding the allocation ends at its size, in steps of 32");
    CHECK_OK(aclrtMallocAlign32(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemset(memory, 4096, 1, 4096));
    CHECK_CODE(aclrtMemset(memory, 4097, 1, 4097), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtMallocWithCfg(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY, NULL));
    CHECK_CODE(aclrtMemset(memory, 4097, 1, 4097), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemset(memory, 4096 + 32, 1, 4096 + 32));
    CHECK_CODE(aclrtMemset(memory, 4096 + 33, 1, 4096 + 33), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtFree(memory));
}

#define REFUSED(call, pointer, code, part) \
    do { \
        pointer = (void *)&refused_marker; \
        CHECK_FAIL(call, code, part); \
        CHECK(pointer == NULL); \
    } while (0)

static int refused_marker;

static void bad_sizes(void)
{
    void *m = NULL;
    GROUP("acl_3_2_51 size 0, and null for the result");
    CHECK_FAIL(aclrtMalloc(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtMallocCached(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtMallocAlign32(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(
        aclrtMallocWithCfg(NULL, 64, ACL_MEM_MALLOC_HUGE_FIRST, NULL), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtMallocHost(NULL, 64), ACL_ERROR_INVALID_PARAM, "hostPtr");
    CHECK_FAIL(aclrtMallocHostWithCfg(NULL, 64, NULL), ACL_ERROR_INVALID_PARAM, "ptr");
    REFUSED(aclrtMalloc(&m, 0, ACL_MEM_MALLOC_HUGE_FIRST), m, ACL_ERROR_INVALID_PARAM, "size");
    REFUSED(aclrtMallocCached(&m, 0, ACL_MEM_MALLOC_HUGE_FIRST), m, ACL_ERROR_INVALID_PARAM, "size");
    REFUSED(aclrtMallocAlign32(&m, 0, ACL_MEM_MALLOC_HUGE_FIRST), m, ACL_ERROR_INVALID_PARAM, "size");
    REFUSED(aclrtMallocWithCfg(&m, 0, ACL_MEM_MALLOC_HUGE_FIRST, NULL), m, ACL_ERROR_INVALID_PARAM, "size");
    REFUSED(aclrtMallocHost(&m, 0), m, ACL_ERROR_INVALID_PARAM, "size");
    REFUSED(aclrtMallocHostWithCfg(&m, 0, NULL), m, ACL_ERROR_INVALID_PARAM, "size");

    GROUP("acl_3_2_51 pinned memory with a configuration can be written by the program");
    CHECK_OK(aclrtMallocHostWithCfg(&m, 4096, NULL));
    memset(m, 7, 4096);
    aclrtPtrAttributes of_pinned;
    CHECK_OK(aclrtPointerGetAttributes(m, &of_pinned));
    CHECK_EQ(of_pinned.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_OK(aclrtFreeHost(m));

    GROUP("acl_3_2_51 sizes near 2^64 are out of memory");
    static const size_t size[] = {SIZE_MAX, SIZE_MAX - 31, SIZE_MAX - 63, SIZE_MAX - 2 * MIB, SIZE_MAX - GIB,
        (size_t)1 << 63, (size_t)1 << 48};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        for (int policy = 0; policy < 8; policy++)
            REFUSED(
                aclrtMalloc(&m, size[i], (aclrtMemMallocPolicy)policy), m,
                ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMalloc");
        REFUSED(
            aclrtMallocAlign32(&m, size[i], ACL_MEM_MALLOC_HUGE_FIRST), m,
            ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocAlign32");
        REFUSED(
            aclrtMallocCached(&m, size[i], ACL_MEM_MALLOC_HUGE_FIRST), m,
            ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocCached");
        REFUSED(
            aclrtMallocWithCfg(&m, size[i], ACL_MEM_MALLOC_HUGE_FIRST, NULL), m,
            ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocWithCfg");
        REFUSED(aclrtMallocHost(&m, size[i]), m, ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocHost");
        REFUSED(
            aclrtMallocHostWithCfg(&m, size[i], NULL), m, ACL_ERROR_RT_MEMORY_ALLOCATION,
            "aclrtMallocHostWithCfg");
    }
}

static void attributes_of_allocations(void)
{
    void *memory = NULL;
    aclrtMallocAttribute attribute = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 7}};
    aclrtMallocConfig config = {&attribute, 1}, empty = {NULL, 0}, broken = {NULL, 3};
    GROUP("acl_3_2_53 attributes of an allocation");
    CHECK_OK(aclrtMallocWithCfg(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtMallocWithCfg(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST, &empty));
    CHECK_OK(aclrtFree(memory));
    CHECK_CODE(
        aclrtMallocWithCfg(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST, &broken), ACL_ERROR_INVALID_PARAM);
    CHECK_OK(aclrtMallocHostWithCfg(&memory, 64, &config));
    CHECK_OK(aclrtFreeHost(memory));
    CHECK_CODE(aclrtMallocHostWithCfg(&memory, 64, &broken), ACL_ERROR_INVALID_PARAM);
}

static void freeing(void)
{
    char local[64], address[32];
    char *memory = NULL, *pinned = NULL;
    GROUP("acl_3_2_55 what cannot be freed");
    CHECK_OK(aclrtMalloc((void **)&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost((void **)&pinned, 4096));
    CHECK_FAIL(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtFreeWithDevSync(NULL), ACL_ERROR_INVALID_PARAM, "devPtr");
    CHECK_FAIL(aclrtFreeHost(NULL), ACL_ERROR_INVALID_PARAM, "hostPtr");
    CHECK_FAIL(aclrtFreeHostWithDevSync(NULL), ACL_ERROR_INVALID_PARAM, "hostPtr");
    snprintf(address, sizeof address, "%p", (void *)(memory + 100));
    CHECK_FAIL(aclrtFree(memory + 100), ACL_ERROR_RT_PARAM_INVALID, address);
    CHECK_FAIL(aclrtFree(memory + 100), ACL_ERROR_RT_PARAM_INVALID, "100");
    CHECK_FAIL(aclrtFreeWithDevSync(memory + 100), ACL_ERROR_RT_PARAM_INVALID, "offset");
    CHECK_FAIL(aclrtFreeHost(pinned + 100), ACL_ERROR_RT_PARAM_INVALID, "offset");
    CHECK_FAIL(aclrtFreeHostWithDevSync(pinned + 1), ACL_ERROR_RT_PARAM_INVALID, "offset");
    CHECK_FAIL(aclrtFree(pinned), ACL_ERROR_RT_PARAM_INVALID, "host memory");
    CHECK_FAIL(aclrtFreeHost(memory), ACL_ERROR_RT_PARAM_INVALID, "device");
    CHECK_CODE(aclrtFree(local), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtFreeHost(local), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_FAIL(aclrtFree((void *)0x10), ACL_ERROR_RT_PARAM_INVALID, "0x10");
    CHECK_FAIL(aclrtFreeHost((void *)0x10), ACL_ERROR_RT_PARAM_INVALID, "0x10");
    CHECK_CODE(aclrtFree((void *)UINTPTR_MAX), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_OK(aclrtFree(memory));
    CHECK_FAIL(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_FAIL(aclrtFreeHost(pinned), ACL_ERROR_RT_PARAM_INVALID, "already freed");
}

static void synchronizing(void)
{
    static Gate gate = GATE_CLOSED;
    void *memory = NULL, *pinned = NULL;
    int flag = 0;
    GROUP("acl_3_2_55 free does not synchronize, aclrtFreeWithDevSync does");
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFreeHost(pinned));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtFreeWithDevSync(memory));
    CHECK_EQ(raised(&flag), 1);
    flag = 0;
    CHECK_OK(aclrtMallocHost(&pinned, 4096));
    CHECK_OK(aclrtLaunchHostFunc(stream, raise_flag_late, &flag));
    CHECK_OK(aclrtFreeHostWithDevSync(pinned));
    CHECK_EQ(raised(&flag), 1);
}

static void check_location(const void *address, int type, int id)
{
    aclrtPtrAttributes attributes;
    memset(&attributes, 0x77, sizeof attributes);
    CHECK_OK(aclrtPointerGetAttributes(address, &attributes));
    CHECK_EQ(attributes.location.type, type);
    if (type == ACL_MEM_LOCATION_TYPE_DEVICE)
        CHECK_EQ(attributes.location.id, id);
}

static void pointers(void)
{
    char *memory = NULL, *on_device_1 = NULL, *pinned = NULL, local = 0;
    aclrtPtrAttributes attributes;
    GROUP("acl_3_2_55 what an address is");
    CHECK_OK(aclrtMalloc((void **)&memory, 3 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost((void **)&pinned, 5000));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc((void **)&on_device_1, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtSetDevice(0));
    check_location(memory, ACL_MEM_LOCATION_TYPE_DEVICE, 0);
    check_location(memory + 3 * MIB - 1, ACL_MEM_LOCATION_TYPE_DEVICE, 0);
    check_location(on_device_1 + 50, ACL_MEM_LOCATION_TYPE_DEVICE, 1);
    check_location(pinned, ACL_MEM_LOCATION_TYPE_HOST, 0);
    check_location(pinned + 4999, ACL_MEM_LOCATION_TYPE_HOST, 0);
    check_location(&local, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    check_location((void *)0x10, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    check_location((void *)UINTPTR_MAX, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    CHECK_FAIL(aclrtPointerGetAttributes(NULL, &attributes), ACL_ERROR_INVALID_PARAM, "ptr");
    CHECK_FAIL(aclrtPointerGetAttributes(memory, NULL), ACL_ERROR_INVALID_PARAM, "attributes");
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFree(on_device_1));
    CHECK_OK(aclrtFreeHost(pinned));
    check_location(memory, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    check_location(pinned, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0);
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclrtResetDevice(0));
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static void no_overlap(void)
{
    enum { COUNT = 4000, SIZE = 3000 };
    static uintptr_t addresses[COUNT];
    GROUP("acl_3_2_52 live allocations do not overlap");
    for (int i = 0; i < COUNT; i++)
        if (!CHECK_OK(aclrtMalloc((void **)&addresses[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST)))
            return;
    qsort(addresses, COUNT, sizeof *addresses, by_address);
    for (int i = 1; i < COUNT; i++)
        if (addresses[i] - addresses[i - 1] < SIZE && !CHECK(addresses[i] - addresses[i - 1] >= SIZE))
            break;
    for (int i = 0; i < COUNT; i++)
        CHECK_OK(aclrtFree((void *)addresses[i]));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    policies();
    rounding();
    bad_sizes();
    attributes_of_allocations();
    freeing();
    synchronizing();
    no_overlap();
    CHECK_OK(aclrtDestroyStream(stream));
    pointers();
    CHECK_OK(aclFinalize());
    return END();
}
