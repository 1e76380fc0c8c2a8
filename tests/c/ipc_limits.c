// unchecked: it uses up its maps, and touches device memory itself
/* Exports where the system allows no more: files of that size, maps. Each ends in 207001 with the reason, the memory is as
 * before, and everything works again afterwards. */
#include "ipc.h"
#include <sys/mman.h>
#include <sys/resource.h>

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* The memory files are there, and the limit is lowered afterwards. */
static void lowered_later(void)
{
    char *first = NULL, *block = NULL, key[65], other[65];
    aclrtStream stream = NULL;
    int32_t pids[] = {1, 2, 3};
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc((void **)&first, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc((void **)&block, 40 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(first, PAGE, 3);
    fill(block, 40 * MIB, 4);
    CHECK_OK(aclrtIpcMemGetExportKey(first, PAGE, key, 65, 0));
    /* None of it, a part of it, all but the last byte. */
    const rlim_t limits[] = {0, 4 * MIB, PAGE + 40 * MIB - 1};
    for (int i = 0; i < 3; i++) {
        limit_files(limits[i]);
        CHECK_FAIL(aclrtIpcMemGetExportKey(block, 40 * MIB, other, 65, 1), 207001, "ulimit -f");
        limit_files(RLIM_INFINITY);
        CHECK(holds(block, 40 * MIB, 4));
        CHECK_OK(aclrtMemsetAsync(block, 40 * MIB, 4, 40 * MIB, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
    }
    limit_files(0);
    CHECK_FAIL(aclrtIpcMemGetExportKey(first, PAGE, other, 65, 1), 207001, "ulimit -f");
    CHECK_FAIL(aclrtIpcMemSetImportPid(key, pids, 3), 207001, "ulimit -f");
    /* Nothing has to be written to end a key. */
    CHECK_OK(aclrtIpcMemClose(key));
    CHECK_FAIL(aclrtIpcMemClose(key), DRIVER, "neither exported");
    CHECK_OK(aclrtFree(first));
    limit_files(RLIM_INFINITY);
    CHECK_OK(aclrtIpcMemGetExportKey(block, 40 * MIB, other, 65, 1));
    CHECK_OK(aclrtFree(block));
    end();
}

/* No file is there when the limit is lowered: neither that of a device nor that of keys. */
static void lowered_first(void)
{
    char *block = NULL, key[65];
    aclrtEvent event = NULL;
    begin();
    CHECK_OK(aclrtMalloc((void **)&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    limit_files(64 * MIB);
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1), 207001, "ulimit -f");
    const char *names_descriptors = NULL;
    if (aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC) == 207001) {
        const char *text = aclGetRecentErrMsg();
        CHECK(text != NULL && strstr(text, "ulimit -f") != NULL);
        names_descriptors = text ? strstr(text, "ulimit -n") : NULL;
    }
    CHECK(event == NULL && names_descriptors == NULL);
    limit_files(RLIM_INFINITY);
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1));
    CHECK_OK(aclrtFree(block));
    end();
}

/* An importer cannot import what was closed while nothing could be written. */
static void closing_exporter(Line line)
{
    Message message;
    void *block = NULL;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, PAGE, 4);
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, message.key, 65, 1));
    limit_files(0);
    CHECK_OK(aclrtFree(block));
    limit_files(RLIM_INFINITY);
    say(line, message);
    CHECK(hear(line, &message));
    end();
}

static void late_importer(Line line)
{
    Message message;
    void *block = NULL;
    begin();
    CHECK(hear(line, &message));
    CHECK_FAIL(aclrtIpcMemImportByKey(&block, message.key, 1), DRIVER, "closed it");
    say(line, message);
    end();
}

/* The program has used up its maps, after the runtime has counted them. */
static void without_maps(void)
{
    char *first = NULL, *block = NULL, key[65];
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    size_t most = 0;
    if (!CHECK(file != NULL && fscanf(file, "%zu", &most) == 1))
        return;
    fclose(file);
    if (most > 200000) {
        printf("skipped: vm.max_map_count is %zu\n", most);
        return;
    }
    begin();
    CHECK_OK(aclrtMalloc((void **)&first, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc((void **)&block, 3 * PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, 3 * PAGE, 4);
    CHECK_OK(aclrtIpcMemGetExportKey(first, PAGE, key, 65, 1));
    /* Every second page has another access: each is a map. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * (most + 8) * page, used = 0;
    char *pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED);
    while (used < bytes && mprotect(pages + used, page, PROT_READ) == 0)
        used += 2 * page;
    CHECK(used < bytes);
    CHECK_FAIL(aclrtIpcMemGetExportKey(block + PAGE, PAGE, key, 65, 1), 207001, "vm.max_map_count");
    munmap(pages, bytes);
    CHECK(holds(block, 3 * PAGE, 4));
    fill(block, 3 * PAGE, 5);
    CHECK(holds(block, 3 * PAGE, 5));
    CHECK_OK(aclrtIpcMemGetExportKey(block + PAGE, PAGE, key, 65, 1));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtFree(first));
    end();
}

int main(void)
{
    GROUP("acl_ipc_14 files may not be so large any more");
    CHECK_EQ(in_child(lowered_later, 60), 0);
    CHECK_EQ(in_child(lowered_first, 60), 0);
    CHECK(two(closing_exporter, late_importer) == 0);
    GROUP("acl_ipc_14 the process may have no more maps");
    CHECK_EQ(in_child(without_maps, 60), 0);
    return END();
}
