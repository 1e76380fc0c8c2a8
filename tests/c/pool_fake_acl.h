/*
 * A fake ACL, to test libcairn_pool.so over a library that is not Cairn's. The program
 * exports it (-rdynamic), and the pool is loaded as torch_npu loads it.
 *
 * Memory is only addresses: allocations follow each other, none of them aligned to 512 bytes. With FAKE_FULL there are
 * also events, state callbacks and virtual memory in pages of 2 MiB; without it the functions of virtual memory exist
 * but fail, as Cairn's own do.
 */
#ifndef CAIRN_TESTS_POOL_FAKE_ACL_H
#define CAIRN_TESTS_POOL_FAKE_ACL_H

#include "check.h"
#include "cairn/pool.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)
#define MISALIGNMENT 64
#define CAPACITY (256 * MIB)
#define MAX_ALLOCATIONS 512

typedef struct FakeAllocation {
    char *address;
    size_t size;
} FakeAllocation;

typedef struct FakeStream {
    int busy, capturing;
} FakeStream;

/* The state and the counters of the fake. All tests use one thread. */
static struct {
    int calls, device, mallocs, frees;
    size_t used;
    char *arena;
    size_t end;
    FakeAllocation allocations[MAX_ALLOCATIONS];
    int handles, maps, unmaps, records, queries, destroyed_events;
    /* The n-th call from now on fails. */
    int fail_physical_in, fail_map_in, fail_unmap_in;
    /* So many more calls fail after it. */
    int fail_again;
    /* Unmaps that failed. */
    int stuck;
    int no_captures;
    /* Memory may be mapped at two addresses. */
    int maps_twice;
    size_t largest_handle, mapped;
    char *reserved[2];
    size_t reserved_size;
    aclrtStreamStateCallback on_stream;
    aclrtDeviceStateCallback on_device;
    char log[4096];
} fake;

/* Counts down to the call that fails. */
static inline int fake_fails(int *in)
{
    if (*in == 0 || --*in > 0)
        return 0;
    if (fake.fail_again > 0) {
        fake.fail_again--;
        *in = 1;
    }
    return 1;
}

#define CALLED() (fake.calls++)
#define CONTEXT_OF(device) ((void *)(uintptr_t)(0x1000 * ((device) + 1)))

const char *aclGetRecentErrMsg(void)
{
    return NULL;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    CALLED();
    *count = 2;
    return 0;
}

aclError aclrtGetDevice(int32_t *device)
{
    CALLED();
    *device = fake.device;
    return 0;
}

aclError aclrtSetDevice(int32_t device)
{
    CALLED();
    fake.device = device;
    return 0;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    CALLED();
    *context = CONTEXT_OF(fake.device);
    return 0;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    CALLED();
    fake.device = (int)((uintptr_t)context / 0x1000) - 1;
    return 0;
}

aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t *free_bytes, size_t *total)
{
    CALLED();
    CHECK_EQ(attribute, ACL_HBM_MEM);
    *free_bytes = CAPACITY - fake.used;
    *total = CAPACITY;
    return 0;
}

aclError aclrtMallocAlign32(void **address, size_t size, aclrtMemMallocPolicy policy)
{
    CALLED();
    CHECK_EQ(policy, ACL_MEM_MALLOC_HUGE_FIRST);
    *address = NULL;
    if (fake.used + size > CAPACITY)
        return 207001;
    if (!fake.arena)
        fake.arena = (char *)mmap(NULL, 64 * CAPACITY, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) + MISALIGNMENT;
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        if (!fake.allocations[i].address) {
            fake.allocations[i] = (FakeAllocation){fake.arena + fake.end, size};
            fake.end += size;
            fake.used += size;
            fake.mallocs++;
            *address = fake.allocations[i].address;
            return 0;
        }
    }
    return 207001;
}

aclError aclrtFree(void *address)
{
    CALLED();
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        if (address && fake.allocations[i].address == address) {
            fake.used -= fake.allocations[i].size;
            fake.allocations[i].address = NULL;
            fake.frees++;
            return 0;
        }
    }
    CHECK(!"free of an address that was never allocated");
    return 107000;
}

/* The allocation that a block lies in with all its bytes. */
__attribute__((unused)) static const FakeAllocation *fake_allocation_of(const char *block, size_t size)
{
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        const FakeAllocation *allocation = &fake.allocations[i];
        if (allocation->address && block >= allocation->address && block + size <= allocation->address + allocation->size)
            return allocation;
    }
    return NULL;
}

#ifdef FAKE_FULL

typedef struct FakeHandle {
    size_t size;
    int maps;
} FakeHandle;

typedef struct FakeMap {
    FakeHandle *handle;
    char *address;
} FakeMap;

static FakeMap fake_maps[MAX_ALLOCATIONS];

aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity)
{
    CALLED();
    CHECK_EQ(prop->memAttr, ACL_HBM_MEM_HUGE);
    CHECK_EQ(option, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    *granularity = PAGE;
    return 0;
}

aclError aclrtReserveMemAddress(
    void **address, size_t size, size_t alignment, void *expected, uint64_t flags)
{
    CALLED();
    CHECK(alignment == 0 && expected == NULL && flags == 1 && size % PAGE == 0);
    char *start = mmap(NULL, size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fake.reserved[fake.device] = start + (PAGE - (uintptr_t)start % PAGE) % PAGE;
    fake.reserved_size = size;
    *address = fake.reserved[fake.device];
    return 0;
}

aclError aclrtReleaseMemAddress(void *address)
{
    CALLED();
    CHECK(address == fake.reserved[fake.device] && fake.mapped == 0);
    fake.reserved[fake.device] = NULL;
    return 0;
}

aclError aclrtMallocPhysical(
    aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    CALLED();
    CHECK(prop->handleType == 0 && prop->allocationType == 0 && prop->memAttr == ACL_HBM_MEM_HUGE);
    CHECK_EQ(prop->location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    CHECK_EQ(prop->location.id, fake.device);
    CHECK(flags == 0 && size > 0 && size % PAGE == 0);
    if (fake.used + size > CAPACITY || fake_fails(&fake.fail_physical_in))
        return 207001;
    FakeHandle *created = calloc(1, sizeof *created);
    created->size = size;
    fake.used += size;
    fake.handles++;
    if (size > fake.largest_handle)
        fake.largest_handle = size;
    *handle = created;
    return 0;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    CALLED();
    FakeHandle *freed = handle;
    CHECK(freed->maps <= fake.stuck);
    fake.used -= freed->size;
    fake.handles--;
    if (freed->maps == 0)
        free(freed);
    return 0;
}

aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    CALLED();
    FakeHandle *mapped = handle;
    char *start = address;
    CHECK(mapped->size == size && offset == 0 && flags == 0);
    if (mapped->maps && !fake.maps_twice)
        return 107000;
    CHECK(start >= fake.reserved[fake.device]);
    CHECK(start + size <= fake.reserved[fake.device] + fake.reserved_size);
    if (fake_fails(&fake.fail_map_in))
        return 207000;
    int slot = -1;
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        const FakeMap *map = &fake_maps[i];
        if (!map->handle)
            slot = i;
        else
            CHECK(start + size <= map->address || map->address + map->handle->size <= start);
    }
    CHECK(slot >= 0);
    fake_maps[slot] = (FakeMap){mapped, start};
    mapped->maps++;
    fake.mapped += size;
    fake.maps++;
    return 0;
}

aclError aclrtUnmapMem(void *address)
{
    CALLED();
    if (fake_fails(&fake.fail_unmap_in)) {
        fake.stuck++;
        return 207000;
    }
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        if (fake_maps[i].handle && fake_maps[i].address == address) {
            fake.mapped -= fake_maps[i].handle->size;
            fake_maps[i].handle->maps--;
            fake_maps[i].handle = NULL;
            fake.unmaps++;
            return 0;
        }
    }
    CHECK(!"unmap of an address that was never mapped");
    return 107000;
}

/* The memory that is mapped at an address. */
__attribute__((unused)) static const FakeHandle *fake_handle_at(const char *address)
{
    for (int i = 0; i < MAX_ALLOCATIONS; i++) {
        const FakeMap *map = &fake_maps[i];
        if (map->handle && address >= map->address && address < map->address + map->handle->size)
            return map->handle;
    }
    return NULL;
}

typedef struct FakeEvent {
    FakeStream *stream;
} FakeEvent;

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    CALLED();
    CHECK_EQ(flag, ACL_EVENT_CAPTURE_STREAM_PROGRESS);
    *event = calloc(1, sizeof(FakeEvent));
    return 0;
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    CALLED();
    fake.destroyed_events++;
    free(event);
    return 0;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    CALLED();
    CHECK(!((FakeStream *)stream)->capturing);
    ((FakeEvent *)event)->stream = stream;
    fake.records++;
    return 0;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    CALLED();
    FakeStream *stream = ((FakeEvent *)event)->stream;
    *status = stream && stream->busy ? ACL_EVENT_RECORDED_STATUS_NOT_READY
                                     : ACL_EVENT_RECORDED_STATUS_COMPLETE;
    return 0;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    CALLED();
    CHECK(!((FakeStream *)stream)->capturing);
    fake.queries++;
    *status = ((FakeStream *)stream)->busy ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
    return 0;
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *model)
{
    CALLED();
    *status = (aclmdlRICaptureStatus)(fake.no_captures ? -1 : ((FakeStream *)stream)->capturing);
    *model = NULL;
    return fake.no_captures ? 207000 : 0;
}

aclError aclrtRegStreamStateCallback(const char *name, aclrtStreamStateCallback callback, void *args)
{
    CALLED();
    CHECK(name && *name && callback && !args && !fake.on_stream);
    fake.on_stream = callback;
    return 0;
}

aclError aclrtRegDeviceStateCallback(const char *name, aclrtDeviceStateCallback callback, void *args)
{
    CALLED();
    CHECK(name && *name && callback && !args && !fake.on_device);
    fake.on_device = callback;
    return 0;
}

void aclAppLog(
    aclLogLevel level, const char *function, const char *file, uint32_t line, const char *format, ...)
{
    va_list arguments;
    CALLED();
    CHECK(level == ACL_ERROR && function && file);
    (void)line;
    va_start(arguments, format);
    vsnprintf(fake.log, sizeof fake.log, format, arguments);
    va_end(arguments);
}

#else

aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity)
{
    CALLED();
    (void)prop, (void)option;
    *granularity = PAGE;
    return 0;
}

aclError aclrtReserveMemAddress(
    void **address, size_t size, size_t alignment, void *expected, uint64_t flags)
{
    CALLED();
    (void)size, (void)alignment, (void)expected, (void)flags;
    *address = NULL;
    return 207000;
}

aclError aclrtReleaseMemAddress(void *address)
{
    CHECK(!address);
    return 207000;
}

aclError aclrtMallocPhysical(
    aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags)
{
    CHECK(!"memory after a range was refused");
    (void)handle, (void)size, (void)prop, (void)flags;
    return 207000;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    CHECK(!handle);
    return 207000;
}

aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    CHECK(!"a map after a range was refused");
    (void)address, (void)size, (void)offset, (void)handle, (void)flags;
    return 207000;
}

aclError aclrtUnmapMem(void *address)
{
    CHECK(!address);
    return 207000;
}

#endif

/* The functions of the pool, found when it was loaded; the first two are those for torch_npu. */
static struct {
    __typeof__(cairn_malloc) *torch_malloc;
    __typeof__(cairn_free) *torch_free;
    __typeof__(cairn_pool_malloc) *malloc;
    __typeof__(cairn_pool_free) *free;
    __typeof__(cairn_pool_trim) *trim;
    __typeof__(cairn_pool_synchronized) *synchronized;
    __typeof__(cairn_pool_figures) *figures;
    __typeof__(cairn_pool_json) *json;
    __typeof__(cairn_pool_last_error) *last_error;
    __typeof__(cairn_pool_create_desc) *create_desc;
    __typeof__(cairn_pool_set_fraction) *set_fraction;
    __typeof__(cairn_pool_record_stream) *record_stream;
} pool;

__attribute__((unused)) static void pool_load(void)
{
    void *library = dlopen("libcairn_pool.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    *(void **)&pool.torch_malloc = dlsym(library, "cairn_malloc");
    *(void **)&pool.torch_free = dlsym(library, "cairn_free");
    *(void **)&pool.malloc = dlsym(library, "cairn_pool_malloc");
    *(void **)&pool.free = dlsym(library, "cairn_pool_free");
    *(void **)&pool.trim = dlsym(library, "cairn_pool_trim");
    *(void **)&pool.synchronized = dlsym(library, "cairn_pool_synchronized");
    *(void **)&pool.figures = dlsym(library, "cairn_pool_figures");
    *(void **)&pool.json = dlsym(library, "cairn_pool_json");
    *(void **)&pool.last_error = dlsym(library, "cairn_pool_last_error");
    *(void **)&pool.create_desc = dlsym(library, "cairn_pool_create_desc");
    *(void **)&pool.set_fraction = dlsym(library, "cairn_pool_set_fraction");
    *(void **)&pool.record_stream = dlsym(library, "cairn_pool_record_stream");
}

__attribute__((unused)) static cairnPoolFigures pool_figures(int device)
{
    cairnPoolFigures figures;
    CHECK_EQ(pool.figures(device, &figures), 0);
    return figures;
}

/* Whether the pool's last error has this part. */
__attribute__((unused)) static int pool_error_has(const char *part)
{
    const char *text = pool.last_error();
    if (text && strstr(text, part))
        return 1;
    printf("the text lacks \"%s\": %s\n", part, text ? text : "(there is none)");
    return 0;
}

#endif
