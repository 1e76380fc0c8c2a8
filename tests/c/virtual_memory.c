// env: CAIRN_HOST_MEMORY=6gib
// breaks: freed-while-pending use-after-free wrong-free
/* Virtual memory: reservations, physical memory and its references, pieces, access; row by row what is refused. */
#include "gate.h"

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)
#define GIB ((size_t)1 << 30)
#define DRIVER 507899

static aclrtPhysicalMemProp device_memory(void)
{
    aclrtPhysicalMemProp prop;
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

static aclrtDrvMemHandle physical(size_t bytes)
{
    aclrtPhysicalMemProp prop = device_memory();
    aclrtDrvMemHandle handle = NULL;
    CHECK_OK(aclrtMallocPhysical(&handle, bytes, &prop, 0));
    CHECK(handle != NULL);
    return handle;
}

static char *reserved(size_t bytes)
{
    void *address = NULL;
    CHECK_OK(aclrtReserveMemAddress(&address, bytes, 0, NULL, 0));
    CHECK(address != NULL && (uintptr_t)address % PAGE == 0);
    return (char *)address;
}

static size_t free_bytes(void)
{
    size_t available = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    return available;
}

static void reservations(void)
{
    void *address = (void *)1;
    GROUP("acl_vmm_1 addresses are reserved, small and larger than the machine");
    CHECK_OK(aclrtReserveMemAddress(&address, 512, 0, NULL, 1));
    CHECK(address != NULL && (uintptr_t)address % PAGE == 0);
    CHECK_OK(aclrtReleaseMemAddress(address));
    void *large[30];
    for (int i = 0; i < 30; i++) {
        CHECK_OK(aclrtReserveMemAddress(&large[i], 72 * GIB, 0, NULL, 0));
        CHECK((uintptr_t)large[i] % GIB == 0);
    }
    for (int i = 0; i < 30; i++)
        CHECK_OK(aclrtReleaseMemAddress(large[i]));
    void *expected = (void *)((uintptr_t)17 << 40);
    CHECK_OK(aclrtReserveMemAddress(&address, PAGE, 0, expected, 0));
    CHECK(address == expected);

    GROUP("acl_vmm_1 wrong reservations are named");
    void *other = (void *)1;
    CHECK_FAIL(aclrtReserveMemAddress(&other, PAGE, 0, expected, 0), DRIVER, "in use");
    CHECK(other == NULL);
    CHECK_OK(aclrtReleaseMemAddress(address));
    CHECK_FAIL(aclrtReserveMemAddress(NULL, PAGE, 0, NULL, 0), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtReserveMemAddress(&other, 0, 0, NULL, 0), ACL_ERROR_INVALID_PARAM, "size 0");
    CHECK_FAIL(aclrtReserveMemAddress(&other, PAGE, 0, NULL, 2), ACL_ERROR_INVALID_PARAM, "flags 2");
    CHECK_FAIL(
        aclrtReserveMemAddress(&other, PAGE, PAGE, NULL, 0), ACL_ERROR_RT_PARAM_INVALID, "alignment");
    CHECK_FAIL(
        aclrtReserveMemAddress(&other, PAGE, 0, (void *)((uintptr_t)17 << 40 | 4096), 0),
        ACL_ERROR_RT_PARAM_INVALID, "multiple of 2097152");
    CHECK_FAIL(
        aclrtReserveMemAddress(&other, PAGE, 0, (void *)PAGE, 0), ACL_ERROR_RT_PARAM_INVALID,
        "addresses are");
    CHECK_FAIL(
        aclrtReserveMemAddress(&other, (size_t)9 << 40, 0, NULL, 0),
        ACL_ERROR_RT_MEMORY_ALLOCATION, "8 TiB");
    CHECK_FAIL(
        aclrtReserveMemAddressNoUCMemory(&other, GIB, 0, (void *)((uintptr_t)48 << 40), 0),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A3");
    CHECK_FAIL(aclrtReleaseMemAddress(NULL), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtReleaseMemAddress(expected), ACL_ERROR_RT_PARAM_INVALID, "nothing is reserved");
    char *start = reserved(4 * PAGE);
    CHECK_FAIL(
        aclrtReleaseMemAddress(start + PAGE), ACL_ERROR_RT_PARAM_INVALID, "lies inside the one");
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_FAIL(aclrtReleaseMemAddress(start), ACL_ERROR_RT_PARAM_INVALID, "not the start");
}

static void refused(aclrtPhysicalMemProp prop, size_t size, uint64_t flags, int code, const char *part)
{
    aclrtDrvMemHandle handle = (aclrtDrvMemHandle)1;
    CHECK_FAIL(aclrtMallocPhysical(&handle, size, &prop, flags), code, part);
    CHECK(handle == NULL);
}

static void physical_memory(void)
{
    aclrtPhysicalMemProp prop = device_memory(), answer, bad;
    size_t granularity = 0, before = free_bytes();
    GROUP("acl_vmm_2 physical memory has a granularity, properties and references");
    CHECK_OK(aclrtMemGetAllocationGranularity(
        &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
    CHECK(granularity == PAGE);
    bad = prop;
    bad.memAttr = ACL_HBM_MEM_HUGE1G;
    CHECK_OK(aclrtMemGetAllocationGranularity(
        &bad, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity));
    CHECK(granularity == GIB);
    bad = prop;
    bad.memAttr = ACL_MEM_NORMAL;
    bad.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    CHECK_OK(
        aclrtMemGetAllocationGranularity(&bad, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity));
    CHECK(granularity == (size_t)sysconf(_SC_PAGESIZE));
    CHECK_OK(aclrtMemGetAllocationGranularity(
        &bad, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granularity));
    CHECK(granularity == PAGE);
    CHECK_FAIL(
        aclrtMemGetAllocationGranularity(&prop, (aclrtMemGranularityOptions)2, &granularity),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "option 2");
    aclrtDrvMemHandle handle = physical(PAGE);
    CHECK(free_bytes() == before - PAGE);
    CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(handle, &answer));
    CHECK(answer.memAttr == ACL_HBM_MEM_HUGE && answer.location.id == 0);
    CHECK(answer.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && answer.reserve == 0);
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK(free_bytes() == before);
    CHECK_FAIL(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
    aclrtDrvMemHandle host = NULL;
    bad.memAttr = ACL_DDR_MEM_P2P_HUGE;
    CHECK_OK(aclrtMallocPhysical(&host, PAGE, &bad, 0));
    CHECK_OK(aclrtMemGetAllocationPropertiesFromHandle(host, &answer));
    CHECK(answer.memAttr == ACL_MEM_HUGE && answer.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    CHECK_OK(aclrtFreePhysical(host));

    GROUP("acl_vmm_2 wrong physical memory is named");
    CHECK_FAIL(aclrtMallocPhysical(NULL, PAGE, &prop, 0), ACL_ERROR_INVALID_PARAM, "handle");
    CHECK_FAIL(aclrtMallocPhysical(&handle, PAGE, NULL, 0), ACL_ERROR_INVALID_PARAM, "prop");
    refused(prop, 0, 0, ACL_ERROR_INVALID_PARAM, "size 0");
    refused(prop, PAGE, 1, ACL_ERROR_INVALID_PARAM, "flags 1");
    refused(prop, PAGE + 512, 0, ACL_ERROR_RT_PARAM_INVALID, "multiples of 2097152");
    bad = prop;
    bad.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    refused(bad, PAGE, 0, ACL_ERROR_INVALID_PARAM, "handleType 2");
    bad = prop;
    *(int *)&bad.allocationType = 1;
    refused(bad, PAGE, 0, ACL_ERROR_INVALID_PARAM, "allocationType 1");
    for (int type = 2; type < 4; type++) {
        bad = prop;
        bad.location.type = (aclrtMemLocationType)type;
        refused(bad, PAGE, 0, ACL_ERROR_INVALID_PARAM, "location type");
    }
    static const int attributes[] = {0, 1, 2, 3, 6, 7, 8, 9, 11, 18, 99};
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        bad = prop;
        bad.memAttr = (aclrtMemAttr)attributes[i];
        refused(bad, PAGE, 0, ACL_ERROR_INVALID_PARAM, "memAttr");
    }
    bad = prop;
    bad.reserve = 1;
    refused(bad, PAGE, 0, ACL_ERROR_RT_PARAM_INVALID, "reserve 1");
    bad = prop;
    bad.location.id = 2;
    refused(bad, PAGE, 0, ACL_ERROR_RT_INVALID_DEVICEID, "device 2");
    bad = prop;
    bad.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    bad.location.id = 1;
    refused(bad, PAGE, 0, ACL_ERROR_RT_PARAM_INVALID, "location id 1");
    bad.location.type = ACL_MEM_LOCATION_TYPE_HOST_NUMA;
    for (int i = 0; i < 2; i++) {
        bad.location.id = i ? UINT32_MAX : 4000;
        refused(bad, PAGE, 0, ACL_ERROR_RT_PARAM_INVALID, "the host has no such node");
    }
    refused(prop, (size_t)1 << 50, 0, ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory");
}

static void pieces(void)
{
    size_t before = free_bytes();
    char *start = reserved(8 * PAGE), *other = reserved(PAGE);
    aclrtDrvMemHandle handle = physical(2 * PAGE), second = physical(PAGE), same = NULL;
    char host[64], back[64];
    memset(host, 7, sizeof host);

    GROUP("acl_vmm_3 contents go with the handle, and memory ends with its last reference");
    CHECK_OK(aclrtMapMem(start, 2 * PAGE, 0, handle, 0));
    CHECK_OK(aclrtMapMem(start + 2 * PAGE, PAGE, 0, second, 0));
    CHECK_OK(aclrtMemcpy(start + 2 * PAGE - 32, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK_OK(aclrtMemcpy(back, ~(size_t)0, start + 2 * PAGE - 32, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(host, back, 64) == 0);
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_FAIL(
        aclrtMemcpy(back, 64, start, 64, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID,
        "nothing is mapped");
    CHECK_OK(aclrtMapMem(start + 5 * PAGE, 2 * PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemcpy(back, 64, start + 7 * PAGE - 32, 32, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(host, back, 32) == 0);
    CHECK_OK(aclrtMemRetainAllocationHandle(start + 5 * PAGE, &same));
    CHECK(same == handle);
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_FAIL(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "was freed");
    CHECK_FAIL(aclrtMapMem(start, PAGE, 0, handle, 0), ACL_ERROR_RT_INVALID_HANDLE, "was freed");
    CHECK(free_bytes() == before - 3 * PAGE);
    CHECK_OK(aclrtMemRetainAllocationHandle(start + 5 * PAGE, &same));
    CHECK(same == handle);
    CHECK_OK(aclrtFreePhysical(same));
    CHECK_OK(aclrtUnmapMem(start + 5 * PAGE));
    CHECK(free_bytes() == before - PAGE);
    CHECK_FAIL(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");

    GROUP("acl_vmm_3 what an address is");
    void *base = NULL;
    size_t size = 0;
    aclrtPtrAttributes attributes;
    CHECK_OK(aclrtMemGetAddressRange(start + 2 * PAGE + 99, &base, &size));
    CHECK(base == start + 2 * PAGE && size == PAGE);
    CHECK_OK(aclrtPointerGetAttributes(start + 2 * PAGE, &attributes));
    CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && attributes.pageSize == PAGE);
    CHECK_FAIL(
        aclrtMemGetAddressRange(start, &base, &size), ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    void *plain = NULL;
    CHECK_OK(aclrtMalloc(&plain, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMemGetAddressRange((char *)plain + 5, &base, &size));
    CHECK(base == plain && size >= 4096);
    CHECK_FAIL(aclrtUnmapMem((char *)plain + PAGE - (uintptr_t)plain % PAGE), DRIVER, "nothing is mapped");
    CHECK_OK(aclrtFree(plain));
    CHECK_FAIL(aclrtFree(start + 2 * PAGE), ACL_ERROR_RT_PARAM_INVALID, "mapped memory");
    CHECK_FAIL(aclrtMemRetainAllocationHandle(start, &same), DRIVER, "not the start");

    GROUP("acl_vmm_3 wrong pieces are named");
    CHECK_FAIL(aclrtMapMem(start + 2 * PAGE, PAGE, 0, second, 0), DRIVER, "are mapped at");
    handle = physical(3 * PAGE);
    CHECK_FAIL(aclrtMapMem(start, 3 * PAGE, 0, handle, 0), DRIVER, "are mapped at");
    CHECK_FAIL(aclrtMapMem(start + 7 * PAGE, 2 * PAGE, 0, handle, 0), DRIVER, "one reservation");
    CHECK_FAIL(aclrtMapMem(other + PAGE, PAGE, 0, handle, 0), DRIVER, "one reservation");
    CHECK_FAIL(aclrtMapMem(start + 512, PAGE, 0, handle, 0), DRIVER, "multiple of 2097152");
    CHECK_FAIL(aclrtMapMem(start, PAGE + 512, 0, handle, 0), DRIVER, "2097664 bytes");
    CHECK_FAIL(aclrtMapMem(start, 4 * PAGE, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID, "has 6291456");
    CHECK_FAIL(aclrtMapMem(NULL, PAGE, 0, handle, 0), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtMapMem(start, PAGE, 0, NULL, 0), ACL_ERROR_INVALID_PARAM, "handle");
    CHECK_FAIL(aclrtMapMem(start, 0, 0, handle, 0), ACL_ERROR_INVALID_PARAM, "size 0");
    CHECK_FAIL(aclrtMapMem(start, PAGE, 0, handle, 1), ACL_ERROR_INVALID_PARAM, "flags 1");
    CHECK_FAIL(aclrtMapMem(start, PAGE, 8, handle, 0), ACL_ERROR_RT_PARAM_INVALID, "offset 8");
    CHECK_FAIL(aclrtMapMem(start, PAGE, 0, start, 0), ACL_ERROR_RT_INVALID_HANDLE, "0x");
    aclrtDrvMemHandle host_memory = NULL;
    aclrtPhysicalMemProp prop = device_memory();
    prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    CHECK_OK(aclrtMallocPhysical(&host_memory, PAGE, &prop, 0));
    CHECK_FAIL(
        aclrtMapMem(start, PAGE, 0, host_memory, 0), ACL_ERROR_RT_PARAM_INVALID, "memory of the host");
    CHECK_OK(aclrtMapMem(other, PAGE, 0, host_memory, 0));
    other[5] = 3;
    CHECK_OK(aclrtPointerGetAttributes(other, &attributes));
    CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST && other[5] == 3);
    CHECK_FAIL(aclrtUnmapMem(start), DRIVER, "nothing is mapped there");
    CHECK_FAIL(aclrtUnmapMem(start + 512), ACL_ERROR_RT_PARAM_INVALID, "multiple");
    CHECK_FAIL(aclrtUnmapMem(NULL), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtReleaseMemAddress(start), DRIVER, "1 mapped pieces");
    CHECK_OK(aclrtUnmapMem(other));
    CHECK_OK(aclrtUnmapMem(start + 2 * PAGE));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFreePhysical(second));
    CHECK_OK(aclrtFreePhysical(host_memory));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtReleaseMemAddress(other));
    CHECK(free_bytes() == before);
}

static aclrtMemAccessDesc access_of(int type, uint32_t id)
{
    aclrtMemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    desc.location.type = (aclrtMemLocationType)type;
    desc.location.id = id;
    return desc;
}

static void access_rights(void)
{
    char *start = reserved(2 * PAGE);
    aclrtDrvMemHandle handle = physical(PAGE), second = physical(PAGE);
    aclrtMemAccessDesc both[2] = {
        access_of(ACL_MEM_LOCATION_TYPE_DEVICE, 0), access_of(ACL_MEM_LOCATION_TYPE_DEVICE, 1)};
    uint64_t flag = 9;
    GROUP("acl_vmm_4 the owner has access, others get it");
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemGetAccess(start, &both[0].location, &flag));
    CHECK(flag == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    CHECK_OK(aclrtMemGetAccess(start, &both[1].location, &flag));
    CHECK(flag == ACL_RT_MEM_ACCESS_FLAGS_NONE);
    CHECK_OK(aclrtMemSetAccess(start, PAGE, both, 2));
    CHECK_OK(aclrtMemSetAccess(start, PAGE, both, 2));
    CHECK_OK(aclrtMemGetAccess(start, &both[1].location, &flag));
    CHECK(flag == ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    aclrtStream stream = NULL;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMemsetAsync(start, PAGE, 5, PAGE, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtSetDevice(0));

    GROUP("acl_vmm_4 memory without access is refused to tasks");
    CHECK_OK(aclrtMemMapNoAccess(start + PAGE, PAGE, 0, second, 0));
    CHECK_FAIL(
        aclrtMemset(start + PAGE, PAGE, 0, 64), ACL_ERROR_RT_PARAM_INVALID, "no device has access");
    CHECK_OK(aclrtMemGetAccess(start + PAGE, &both[0].location, &flag));
    CHECK(flag == ACL_RT_MEM_ACCESS_FLAGS_NONE);
    CHECK_OK(aclrtMemSetAccess(start + PAGE, PAGE, both, 1));
    CHECK_OK(aclrtMemset(start, 2 * PAGE, 0, 2 * PAGE));

    GROUP("acl_vmm_4 wrong access is named");
    CHECK_FAIL(aclrtMemSetAccess(NULL, PAGE, both, 1), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtMemSetAccess(start, PAGE, NULL, 1), ACL_ERROR_INVALID_PARAM, "desc");
    CHECK_FAIL(aclrtMemSetAccess(start, 0, both, 1), ACL_ERROR_INVALID_PARAM, "size 0");
    CHECK_FAIL(aclrtMemSetAccess(start, PAGE, both, 0), ACL_ERROR_RT_PARAM_INVALID, "count 0");
    CHECK_FAIL(aclrtMemSetAccess(start, PAGE / 2, both, 1), DRIVER, "no mapped piece");
    CHECK_FAIL(aclrtMemSetAccess(start + 4096, PAGE, both, 1), DRIVER, "no mapped piece");
    both[1] = both[0];
    CHECK_FAIL(aclrtMemSetAccess(start, PAGE, both, 2), ACL_ERROR_RT_PARAM_INVALID, "a second time");
    both[0].flags = ACL_RT_MEM_ACCESS_FLAGS_READ;
    CHECK_FAIL(
        aclrtMemSetAccess(start, PAGE, both, 1), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "flags 1");
    CHECK_FAIL(aclrtMemMapNoAccess(NULL, PAGE, 0, second, 0), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtMemMapNoAccess(start, PAGE, 0, NULL, 0), ACL_ERROR_INVALID_PARAM, "handle");
    CHECK_FAIL(aclrtMemMapNoAccess(start, 0, 0, second, 0), ACL_ERROR_INVALID_PARAM, "size 0");
    CHECK_FAIL(aclrtMemMapNoAccess(start, PAGE, 0, second, 1), ACL_ERROR_INVALID_PARAM, "flags 1");
    CHECK_FAIL(aclrtMemMapNoAccess(start, PAGE, 8, second, 0), ACL_ERROR_RT_PARAM_INVALID, "offset 8");
    CHECK_FAIL(aclrtMemMapNoAccess(start, PAGE, 0, second, 0), DRIVER, "are mapped at");
    CHECK_FAIL(aclrtMemGetAccess(NULL, &both[0].location, &flag), ACL_ERROR_INVALID_PARAM, "virPtr");
    CHECK_FAIL(aclrtMemGetAccess(start, NULL, &flag), ACL_ERROR_INVALID_PARAM, "location");
    CHECK_FAIL(aclrtMemGetAccess(start, &both[0].location, NULL), ACL_ERROR_INVALID_PARAM, "flag");
    CHECK_FAIL(aclrtMemGetAccess(start + 2 * PAGE, &both[0].location, &flag), DRIVER, "nothing is mapped");
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtUnmapMem(start + PAGE));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFreePhysical(second));
    CHECK_OK(aclrtReleaseMemAddress(start));
}

static void queued_tasks(void)
{
    size_t before = free_bytes();
    char *start = reserved(PAGE), *target = NULL, back[64], expected[64];
    aclrtDrvMemHandle handle = physical(PAGE);
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(expected, 6, sizeof expected);
    GROUP("acl_vmm_5 an unmap keeps the memory for tasks that are queued");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc((void **)&target, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemset(start, PAGE, 6, PAGE));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(target, 64, start + 128, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    size_t mapped = free_bytes();
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK(free_bytes() == mapped + PAGE);
    CHECK_OK(aclrtReleaseMemAddress(start));
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(back, 64, target, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(memcmp(back, expected, 64) == 0);

    GROUP("acl_vmm_5 a map onto such a range waits for nothing, and queued tasks see what was there");
    start = reserved(2 * PAGE);
    handle = physical(PAGE);
    aclrtDrvMemHandle second = physical(PAGE);
    Gate again = GATE_CLOSED;
    CHECK_OK(aclrtMapMem(start + PAGE, PAGE, 0, second, 0));
    CHECK_OK(aclrtMemset(start + PAGE, PAGE, 2, PAGE));
    CHECK_OK(aclrtUnmapMem(start + PAGE));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemset(start, PAGE, 1, PAGE));
    gate_put(&again, stream);
    CHECK_OK(aclrtMemcpyAsync(target, 64, start + 64, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtMemsetD32Async(start, PAGE, 0x05050505, 16, stream));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, second, 0));
    CHECK_OK(aclrtMemcpy(back, 64, start, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    memset(expected, 2, sizeof expected);
    CHECK(memcmp(back, expected, 64) == 0);
    CHECK_OK(aclrtMapMem(start + PAGE, PAGE, 0, handle, 0));
    gate_open(&again);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(back, 64, target, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    memset(expected, 1, sizeof expected);
    CHECK(memcmp(back, expected, 64) == 0);
    CHECK_OK(aclrtMemcpy(back, 64, start, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    memset(expected, 2, sizeof expected);
    CHECK(memcmp(back, expected, 64) == 0);
    CHECK_OK(aclrtMemcpy(back, 64, start + PAGE + 32, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    memset(expected, 1, sizeof expected);
    memset(expected, 5, 32);
    CHECK(memcmp(back, expected, 64) == 0);

    GROUP("acl_vmm_5 tasks that run at that moment are waited for");
    for (int round = 0; round < 50; round++) {
        CHECK_OK(aclrtMemsetAsync(start, PAGE, round, PAGE, stream));
        CHECK_OK(aclrtUnmapMem(start));
        CHECK_OK(aclrtMapMem(start, PAGE, 0, second, 0));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtMemcpy(back, 64, start + PAGE - 64, 64, ACL_MEMCPY_DEVICE_TO_HOST));
        memset(expected, round, sizeof expected);
        CHECK(memcmp(back, expected, 64) == 0);
    }
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtUnmapMem(start + PAGE));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFreePhysical(second));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtFree(target));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK(free_bytes() == before);
}

/* Work that is submitted on a range after its unmap fails, however long older work keeps the memory. */
static void late_tasks(void)
{
    char *start = reserved(PAGE), *target = NULL, named[64];
    aclrtDrvMemHandle handle = physical(PAGE);
    aclrtStream stream = NULL, other = NULL;
    Gate gate = GATE_CLOSED;
    GROUP("acl_vmm_5 work after the unmap is refused while older work keeps the pages");
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtMalloc((void **)&target, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemset(start, PAGE, 3, PAGE));
    gate_put(&gate, stream);
    CHECK_OK(aclrtMemcpyAsync(target, 64, start, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtMemsetAsync(start + 512, 64, 1, 64, other));
    snprintf(named, sizeof named, "destination range %p", (void *)(start + 512));
    CHECK_FAIL(aclrtSynchronizeStream(other), ACL_ERROR_RT_PARAM_INVALID, named);
    CHECK_OK(aclrtMemsetAsync(start + 512, 64, 1, 64, other));
    CHECK_FAIL(aclrtSynchronizeStream(other), ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped there");
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtMemcpy(named, 64, target, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(named[0] == 3 && named[63] == 3);
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtFree(target));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtDestroyStream(other));
}

static long resident_kib(void)
{
    long pages = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*d %ld %ld", &pages, &shared) == 2);
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void sleep_and_wake(void)
{
    size_t bytes = 32 * PAGE;
    char *start = reserved(bytes), *saved = (char *)malloc(bytes);
    aclrtDrvMemHandle handle = physical(bytes);
    GROUP("acl_vmm_6 sleep gives memory back to the machine, wake finds its contents at the same address");
    memset(saved, 1, bytes);
    CHECK_OK(aclrtMapMem(start, bytes, 0, handle, 0));
    for (size_t i = 0; i < bytes; i += PAGE)
        CHECK_OK(aclrtMemset(start + i, PAGE, (int)(i / PAGE), PAGE));
    long awake = resident_kib();
    CHECK_OK(aclrtMemcpy(saved, ~(size_t)0, start, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK(resident_kib() < awake - (long)(bytes / 1024) * 9 / 10);
    handle = physical(bytes);
    CHECK_OK(aclrtMapMem(start, bytes, 0, handle, 0));
    CHECK_OK(aclrtMemcpy(start, bytes, saved, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    memset(saved, 99, bytes);
    CHECK_OK(aclrtMemcpy(saved, bytes, start, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    int is_same = 1;
    for (size_t i = 0; i < bytes; i++)
        is_same &= saved[i] == (char)(i / PAGE);
    CHECK(is_same);
    free(saved);
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    reservations();
    physical_memory();
    pieces();
    access_rights();
    queued_tasks();
    late_tasks();
    sleep_and_wake();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
