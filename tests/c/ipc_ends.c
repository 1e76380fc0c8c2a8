// unchecked: several processes
/* When what is shared ends: holds on memory that overlap, keys of memory that is freed in whatever way, processes that become
 * other programs or leave children behind. Each case runs in new processes, which fork before either uses ACL. */
#include "ipc.h"
#include "acl/acl_rt_memory_soma.h"
#include <dirent.h>
#include <fcntl.h>

enum { PIECES = 16 };

/* A block is exported whole and in part; the importer closes the whole. What is freed then may be used for other exports, but
 * the part that is still held may not. */
static void overlap_exporter(Line line)
{
    Message whole, part, answer;
    char *block = NULL, key[65];
    void *others[PIECES];
    memset(&whole, 0, sizeof whole);
    memset(&part, 0, sizeof part);
    begin();
    CHECK_OK(aclrtMalloc((void **)&block, 8 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    fill(block, 8 * MIB, 7);
    CHECK_OK(aclrtIpcMemGetExportKey(block, 8 * MIB, whole.key, 65, 1));
    CHECK_OK(aclrtIpcMemGetExportKey(block + 4 * MIB, 4 * MIB, part.key, 65, 1));
    say(line, whole);
    say(line, part);
    CHECK(hear(line, &answer));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtSynchronizeDevice());
    for (int i = 0; i < PIECES; i++) {
        CHECK_OK(aclrtMalloc(&others[i], 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
        fill(others[i], 4 * MIB, 9);
        CHECK_OK(aclrtIpcMemGetExportKey(others[i], 4 * MIB, key, 65, 1));
    }
    say(line, whole);
    CHECK(hear(line, &answer));
    for (int i = 0; i < PIECES; i++) {
        CHECK(holds(others[i], 4 * MIB, 9));
        CHECK_OK(aclrtFree(others[i]));
    }
    end();
}

static void overlap_importer(Line line)
{
    Message whole, part, answer;
    void *first = NULL, *second = NULL;
    begin();
    CHECK(hear(line, &whole));
    CHECK(hear(line, &part));
    CHECK_OK(aclrtIpcMemImportByKey(&first, whole.key, 1));
    CHECK_OK(aclrtIpcMemImportByKey(&second, part.key, 1));
    CHECK_OK(aclrtIpcMemClose(whole.key));
    say(line, whole);
    CHECK(hear(line, &answer));
    CHECK(holds(second, 4 * MIB, 7));
    fill(second, 4 * MIB, 66);
    say(line, whole);
    CHECK_OK(aclrtIpcMemClose(part.key));
    end();
}

/* Whatever way memory ends, so do its keys: those of its start and those of addresses inside. */
static void freeing_exporter(Line line)
{
    Message message;
    char *block = NULL, *start = NULL;
    aclrtMemPoolProps props;
    aclrtMemPool pool = NULL;
    aclrtStream stream = NULL;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handles[2] = {NULL, NULL};
    void *other = NULL;
    char kept[65];
    memset(&message, 0, sizeof message);
    memset(&props, 0, sizeof props);
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc(&other, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(other, MIB, kept, 65, 1));
    for (int is_inside = 0; is_inside < 2; is_inside++) {
        size_t at = is_inside ? 4 * MIB : 0;
        CHECK_OK(aclrtMalloc((void **)&block, 8 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtIpcMemGetExportKey(block + at, MIB, message.key, 65, 1));
        /* What frees nothing ends nothing: the close at the end finds the key. */
        CHECK_FAIL(aclrtFree(block + 4096), 107000, "not the start");
        CHECK_OK(aclrtFree(block));
        CHECK_FAIL(aclrtIpcMemClose(message.key), DRIVER, "neither");
        say(line, message);

        CHECK_OK(aclrtMemPoolCreate(&pool, &props));
        CHECK_OK(aclrtMemPoolMallocAsync((void **)&block, 8 * MIB, pool, stream));
        CHECK_OK(aclrtIpcMemGetExportKey(block + at, MIB, message.key, 65, 1));
        CHECK_OK(aclrtMemPoolFreeAsync(block, stream));
        CHECK_FAIL(aclrtIpcMemGetExportKey(block, MIB, kept, 65, 1), 107000, "cannot be shared");
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(aclrtMemPoolDestroy(pool));
        say(line, message);
    }
    CHECK_OK(aclrtReserveMemAddress((void **)&start, 2 * PAGE, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(aclrtMallocPhysical(&handles[i], PAGE, &prop, 0));
        CHECK_OK(aclrtMapMem(start + i * PAGE, PAGE, 0, handles[i], 0));
    }
    CHECK_OK(aclrtIpcMemGetExportKey(start + PAGE, MIB, kept, 65, 1));
    CHECK_OK(aclrtIpcMemGetExportKey(start + MIB, MIB, message.key, 65, 1));
    CHECK_OK(aclrtUnmapMem(start));
    say(line, message);
    CHECK_OK(aclrtIpcMemClose(kept));
    CHECK_OK(aclrtIpcMemGetExportKey(other, MIB, message.key, 65, 1));
    CHECK_OK(aclrtResetDeviceForce(0));
    say(line, message);
    CHECK_OK(aclFinalize());
    CHECK(hear(line, &message));
}

static void late_importer(Line line)
{
    Message message;
    void *block = NULL;
    begin();
    for (int i = 0; i < 6; i++) {
        CHECK(hear(line, &message));
        CHECK_FAIL(aclrtIpcMemImportByKey(&block, message.key, 1), DRIVER, "process");
        CHECK(block == NULL);
    }
    say(line, message);
    end();
}

/* Parts of a block have keys already, in any number; then the whole is exported. */
static void pieces_exporter(Line line)
{
    Message message;
    char *block = NULL, key[65];
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtMalloc((void **)&block, PIECES * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < PIECES; i++)
        fill(block + i * MIB, MIB, 20 + i);
    for (int i = 0; i < PIECES; i++)
        CHECK_OK(aclrtIpcMemGetExportKey(block + i * MIB, MIB / 2, key, 65, 1));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PIECES * MIB, message.key, 65, 1));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK(holds(block, PIECES * MIB, 3));
    CHECK_OK(aclrtFree(block));
    end();
}

static void pieces_importer(Line line)
{
    Message message;
    char *block = NULL;
    begin();
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey((void **)&block, message.key, 1));
    for (int i = 0; i < PIECES; i++)
        CHECK(holds(block + i * MIB, MIB, 20 + i));
    fill(block, PIECES * MIB, 3);
    say(line, message);
    CHECK_OK(aclrtIpcMemClose(message.key));
    end();
}

/* A process that becomes another program has made its last record. */
static void exec_exporter(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &message.event));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    say(line, message);
    CHECK(hear(line, &message));
    if (check_failures)
        exit(1);
    /* Runs until the other process closes its end. */
    dup2(line.in, 0);
    int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 1);
    execlp("cat", "cat", (char *)NULL);
    _exit(1);
}

static void exec_importer(Line line)
{
    Message message;
    aclrtEvent event = NULL;
    aclrtStream stream = NULL;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcOpenEventHandle(message.event, &event));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    say(line, message);
    CHECK_FAIL(aclrtSynchronizeStream(stream), DRIVER, "ended before its record");
    CHECK_FAIL(aclrtSynchronizeEvent(event), DRIVER, "ended before its record");
    close(line.out);
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

static int memory_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char target[64] = "";
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0)
            count += strncmp(target, "/memfd:cairn", 12) == 0;
    }
    if (folder)
        closedir(folder);
    return count;
}

/* A child that is forked keeps nothing of the memory, neither what its parent exports nor what it imported. */
static void forking_exporter(Line line)
{
    Message message;
    void *block = NULL;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtMalloc(&block, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(block, MIB, message.key, 65, 1));
    say(line, message);
    CHECK(hear(line, &message));
    CHECK(memory_files() > 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(memory_files());
    CHECK_EQ(child_status(pid), 0);
    CHECK(memory_files() > 0);
    CHECK_OK(aclrtFree(block));
    end();
}

static void forking_importer(Line line)
{
    Message message;
    void *block = NULL;
    begin();
    CHECK(hear(line, &message));
    CHECK_OK(aclrtIpcMemImportByKey(&block, message.key, 1));
    CHECK(memory_files() > 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(memory_files());
    CHECK_EQ(child_status(pid), 0);
    say(line, message);
    fill(block, MIB, 4);
    CHECK_OK(aclrtIpcMemClose(message.key));
    end();
}

/* The flags of the last export of a notify hold, and only its maker exports it. */
static void flags_exporter(Line line)
{
    Message message;
    char again[65];
    aclrtNotify notify = NULL;
    memset(&message, 0, sizeof message);
    begin();
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(aclrtNotifyGetExportKey(notify, i ? again : message.key, 65, i == 1 ? 2 : 0));
        CHECK(i == 0 || strcmp(again, message.key) == 0);
        say(line, message);
        Message answer;
        CHECK(hear(line, &answer));
    }
    CHECK_OK(aclrtDestroyNotify(notify));
    end();
}

static void flags_importer(Line line)
{
    Message message;
    char key[65];
    begin();
    for (int i = 0; i < 3; i++) {
        aclrtNotify notify = NULL;
        CHECK(hear(line, &message));
        if (i == 1) {
            CHECK_OK(aclrtNotifyImportByKey(&notify, message.key, 0));
            CHECK_FAIL(aclrtNotifyGetExportKey(notify, key, 65, 2), 107000, "imported");
            CHECK_OK(aclrtDestroyNotify(notify));
        } else {
            CHECK_FAIL(aclrtNotifyImportByKey(&notify, message.key, 0), NOT_PERMITTED, "has not named");
        }
        say(line, message);
    }
    end();
}

int main(void)
{
    GROUP("acl_ipc_9 memory is held as long as one import of it is");
    CHECK(two(overlap_exporter, overlap_importer) == 0);
    GROUP("acl_ipc_9 keys end with their memory");
    CHECK(two(freeing_exporter, late_importer) == 0);
    GROUP("acl_ipc_9 a block of which many parts are exported is exported whole");
    CHECK(two(pieces_exporter, pieces_importer) == 0);
    GROUP("acl_ipc_9 a process that becomes another program has ended");
    CHECK(two(exec_exporter, exec_importer) == 0);
    GROUP("acl_ipc_9 a forked child has no memory of its parent");
    CHECK(two(forking_exporter, forking_importer) == 0);
    GROUP("acl_ipc_9 the flags of a notify");
    CHECK(two(flags_exporter, flags_importer) == 0);
    return END();
}
