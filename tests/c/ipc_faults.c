// env: CAIRN_HOST_MEMORY=4gib
// unchecked: several processes
/* Sharing under stress: exporters and importers that are killed at any moment, many of them, memory that is written while it
 * is exported, handlers of faults of the program's own, and no descriptors left. */
#define WATCHDOG 300
#include "child.h"
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)
#define DRIVER 507899

static void begin(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
}

static void end(void)
{
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
}

/* A process of its own; what it writes to `out` the caller reads from the descriptor in `from`. */
static pid_t started(void (*body)(int in, int out), int *from, int *to)
{
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
        abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        close(there[0]), close(back[1]);
        check_failures = 0;
        start_watchdog();
        signal(SIGPIPE, SIG_IGN);
        body(back[0], there[1]);
        exit(check_failures != 0);
    }
    close(there[1]), close(back[0]);
    *from = there[0], *to = back[1];
    return pid;
}

/* Makes a block full of the number it is sent, and sends its key. Holds it until it is told to end. */
static void exporter(int in, int out)
{
    unsigned char value = 0;
    char key[65];
    void *block = NULL;
    if (read(in, &value, 1) != 1)
        return;
    begin();
    CHECK_OK(aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(block, 4096, value, 4096));
    CHECK_OK(aclrtIpcMemGetExportKey(block, 4096, key, 65, 1));
    CHECK(write(out, key, 65) == 65);
    if (read(in, &value, 1) == 1) {
        CHECK_OK(aclrtFree(block));
        end();
    }
}

static int exporter_count(void)
{
    const char *depth = getenv("CAIRN_TESTS");
    return depth && strcmp(depth, "deep") == 0 ? 1000 : 60;
}

/* Many exporters, all alive at the same time; every second one is killed while its memory is held here. */
static void many_exporters(void)
{
    enum { MOST = 1000 };
    static pid_t pids[MOST];
    static int from[MOST], to[MOST];
    static char keys[MOST][65];
    static void *blocks[MOST];
    const int count = exporter_count();
    struct rlimit before, enough;
    CHECK(count <= MOST && getrlimit(RLIMIT_NOFILE, &before) == 0);
    enough = before;
    enough.rlim_cur = 4096;
    CHECK(before.rlim_max >= enough.rlim_cur && setrlimit(RLIMIT_NOFILE, &enough) == 0);
    /* Exporters are forked from a process that has not used ACL: their own parent. */
    for (int i = 0; i < count; i++) {
        unsigned char value = (unsigned char)i;
        pids[i] = started(exporter, &from[i], &to[i]);
        CHECK(write(to[i], &value, 1) == 1);
    }
    for (int i = 0; i < count; i++)
        CHECK(read(from[i], keys[i], 65) == 65);
    pid_t importer = fork();
    if (importer == 0) {
        check_failures = 0;
        start_watchdog();
        begin();
        for (int i = 0; i < count; i++)
            CHECK_OK(aclrtIpcMemImportByKey(&blocks[i], keys[i], 1));
        for (int i = 0; i < count; i += 2)
            kill(pids[i], SIGKILL);
        for (int i = 0; i < count; i++) {
            unsigned char bytes[4096];
            CHECK_OK(aclrtMemcpy(bytes, 4096, blocks[i], 4096, ACL_MEMCPY_DEVICE_TO_HOST));
            CHECK_EQ(bytes[0], (unsigned char)i);
            CHECK_EQ(bytes[4095], (unsigned char)i);
            CHECK_OK(aclrtIpcMemClose(keys[i]));
        }
        end();
        exit(check_failures != 0);
    }
    CHECK_EQ(child_status(importer), 0);
    for (int i = 0; i < count; i++) {
        unsigned char value = 0;
        if (i % 2)
            CHECK(write(to[i], &value, 1) == 1);
        int status = child_status(pids[i]);
        CHECK_EQ(status, i % 2 ? 0 : 1000 + SIGKILL);
        close(from[i]), close(to[i]);
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

/* Exports and closes for ever; sends every key. */
static void restless_exporter(int in, int out)
{
    void *block = NULL;
    aclrtEvent event = NULL;
    char key[65];
    (void)in;
    begin();
    CHECK_OK(aclrtMalloc(&block, 64 << 10, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    for (;;) {
        CHECK_OK(aclrtIpcMemGetExportKey(block, 64 << 10, key, 65, 1));
        if (write(out, key, 65) != 65)
            _exit(check_failures != 0);
        CHECK_OK(aclrtIpcMemClose(key));
    }
}

/* Imports what comes until the exporter is gone; errors must be clean. */
static void restless_importer(int in, int out)
{
    char key[65];
    void *block = NULL;
    int imported = 0, refused = 0;
    begin();
    CHECK(write(out, "r", 1) == 1);
    while (read(in, key, 65) == 65) {
        aclError code = aclrtIpcMemImportByKey(&block, key, 1);
        CHECK(code == 0 || code == DRIVER);
        if (code == 0) {
            char byte;
            CHECK_OK(aclrtMemcpy(&byte, 1, block, 1, ACL_MEMCPY_DEVICE_TO_HOST));
            CHECK_OK(aclrtIpcMemClose(key));
        }
        code == 0 ? imported++ : refused++;
    }
    CHECK_FAIL(aclrtIpcMemImportByKey(&block, key, 1), DRIVER, "process");
    CHECK(imported + refused > 0);
    end();
}

/* Kills one of both after some keys have gone over, again and again: at whatever moment that is. */
static void killed_anywhere(int kills_importer)
{
    for (int round = 0; round < 12; round++) {
        int keys, to_exporter, ready, to_importer;
        pid_t importer = started(restless_importer, &ready, &to_importer);
        pid_t exporting = started(restless_exporter, &keys, &to_exporter);
        char key[65], byte;
        CHECK(read(ready, &byte, 1) == 1);
        for (int i = 0; i < 5 + 7 * round; i++) {
            CHECK(read(keys, key, 65) == 65);
            if (write(to_importer, key, 65) != 65)
                break;
        }
        kill(kills_importer ? importer : exporting, SIGKILL);
        CHECK_EQ(child_status(kills_importer ? importer : exporting), 1000 + SIGKILL);
        close(to_importer);
        if (kills_importer)
            kill(exporting, SIGKILL);
        int status = child_status(kills_importer ? exporting : importer);
        CHECK_EQ(status, kills_importer ? 1000 + SIGKILL : 0);
        close(keys), close(to_exporter), close(ready);
    }
}

static volatile int is_over;
static unsigned char *written;
static unsigned long rounds_written;

static void *write_on(void *unused)
{
    (void)unused;
    aclrtStream stream = NULL;
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    for (unsigned long round = 1; !is_over; round++) {
        CHECK_OK(aclrtMemsetAsync(written, 8 * MIB, (int)(round & 0x7f), 8 * MIB, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        unsigned char first = 0, last = 0;
        CHECK_OK(aclrtMemcpy(&first, 1, written, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_OK(aclrtMemcpy(&last, 1, written + 8 * MIB - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        CHECK_EQ(first, round & 0x7f);
        CHECK_EQ(last, round & 0x7f);
        __atomic_store_n(&rounds_written, round, __ATOMIC_SEQ_CST);
    }
    CHECK_OK(aclrtDestroyStream(stream));
    return NULL;
}

static sigjmp_buf after_fault;
static volatile int faults;

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)context;
    faults += info->si_addr != NULL;
    siglongjmp(after_fault, 1);
}

static void install_handler(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
}

static void cause_fault(void)
{
    static char *nowhere;
    if (!nowhere)
        nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(after_fault, 1) == 0)
        nowhere[5] = 1;
}

static void written_while_exported(void)
{
    pthread_t writer;
    char key[65], first[65];
    begin();
    install_handler();
    CHECK_OK(aclrtMalloc((void **)&written, 8 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    pthread_create(&writer, NULL, write_on, NULL);
    while (__atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST) < 2)
        sched_yield();
    CHECK_OK(aclrtIpcMemGetExportKey(written, 8 * MIB, first, 65, 1));
    unsigned long then = __atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST) < then + 2)
        sched_yield();
    CHECK_OK(aclrtIpcMemGetExportKey(written, 8 * MIB, key, 65, 1));
    is_over = 1;
    pthread_join(writer, NULL);

    GROUP("acl_ipc_8 the program's own handler of faults is called, installed before an export or after");
    cause_fault();
    CHECK_EQ(faults, 1);
    install_handler();
    cause_fault();
    CHECK_EQ(faults, 2);
    void *other = NULL;
    CHECK_OK(aclrtMalloc(&other, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(other, PAGE, key, 65, 1));
    cause_fault();
    CHECK_EQ(faults, 3);
    CHECK_OK(aclrtFree(other));
    CHECK_OK(aclrtFree(written));
    end();
}

/* Writes by fills, copies, and tasks of a stream that it waits for, all on its own thread. */
static void *write_deaf(void *argument)
{
    char *from = (char *)malloc(32 * MIB);
    aclrtStream stream = NULL;
    (void)argument;
    memset(from, 3, 32 * MIB);
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    while (!is_over || rounds_written < 2) {
        CHECK_OK(aclrtMemset(written, 32 * MIB, 3, 32 * MIB));
        CHECK_OK(aclrtMemcpy(written, 32 * MIB, from, 32 * MIB, ACL_MEMCPY_HOST_TO_DEVICE));
        CHECK_OK(aclrtMemsetAsync(written, 32 * MIB, 3, 32 * MIB, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        __atomic_add_fetch(&rounds_written, 1, __ATOMIC_SEQ_CST);
    }
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGSEGV) == 1 && sigismember(&now, SIGUSR1) == 1);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    free(from);
    return NULL;
}

/* The program has blocked every signal, as one that takes them by sigwait does. */
static void written_by_the_deaf(void)
{
    pthread_t writer;
    sigset_t all;
    char key[65];
    sigfillset(&all);
    sigdelset(&all, SIGALRM);
    sigprocmask(SIG_BLOCK, &all, NULL);
    begin();
    rounds_written = 0, is_over = 0;
    CHECK_OK(aclrtMalloc((void **)&written, 32 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    pthread_create(&writer, NULL, write_deaf, NULL);
    while (__atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST) < 2)
        sched_yield();
    for (size_t at = 0; at < 32; at += 2) {
        CHECK_OK(aclrtIpcMemGetExportKey(written + at * MIB, PAGE, key, 65, 1));
        unsigned long then = __atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&rounds_written, __ATOMIC_SEQ_CST) < then + 1)
            sched_yield();
    }
    is_over = 1;
    pthread_join(writer, NULL);
    CHECK_OK(aclrtFree(written));
    end();
}

/* The default action after an export: a fault ends the process as it always does. */
static void unhandled_fault(void)
{
    void *block = NULL;
    char key[65];
    begin();
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1));
    *(volatile char *)8 = 1;
}

/* What an exporter sends to one who holds all of it. */
typedef struct Held {
    char key[65];
    uint64_t shareable;
    aclrtIpcEventHandle event;
    char notify[65];
} Held;

/* Exports each kind of thing, and goes on when whoever held all of it was killed. */
static void held_exporter(int in, int out)
{
    Held held;
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handle = NULL;
    aclrtEvent event = NULL;
    aclrtNotify notify = NULL;
    aclrtStream stream = NULL;
    Gate gate = GATE_CLOSED;
    void *block = NULL, *start = NULL;
    size_t before = 0, after = 0, total = 0;
    char byte;
    memset(&prop, 0, sizeof prop);
    memset(&held, 0, sizeof held);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMemset(block, PAGE, 4, PAGE));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, held.key, 65, 1));
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &held.shareable));
    CHECK_OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    CHECK_OK(aclrtIpcGetEventHandle(event, &held.event));
    CHECK_OK(aclrtCreateNotify(&notify, 0));
    CHECK_OK(aclrtNotifyGetExportKey(notify, held.notify, 65, 2));
    gate_put(&gate, stream);
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK(write(out, &held, sizeof held) == (ssize_t)sizeof held);
    CHECK(read(in, &byte, 1) == 1);
    /* The other one is dead by now. */
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtSynchronizeEvent(event));
    CHECK_OK(aclrtRecordNotify(notify, stream));
    CHECK_OK(aclrtWaitAndResetNotify(notify, stream, 0));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtFree(block));
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
    CHECK_EQ(after, before);
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemcpy(&byte, 1, start, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 0);
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtDestroyNotify(notify));
    CHECK_OK(aclrtDestroyStream(stream));
    end();
}

/* Takes all of it, and waits for the record that does not come. */
static void holder(int in, int out)
{
    Held held;
    aclrtDrvMemHandle handle = NULL;
    aclrtEvent event = NULL;
    aclrtNotify notify = NULL;
    aclrtStream stream = NULL;
    void *block = NULL, *start = NULL;
    begin();
    CHECK(read(in, &held, sizeof held) == (ssize_t)sizeof held);
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtIpcMemImportByKey(&block, held.key, 1));
    CHECK_OK(aclrtMemImportFromShareableHandle(held.shareable, 0, &handle));
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtMemset(start, PAGE, 9, PAGE));
    CHECK_OK(aclrtNotifyImportByKey(&notify, held.notify, 2));
    CHECK_OK(aclrtIpcOpenEventHandle(held.event, &event));
    CHECK_OK(aclrtStreamWaitEvent(stream, event));
    CHECK(write(out, check_failures ? "f" : "h", 1) == 1);
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void killed_while_it_waits_and_holds(void)
{
    Held held;
    int from_exporter, to_exporter, from_holder, to_holder;
    char byte = 0;
    pid_t holding = started(holder, &from_holder, &to_holder);
    pid_t exporting = started(held_exporter, &from_exporter, &to_exporter);
    CHECK(read(from_exporter, &held, sizeof held) == (ssize_t)sizeof held);
    CHECK(write(to_holder, &held, sizeof held) == (ssize_t)sizeof held);
    CHECK(read(from_holder, &byte, 1) == 1);
    CHECK_EQ(byte, 'h');
    kill(holding, SIGKILL);
    CHECK_EQ(child_status(holding), 1000 + SIGKILL);
    CHECK(write(to_exporter, "k", 1) == 1);
    CHECK_EQ(child_status(exporting), 0);
    close(from_exporter), close(to_exporter), close(from_holder), close(to_holder);
}

/* Tries keys that differ from a good one in one character, and keys without any sense; then the good one, also without
 * descriptors. */
static void guesser(int in, int out)
{
    char key[65], wrong[65];
    void *block = NULL;
    unsigned state = 12345;
    struct rlimit limit;
    begin();
    CHECK(read(in, key, 65) == 65);
    for (int at = 0; at < 64; at++) {
        memcpy(wrong, key, 65);
        wrong[at] = wrong[at] == '3' ? '4' : '3';
        aclError code = aclrtIpcMemImportByKey(&block, wrong, 1);
        if (!CHECK(code == 107000 || code == DRIVER || code == 207006))
            printf("  %s gives %d\n", wrong, (int)code);
        CHECK(block == NULL);
        CHECK(aclrtIpcMemClose(wrong) != 0);
    }
    for (int round = 0; round < 2000; round++) {
        for (int at = 0; at < 64; at++) {
            state = state * 1103515245 + 12345;
            wrong[at] = round % 2 ? "0123456789abcdef"[state >> 16 & 15] : (char)(1 + (state >> 16) % 255);
        }
        wrong[64] = 0;
        if (round % 2)
            memcpy(wrong, key, 6);
        aclError code = aclrtIpcMemImportByKey(&block, wrong, 1);
        CHECK(code == 107000 || code == DRIVER || code == 207006);
        CHECK(block == NULL);
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t many = limit.rlim_cur;
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_FAIL(aclrtIpcMemImportByKey(&block, key, 1), 207001, "ulimit -n");
    CHECK(block == NULL);
    limit.rlim_cur = many;
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_OK(aclrtIpcMemImportByKey(&block, key, 1));
    char byte = 0;
    CHECK_OK(aclrtMemcpy(&byte, 1, block, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 11);
    CHECK_OK(aclrtIpcMemClose(key));
    end();
    CHECK(write(out, check_failures ? "f" : "g", 1) == 1);
}

static void garbage_keys(void)
{
    int from_exporter, to_exporter, from_guesser, to_guesser;
    char key[65], byte = 11;
    pid_t guessing = started(guesser, &from_guesser, &to_guesser);
    pid_t exporting = started(exporter, &from_exporter, &to_exporter);
    CHECK(write(to_exporter, &byte, 1) == 1);
    CHECK(read(from_exporter, key, 65) == 65);
    CHECK(write(to_guesser, key, 65) == 65);
    CHECK(read(from_guesser, &byte, 1) == 1);
    CHECK_EQ(byte, 'g');
    CHECK_EQ(child_status(guessing), 0);
    CHECK(write(to_exporter, &byte, 1) == 1);
    CHECK_EQ(child_status(exporting), 0);
    close(from_exporter), close(to_exporter), close(from_guesser), close(to_guesser);
}

static void without_descriptors(void)
{
    struct rlimit limit;
    void *block = NULL, *start = NULL;
    char key[65];
    aclrtDrvMemHandle handle = NULL;
    aclrtPhysicalMemProp prop;
    aclrtEvent event = NULL;
    memset(&prop, 0, sizeof prop);
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    begin();
    CHECK_OK(aclrtMalloc(&block, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t many = limit.rlim_cur;
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_FAIL(aclrtMallocPhysical(&handle, PAGE, &prop, 0), 207001, "ulimit -n");
    CHECK_FAIL(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1), 207001, "ulimit -n");
    CHECK_FAIL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC), 207001, "ulimit -n");
    limit.rlim_cur = many;
    setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_OK(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    CHECK_OK(aclrtReserveMemAddress(&start, PAGE, 0, NULL, 0));
    CHECK_OK(aclrtMapMem(start, PAGE, 0, handle, 0));
    CHECK_OK(aclrtIpcMemGetExportKey(block, PAGE, key, 65, 1));
    CHECK_OK(aclrtUnmapMem(start));
    CHECK_OK(aclrtFreePhysical(handle));
    CHECK_OK(aclrtReleaseMemAddress(start));
    CHECK_OK(aclrtFree(block));
    end();
}

static int shared_memory_files(void)
{
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strstr(entry->d_name, "cairn") != NULL;
    if (folder)
        closedir(folder);
    return count;
}

int main(void)
{
    int before = shared_memory_files();
    GROUP("acl_ipc_7 many exporters, half of them killed while their memory is held");
    many_exporters();
    GROUP("acl_ipc_6 an exporter is killed at any moment");
    killed_anywhere(0);
    GROUP("acl_ipc_6 an importer is killed at any moment");
    killed_anywhere(1);
    GROUP("acl_ipc_6 an importer is killed while it waits and holds memory");
    killed_while_it_waits_and_holds();
    GROUP("acl_ipc_2 keys that mean nothing, and an import without descriptors");
    garbage_keys();
    GROUP("acl_ipc_8 memory is exported while tasks write to it");
    CHECK_EQ(in_child(written_while_exported, 90), 0);
    CHECK_EQ(in_child(written_by_the_deaf, 90), 0);
    CHECK_EQ(in_child(unhandled_fault, 30), 1000 + SIGSEGV);
    GROUP("acl_ipc_9 no descriptors: an error with the reason, and nothing is lost");
    CHECK_EQ(in_child(without_descriptors, 60), 0);
    GROUP("acl_ipc_6 nothing is left behind");
    CHECK(shared_memory_files() <= before);
    return END();
}
