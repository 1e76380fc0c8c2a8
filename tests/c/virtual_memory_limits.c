// env: CAIRN_HOST_MEMORY=2gib
/* Virtual memory where the system has no more: addresses of the process, its maps, its memory. Each ends in 207001 with the
 * reason, and everything works again afterwards. */
#include "child.h"
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PAGE (2 * MIB)

static aclrtPhysicalMemProp device_memory(void)
{
    aclrtPhysicalMemProp prop;
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

static size_t number_in(const char *path)
{
    unsigned long number = 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%lu", &number) == 1);
    if (file)
        fclose(file);
    return number;
}

static void no_addresses(void)
{
    struct rlimit limit;
    void *start = NULL, *all = NULL;
    GROUP("acl_vmm_7 the window is full");
    CHECK_OK(aclrtReserveMemAddress(&all, 7 * ((size_t)1 << 40), 0, NULL, 0));
    CHECK_FAIL(aclrtReserveMemAddress(&start, 2 * ((size_t)1 << 40), 0, NULL, 0), 207001, "8 TiB");
    CHECK(start == NULL);
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtReleaseMemAddress(all));

    GROUP("acl_vmm_7 tens of reservations larger than the machine's memory");
    void *many[40];
    for (int i = 0; i < 40; i++)
        CHECK_OK(aclrtReserveMemAddress(&many[i], 128 * GIB, 0, NULL, 1));
    for (int i = 0; i < 40; i++)
        CHECK_OK(aclrtReleaseMemAddress(many[i]));

    GROUP("acl_vmm_7 the process may have no more addresses");
    size_t used = number_in("/proc/self/statm") * (size_t)sysconf(_SC_PAGESIZE);
    getrlimit(RLIMIT_AS, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = used + GIB;
    setrlimit(RLIMIT_AS, &limit);
    CHECK_FAIL(aclrtReserveMemAddress(&start, 64 * GIB, 0, NULL, 0), 207001, "ulimit -v");
    limit.rlim_cur = before;
    setrlimit(RLIMIT_AS, &limit);
    CHECK_OK(aclrtReserveMemAddress(&start, 64 * GIB, 0, NULL, 0));
    CHECK_OK(aclrtReleaseMemAddress(start));
}

static void no_maps(void)
{
    size_t most = number_in("/proc/sys/vm/max_map_count");
    if (most > 200000) {
        printf("skipped: vm.max_map_count is %zu\n", most);
        return;
    }
    GROUP("acl_vmm_7 the process may have no more maps");
    aclrtPhysicalMemProp prop = device_memory();
    aclrtDrvMemHandle handle = NULL;
    char *start = NULL;
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtReserveMemAddress((void **)&start, (most + 2) * PAGE, 0, NULL, 0));
    /* The same memory at every second page: no map is the neighbour of another. */
    size_t mapped = 0;
    aclError code = 0;
    while (mapped < most / 2 + 1 && (code = aclrtMapMem(start + 2 * mapped * PAGE, PAGE, 0, handle, 0)) == 0)
        mapped++;
    CHECK_EQ(code, 207001);
    const char *text = aclGetRecentErrMsg();
    CHECK(text != NULL && strstr(text, "max_map_count") != NULL);
    CHECK(mapped > most / 4);
    CHECK_OK(aclrtMemset(start + 2 * (mapped - 1) * PAGE, PAGE, 3, PAGE));
    for (size_t i = 0; i < mapped; i++)
        CHECK_OK(aclrtUnmapMem(start + 2 * i * PAGE));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    char byte = 0;
    CHECK_OK(aclrtMemcpy(&byte, 1, start + 77, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 3);
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
}

static void no_memory(void)
{
    GROUP("acl_vmm_7 the device has no more memory");
    enum { MOST = 1 << 16 };
    static aclrtDrvMemHandle handles[MOST];
    aclrtPhysicalMemProp prop = device_memory();
    size_t room = 0, all = 0, count = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &room, &all));
    size_t piece = (room / 64 + PAGE - 1) / PAGE * PAGE;
    aclError code = 0;
    while (count < MOST && (code = aclrtMallocPhysical(&handles[count], piece, &prop, 0)) == 0)
        count++;
    CHECK_EQ(code, 207001);
    const char *text = aclGetRecentErrMsg();
    CHECK(text != NULL && strstr(text, "out of memory") != NULL);
    CHECK(handles[count] == NULL && count >= 60 && count <= 64);
    for (size_t i = 0; i < count; i++)
        CHECK_OK(aclrtFreePhysical(handles[i]));
    size_t after = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &all));
    CHECK(after > room - 4 * PAGE);
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    no_addresses();
    no_maps();
    no_memory();
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
