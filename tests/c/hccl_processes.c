// env: CAIRN_DEVICES=4 HCCL_CONNECT_TIMEOUT=20
// env: CAIRN_DEVICES=4 HCCL_CONNECT_TIMEOUT=20 CAIRN_COMM_TRANSPORT=tcp
// links: -lhccl
/*
 * Ranks as processes: operators, a rank that is killed, one with a wrong key, one that ends while it waits, and a forked child. The program starts itself
 * anew for each rank, before it uses a device.
 */
#include "child.h"
#include "hccl/hccl.h"
#include <sys/socket.h>

enum { COUNT = 3000, CHANNEL = 3 };

/* A byte of the key in a root info. */
enum { KEY_BYTE = 30 };

/* What a started rank is. */
static uint32_t rank, size;
static HcclRootInfo root;
static HcclComm comm;
static aclrtStream stream;
static float *buffer, *other;

static void write_all(int file, const void *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written <= 0)
            exit(50);
        bytes = (const char *)bytes + written;
        count -= (size_t)written;
    }
}

static int read_all(int file, void *bytes, size_t count)
{
    while (count > 0) {
        ssize_t got = read(file, bytes, count);
        if (got <= 0)
            return 0;
        bytes = (char *)bytes + got;
        count -= (size_t)got;
    }
    return 1;
}

/* Tells the parent that this rank is here, and waits until all are. */
static void meet(void)
{
    char byte = 'm';
    write_all(CHANNEL, &byte, 1);
    if (!read_all(CHANNEL, &byte, 1))
        exit(51);
}

static void fill(float *memory, float value)
{
    float values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = value + (float)(i % 7);
    CHECK_OK(aclrtMemcpy(memory, sizeof values, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void expect(const float *memory, float value, float factor, const char *what)
{
    float values[COUNT];
    CHECK_OK(aclrtMemcpy(values, sizeof values, memory, sizeof values, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++)
        if (values[i] != value + factor * (float)(i % 7)) {
            check_failed();
            printf("  %s, rank %u: element %d is %f\n", what, rank, i, (double)values[i]);
            return;
        }
}

static void begin(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice((int32_t)rank));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtMalloc((void **)&buffer, COUNT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc((void **)&other, COUNT * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    if (rank == 0) {
        CHECK_OK(HcclGetRootInfo(&root));
        write_all(CHANNEL, &root, sizeof root);
    }
    if (!read_all(CHANNEL, &root, sizeof root))
        exit(52);
}

static void join(void)
{
    CHECK_OK(HcclCommInitRootInfo(size, &root, rank, &comm));
}

static void leave(void)
{
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_OK(aclrtFree(buffer));
    CHECK_OK(aclrtFree(other));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice((int32_t)rank));
    CHECK_OK(aclFinalize());
}

static void sum_once(void)
{
    fill(buffer, (float)rank);
    CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    expect(buffer, (float)(size * (size - 1) / 2), (float)size, "sum");
}

static void works(void)
{
    begin();
    join();
    for (int i = 0; i < 20; i++)
        sum_once();
    fill(buffer, (float)(100 * rank));
    CHECK_OK(HcclBroadcast(buffer, COUNT, HCCL_DATA_TYPE_FP32, size - 1, comm, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    expect(buffer, (float)(100 * (size - 1)), 1, "broadcast");
    fill(buffer, (float)rank);
    HcclSendRecvItem items[2] = {
        {HCCL_SEND, buffer, COUNT, HCCL_DATA_TYPE_FP32, (rank + 1) % size},
        {HCCL_RECV, other, COUNT, HCCL_DATA_TYPE_FP32, (rank + size - 1) % size}};
    CHECK_OK(HcclBatchSendRecv(items, 2, comm, stream));
    CHECK_OK(HcclBarrier(comm, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    expect(other, (float)((rank + size - 1) % size), 1, "ring");
    leave();
}

/* Rank 1 is killed in the middle; the others hear of it by their operator, and by the question of a watchdog. */
static void one_is_killed(void)
{
    HcclResult async_error = HCCL_SUCCESS;
    begin();
    join();
    sum_once();
    meet();
    if (rank == 1)
        kill(getpid(), SIGKILL);
    fill(buffer, 1);
    CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    CHECK_TEXT("HcclAllReduce");
    CHECK_OK(HcclGetCommAsyncError(comm, &async_error));
    CHECK_EQ(async_error, HCCL_E_REMOTE);
    CHECK_TEXT("rank");
    leave();
}

/* A communicator without operators learns of a dead peer when it is asked. */
static void one_is_killed_idle(void)
{
    HcclResult async_error = HCCL_SUCCESS;
    begin();
    join();
    sum_once();
    meet();
    if (rank == 1)
        kill(getpid(), SIGKILL);
    while (async_error == HCCL_SUCCESS) {
        CHECK_OK(HcclGetCommAsyncError(comm, &async_error));
        sched_yield();
    }
    CHECK_EQ(async_error, HCCL_E_REMOTE);
    CHECK_TEXT("rank 1");
    leave();
}

/* The last rank has another key first: it is turned away, and the communicator comes about when it has the right one. */
static void wrong_key(void)
{
    begin();
    if (rank == size - 1) {
        HcclRootInfo wrong = root;
        HcclComm none = (HcclComm)1;
        wrong.internal[KEY_BYTE] = (char)(wrong.internal[KEY_BYTE] ^ 1);
        (void)aclGetRecentErrMsg();
        CHECK(HcclCommInitRootInfo(size, &wrong, rank, &none) != HCCL_SUCCESS);
        CHECK(none == NULL);
        CHECK_TEXT("did not let this rank in");
    }
    join();
    sum_once();
    leave();
}

/* As torch_npu does at its end: nothing is waited for any more. */
static void destroy_late(void)
{
    HcclComm none = NULL;
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_CODE(HcclCommInitRootInfo(1, &root, 0, &none), HCCL_E_INTERNAL);
    fflush(NULL);
    if (check_failures)
        _exit(1);
}

/* Rank 1's main returns while its operator waits: nothing blocks, and the others hear of it. */
static void one_ends_while_it_waits(void)
{
    begin();
    join();
    sum_once();
    if (rank == 1) {
        CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
        atexit(destroy_late);
        exit(check_failures != 0);
    }
    meet();
    CHECK_OK(HcclAllReduce(buffer, buffer, 7, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    leave();
}

/* What a forked child of a rank gets. */
static void forked(void)
{
    HcclRootInfo info;
    HcclComm made = NULL;
    HcclResult async_error;
    HcclConfigValue value = {0};
    uint32_t number;
    CHECK_CODE(HcclGetRootInfo(&info), HCCL_E_INTERNAL);
    CHECK_CODE(HcclCommInitRootInfo(1, &root, 0, &made), HCCL_E_INTERNAL);
    CHECK_CODE(HcclAllReduce(buffer, buffer, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream), HCCL_E_INTERNAL);
    CHECK_CODE(HcclBarrier(comm, stream), HCCL_E_INTERNAL);
    CHECK_CODE(HcclGetRankSize(comm, &number), HCCL_E_INTERNAL);
    CHECK_CODE(HcclGetCommAsyncError(comm, &async_error), HCCL_E_INTERNAL);
    CHECK_CODE(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_INTERNAL);
    CHECK_CODE(HcclGroupStart(), HCCL_E_INTERNAL);
    CHECK_CODE(HcclGroupEnd(), HCCL_E_INTERNAL);
    CHECK_CODE(HcclCommDestroy(comm), HCCL_E_INTERNAL);
    CHECK(HcclGetCommConfigCapability() == 12);
}

static void forks(void)
{
    begin();
    join();
    sum_once();
    CHECK_EQ(in_child(forked, 30), 0);
    sum_once();
    leave();
}

/* The process of a program that never made a communicator: settings and questions leave a child that can. */
static void fork_before_use(void)
{
    HcclConfigValue value = {1};
    CHECK_OK(HcclSetConfig(HCCL_DETERMINISTIC, value));
    CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &value));
    CHECK(HcclGetErrorString(HCCL_E_PARA) != NULL);
}

static const struct {
    const char *name;
    void (*body)(void);
} bodies[] = {
    {"works", works},
    {"one_is_killed", one_is_killed},
    {"one_is_killed_idle", one_is_killed_idle},
    {"wrong_key", wrong_key},
    {"one_ends_while_it_waits", one_ends_while_it_waits},
    {"forks", forks}};

/* Runs a body in `count` processes; rank 1 may end with another status. */
static void run(const char *name, uint32_t count, int status_of_1)
{
    pid_t pids[8];
    int channels[8] = {0};
    fflush(NULL);
    for (uint32_t i = 0; i < count; i++) {
        int ends[2];
        char number[16], all[16];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
            abort();
        snprintf(number, sizeof number, "%u", i);
        snprintf(all, sizeof all, "%u", count);
        pids[i] = fork();
        if (pids[i] == 0) {
            dup2(ends[1], CHANNEL);
            for (int file = CHANNEL + 1; file < 64; file++)
                close(file);
            execl("/proc/self/exe", "rank", name, number, all, (char *)NULL);
            _exit(53);
        }
        close(ends[1]);
        channels[i] = ends[0];
    }
    HcclRootInfo info;
    if (CHECK(read_all(channels[0], &info, sizeof info)))
        for (uint32_t i = 0; i < count; i++)
            write_all(channels[i], &info, sizeof info);
    /* A rank that is here waits for the others; one that has ended is waited for no more. */
    char byte = 0;
    int are_here = 0;
    for (uint32_t i = 0; i < count; i++)
        are_here += read_all(channels[i], &byte, 1);
    for (uint32_t i = 0; i < count && are_here > 0; i++)
        if (send(channels[i], &byte, 1, MSG_NOSIGNAL) < 0)
            are_here--;
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(child_status(pids[i]), i == 1 ? status_of_1 : 0);
        close(channels[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        rank = (uint32_t)atoi(argv[2]);
        size = (uint32_t)atoi(argv[3]);
        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
            if (strcmp(argv[1], bodies[i].name) == 0)
                bodies[i].body();
        fflush(NULL);
        return check_failures != 0;
    }
    GROUP("hccl_8 two processes");
    run("works", 2, 0);
    GROUP("hccl_8 four processes");
    run("works", 4, 0);
    GROUP("hccl_8 a rank that is killed");
    run("one_is_killed", 2, 1000 + SIGKILL);
    run("one_is_killed", 4, 1000 + SIGKILL);
    GROUP("hccl_8 a rank that is killed while nothing runs");
    run("one_is_killed_idle", 2, 1000 + SIGKILL);
    GROUP("hccl_8 a rank with a wrong key is turned away");
    run("wrong_key", 2, 0);
    GROUP("hccl_8 a rank that ends while its operator waits");
    run("one_ends_while_it_waits", 2, 0);
    GROUP("hccl_8 a forked child of a rank: code 4 from every function");
    run("forks", 2, 0);
    GROUP("hccl_8 settings start nothing");
    fork_before_use();
    CHECK_EQ(in_child(fork_before_use, 30), 0);
    return END();
}
