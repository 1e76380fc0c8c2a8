// env: CAIRN_DEVICES=8
// links: -lhccl
/* The ways to make communicators, and several of them at once. */
#include "ranks.h"
#include "hccl/hccl_sym_win.h"
#include "hccl/hcom.h"
#include "hcomm_res.h"
#include <fcntl.h>

enum { COUNT = 500 };
static HcclDataType type = HCCL_DATA_TYPE_INT64;
static __thread uint32_t ranks;

static int mine(uint32_t rank, size_t i) { return (int)(rank + 1 + i); }

static int sum(uint32_t rank, size_t i)
{
    (void)rank;
    return (int)(ranks * (ranks + 1) / 2 + ranks * i);
}

/* An allreduce among `size` ranks. */
static void check_sum(HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t size)
{
    uint32_t told = 0;
    ranks = size;
    CHECK_OK(HcclGetRankSize(comm, &told));
    CHECK_EQ(told, size);
    CHECK_OK(HcclGetRankId(comm, &told));
    CHECK_EQ(told, rank);
    void *buffer = device_elements(type, COUNT, mine, rank);
    CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, comm, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    elements_are(buffer, type, COUNT, sum, rank, "sum");
    CHECK_OK(aclrtFree(buffer));
}

static void sub_communicators(Rank *rank)
{
    HcclCommConfig config;
    HcclComm half = NULL, again = NULL, none = (HcclComm)1;
    char parent[128], name[256], told[128];
    /* Even ranks and odd ranks, the latter in falling order. */
    uint32_t members[MAX_RANKS], place = rank->rank / 2, count = rank->size / 2, odd = rank->rank % 2;
    for (uint32_t i = 0; i < count; i++)
        members[odd ? count - 1 - i : i] = 2 * i + odd;
    if (odd)
        place = count - 1 - place;
    HcclCommConfigInit(&config);
    CHECK_OK(HcclGetCommName(rank->comm, parent));
    CHECK_OK(HcclCreateSubCommConfig(&rank->comm, count, members, 10 + odd, place, &config, &half));
    CHECK_OK(HcclGetCommName(half, told));
    snprintf(name, sizeof name, "%s_sub_%u", parent, 10 + odd);
    CHECK(strcmp(told, name) == 0);
    check_sum(half, rank->stream, place, count);
    check_sum(rank->comm, rank->stream, rank->rank, rank->size);
    ranks_meet(rank);
    CHECK_FAIL(
        HcclCreateSubCommConfig(&rank->comm, count, members, 10 + odd, place, &config, &again), HCCL_E_PARA, name);
    CHECK_FAIL(HcclCreateSubCommConfig(&half, 1, &place, 3, 0, &config, &again), HCCL_E_NOT_SUPPORT, "sub");
    CHECK_OK(HcclCreateSubCommConfig(&rank->comm, 2, NULL, 0xFFFFFFFF, 0, &config, &none));
    CHECK(none == NULL);
    ranks_meet(rank);
    CHECK_OK(HcclCommDestroy(half));
    strcpy(config.hcclCommName, odd ? "odd ones" : "even ones");
    CHECK_OK(HcclCreateSubCommConfig(&rank->comm, count, members, 10 + odd, place, &config, &again));
    CHECK_OK(HcclGetCommName(again, told));
    CHECK(strcmp(told, config.hcclCommName) == 0);
    check_sum(again, rank->stream, place, count);
    CHECK_OK(HcclCommDestroy(again));
}

static void of_one_thread(void)
{
    int32_t devices[4] = {2, 0, 3, 1};
    HcclComm comms[4];
    aclrtStream streams[4];
    void *buffers[4];
    GROUP("hccl_6 HcclCommInitAll: ranks are the places in the list");
    CHECK_OK(HcclCommInitAll(4, devices, comms));
    ranks = 4;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t told = 77;
        CHECK_OK(HcclGetRankId(comms[i], &told));
        CHECK_EQ(told, i);
        CHECK_OK(aclrtSetDevice(devices[i]));
        CHECK_OK(aclrtCreateStream(&streams[i]));
        buffers[i] = device_elements(type, COUNT, mine, i);
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK_OK(HcclAllReduce(buffers[i], buffers[i], COUNT, type, HCCL_REDUCE_SUM, comms[i], streams[i]));
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(aclrtSetDevice(devices[i]));
        CHECK_OK(aclrtSynchronizeStream(streams[i]));
        elements_are(buffers[i], type, COUNT, sum, i, "sum of one thread");
    }
    GROUP("hccl_6 a stream of another device");
    CHECK_FAIL(
        HcclAllReduce(buffers[0], buffers[0], COUNT, type, HCCL_REDUCE_SUM, comms[0], streams[1]), HCCL_E_PARA, "device");
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(aclrtSetDevice(devices[i]));
        CHECK_OK(aclrtFree(buffers[i]));
        CHECK_OK(aclrtDestroyStream(streams[i]));
        CHECK_OK(HcclCommDestroy(comms[i]));
        CHECK_OK(aclrtResetDevice(devices[i]));
    }
}

static void after_a_reset(void)
{
    int32_t devices[2] = {0, 1};
    HcclComm comms[2], again[2];
    aclrtStream streams[2];
    void *buffers[2];
    GROUP("hccl_6 communicators outlive their device, and end in order");
    for (int turn = 0; turn < 2; turn++) {
        CHECK_OK(HcclCommInitAll(2, devices, turn ? again : comms));
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_OK(aclrtSetDevice(devices[i]));
            CHECK_OK(aclrtCreateStream(&streams[i]));
            buffers[i] = device_elements(type, COUNT, mine, i);
            CHECK_OK(HcclAllReduce(
                buffers[i], buffers[i], COUNT, type, HCCL_REDUCE_SUM, (turn ? again : comms)[i], streams[i]));
        }
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_OK(aclrtSetDevice(devices[i]));
            CHECK_OK(aclrtSynchronizeStream(streams[i]));
            CHECK_OK(aclrtResetDeviceForce(devices[i]));
        }
        CHECK_FAIL(
            HcclAllReduce(buffers[0], buffers[0], COUNT, type, HCCL_REDUCE_SUM, comms[0], streams[0]), HCCL_E_PARA,
            "destroyed");
    }
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_OK(HcclCommDestroy(comms[i]));
        CHECK_OK(HcclCommDestroy(again[i]));
    }
}

/* Two communicators of the same ranks, used in opposite orders on two streams. */
static HcclRootInfo second_root;

static void crosswise(Rank *rank)
{
    HcclComm second = NULL;
    aclrtStream other;
    if (rank->rank == 0)
        CHECK_OK(HcclGetRootInfo(&second_root));
    ranks_meet(rank);
    CHECK_OK(HcclCommInitRootInfo(rank->size, &second_root, rank->rank, &second));
    CHECK_OK(aclrtCreateStream(&other));
    ranks = rank->size;
    void *a = device_elements(type, COUNT, mine, rank->rank), *b = device_elements(type, COUNT, mine, rank->rank);
    for (int i = 0; i < 2; i++) {
        if ((rank->rank + (uint32_t)i) % 2)
            CHECK_OK(HcclAllReduce(a, a, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
        else
            CHECK_OK(HcclAllReduce(b, b, COUNT, type, HCCL_REDUCE_SUM, second, other));
    }
    CHECK_OK(aclrtSynchronizeStream(other));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(a, type, COUNT, sum, rank->rank, "first communicator");
    elements_are(b, type, COUNT, sum, rank->rank, "second communicator");
    CHECK_OK(aclrtFree(a));
    CHECK_OK(aclrtFree(b));
    CHECK_OK(aclrtDestroyStream(other));
    CHECK_OK(HcclCommDestroy(second));
}

static HcclRootInfo roots[2];

static void several_roots(Rank *rank)
{
    HcclComm comm = NULL;
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    if (rank->rank == 0 || rank->rank == 2)
        CHECK_OK(HcclGetRootInfoScalable(&roots[rank->rank / 2]));
    ranks_meet(rank);
    CHECK_OK(HcclCommInitRootInfoScalable(rank->size, 2, roots, rank->rank, 0, &config, &comm));
    check_sum(comm, rank->stream, rank->rank, rank->size);
    CHECK_OK(HcclCommDestroy(comm));
}

/* A rank table of one server. */
static char table_path[64];

static void write_table(uint32_t size)
{
    snprintf(table_path, sizeof table_path, "hccl-table-%d.json", getpid());
    FILE *file = fopen(table_path, "w");
    fprintf(file, "{\"status\": \"completed\", \"version\": \"1.0\", \"server_count\": \"1\", \"server_list\": [{\"server_id\": \"here\", \"device\": [");
    for (uint32_t i = 0; i < size; i++)
        fprintf(file, "%s{\"device_id\": \"%u\", \"rank_id\": \"%u\"}", i ? ", " : "", i, i);
    fprintf(file, "]}]}");
    fclose(file);
}

static void rank_table(Rank *rank)
{
    HcclComm comm = NULL, found = NULL;
    char name[128];
    CHECK_OK(HcclCommInitClusterInfo(table_path, rank->rank, &comm));
    CHECK_OK(HcclGetCommName(comm, name));
    CHECK(strcmp(name, "hccl_world_group") == 0);
    CHECK_OK(HcclCommGetHandleWithName(name, &found));
    CHECK(found == comm);
    check_sum(comm, rank->stream, rank->rank, rank->size);
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_FAIL(HcclCommGetHandleWithName(name, &found), HCCL_E_PARA, name);
}

static void by_name(Rank *rank)
{
    bool ready = true;
    uint32_t told = 77, pair[2] = {rank->rank & ~1u, rank->rank | 1u};
    char group[16];
    HcclComm comm = NULL;
    snprintf(group, sizeof group, "pair%u", rank->rank / 2);
    CHECK_OK(HcomGetInitStatus(&ready));
    CHECK(!ready);
    CHECK_OK(HcomInitByRankTable(table_path, rank->rank));
    CHECK_OK(HcomGetInitStatus(&ready));
    CHECK(ready && HcomFindGroup(NULL) && !HcomFindGroup(group));
    CHECK_OK(HcomGetRankSize(NULL, &told));
    CHECK_EQ(told, rank->size);
    CHECK_OK(HcomCreateGroup(group, 2, pair));
    CHECK(HcomFindGroup(group));
    CHECK_OK(HcomGetRankId(group, &told));
    CHECK_EQ(told, rank->rank % 2);
    CHECK_OK(HcomGetCommHandleByGroup(group, &comm));
    check_sum(comm, rank->stream, rank->rank % 2, 2);
    ranks = rank->size;
    void *buffer = device_elements(type, COUNT, mine, rank->rank);
    CHECK_OK(HcomAllReduce("tag", buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, NULL, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(buffer, type, COUNT, sum, rank->rank, "HcomAllReduce");
    CHECK_FAIL(
        HcomAllReduce("tag", buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, "nobody", rank->stream), HCCL_E_PARA, "nobody");
    ranks_meet(rank);
    CHECK_OK(aclrtFree(buffer));
    CHECK_OK(HcomDestroyGroup(group));
    CHECK(!HcomFindGroup(group));
    CHECK_OK(HcomDestroy());
    CHECK(!HcomFindGroup("hccl_world_group"));
}

/* Callbacks, on the thread that destroys. */
static struct {
    HcclComm comm;
    int phases[8], count;
    pthread_t thread;
} seen[2];

static HcclResult note(HcclComm comm, HcclCommStatePhase phase, void *args)
{
    uint32_t index = *(uint32_t *)args;
    seen[index].comm = comm;
    seen[index].phases[seen[index].count++ % 8] = phase;
    seen[index].thread = pthread_self();
    return HCCL_SUCCESS;
}

static void states(void)
{
    static uint32_t first = 0, second = 1;
    HcclRootInfo root;
    HcclComm comm = NULL;
    GROUP("hccl_6 state callbacks");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(HcclGetRootInfo(&root));
    CHECK_OK(HcclCommInitRootInfo(1, &root, 0, &comm));
    CHECK_OK(HcclCommRegCommStateCallback("first", note, &first));
    CHECK_OK(HcclCommRegCommStateCallback("second", note, &second));
    CHECK_OK(HcclCommRegCommStateCallback("second", NULL, NULL));
    CHECK_FAIL(HcclCommRegCommStateCallback(NULL, note, NULL), HCCL_E_PTR, "regName");
    char name[128];
    HcclCommStatus status = HCCL_COMM_STATUS_RESERVED;
    void *buffer = device_elements(type, COUNT, mine, 0);
    aclrtStream stream;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(HcclGetCommName(comm, name));
    CHECK_OK(HcclCommSuspend(comm));
    CHECK_OK(HcclCommGetStatus(name, &status));
    CHECK_EQ(status, HCCL_COMM_STATUS_SUSPENDING);
    CHECK_FAIL(
        HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, comm, stream), HCCL_E_SUSPENDING, "suspended");
    CHECK_OK(HcclCommResume(comm));
    CHECK_OK(HcclCommGetStatus(name, &status));
    CHECK_EQ(status, HCCL_COMM_STATUS_READY);
    check_sum(comm, stream, 0, 1);
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_EQ(seen[0].count, 4);
    CHECK(seen[0].comm == comm && pthread_equal(seen[0].thread, pthread_self()));
    CHECK_EQ(seen[0].phases[0], HCCL_COMM_STATE_PHASE_RESUME_PRE);
    CHECK_EQ(seen[0].phases[1], HCCL_COMM_STATE_PHASE_RESUME_POST);
    CHECK_EQ(seen[0].phases[2], HCCL_COMM_STATE_PHASE_DESTROY_PRE);
    CHECK_EQ(seen[0].phases[3], HCCL_COMM_STATE_PHASE_DESTROY_POST);
    CHECK_EQ(seen[1].count, 0);
    CHECK_OK(HcclCommRegCommStateCallback("first", NULL, NULL));
    CHECK_OK(aclrtFree(buffer));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
}

static void *parts[MAX_RANKS];

static void windows(Rank *rank)
{
    HcclCommSymWindow window = NULL, around = NULL;
    void *handle = NULL, *pointer = NULL, *part = NULL;
    size_t offset = 0;
    int host = 0;
    uint32_t next = (rank->rank + 1) % rank->size, far = 9;
    CHECK_OK(HcommMemAlloc(&part, 4096));
    parts[rank->rank] = part;
    CHECK_OK(HcclCommSymWinRegister(rank->comm, part, 4096, &window, 1));
    ranks_meet(rank);
    CHECK_OK(HcclCommSymWinGet(rank->comm, (char *)part + 100, 50, &around, &offset));
    CHECK(around == window);
    CHECK_EQ(offset, 100);
    CHECK_OK(HcclSymWinGetPeerPointer(window, 64, next, &pointer));
    CHECK(pointer == (char *)parts[next] + 64);
    CHECK_FAIL(HcclSymWinGetPeerPointer(window, 4096, next, &pointer), HCCL_E_PARA, "4096");
    CHECK_FAIL(HcclSymWinGetPeerPointer(window, 0, 9, &pointer), HCCL_E_PARA, "9");
    CHECK_FAIL(HcclCommSymWinGet(rank->comm, &host, 4, &around, &offset), HCCL_E_PARA, "window");
    CHECK_FAIL(HcclCommSymWinRegister(rank->comm, &host, 4, &around, 1), HCCL_E_PARA, "device");
    CHECK_FAIL(HcclCommSymWinRegister(rank->comm, part, 4096, &around, 0), HCCL_E_PARA, "flag");
    CHECK_FAIL(HcclCommSymWinRegister(rank->comm, part, 1 << 30, &around, 1), HCCL_E_PARA, "1073741824");
    CHECK_FAIL(HcclCommSymWinRegister(rank->comm, NULL, 4096, &around, 1), HCCL_E_PTR, "addr");
    ranks_meet(rank);
    CHECK_OK(HcclCommSymWinDeregister(window));
    CHECK_FAIL(HcclCommSymWinDeregister(window), HCCL_E_PARA, "destroyed");

    CHECK_OK(HcclCommRegister(rank->comm, part, 4096, &handle, 0));
    CHECK(handle != NULL);
    CHECK_OK(HcclCommExchangeMem(rank->comm, handle, &next, 1));
    CHECK_FAIL(HcclCommExchangeMem(rank->comm, handle, &far, 1), HCCL_E_PARA, "9");
    CHECK_OK(HcclCommDeregister(rank->comm, handle));
    CHECK_FAIL(HcclCommDeregister(rank->comm, handle), HCCL_E_PARA, "destroyed");

    CHECK_OK(HcclCommSetMemoryRange(rank->comm, part, 4096, 0, 0));
    CHECK_FAIL(HcclCommSetMemoryRange(rank->comm, (char *)part + 8, 8, 0, 0), HCCL_E_PARA, "overlap");
    CHECK_FAIL(HcclCommSetMemoryRange(rank->comm, (char *)part + 8192, 8, 2, 0), HCCL_E_PARA, "alignment");
    CHECK_OK(HcclCommActivateCommMemory(rank->comm, part, 2048, 0, &host, 0));
    CHECK_FAIL(HcclCommActivateCommMemory(rank->comm, (char *)part + 2000, 64, 0, &host, 0), HCCL_E_PARA, "overlap");
    CHECK_FAIL(HcclCommActivateCommMemory(rank->comm, (char *)part + 4000, 128, 0, &host, 0), HCCL_E_PARA, "128");
    CHECK_FAIL(HcclCommUnsetMemoryRange(rank->comm, part), HCCL_E_PARA, "active");
    CHECK_OK(HcclCommDeactivateCommMemory(rank->comm, part));
    CHECK_FAIL(HcclCommDeactivateCommMemory(rank->comm, part), HCCL_E_PARA, "active");
    CHECK_OK(HcclCommUnsetMemoryRange(rank->comm, part));
    CHECK_OK(HcommMemFree(part));
    CHECK_FAIL(HcommMemAlloc(&part, 0), HCCL_E_PARA, "0");
    CHECK_FAIL(HcommMemFree(&host), HCCL_E_PARA, "0x");
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl_6 sub-communicators");
    ranks_run(4, NULL, sub_communicators, NULL);
    ranks_run(8, NULL, sub_communicators, NULL);
    of_one_thread();
    after_a_reset();
    GROUP("hccl_6 two communicators in opposite orders");
    ranks_run(4, NULL, crosswise, NULL);
    GROUP("hccl_6 several meeting points");
    ranks_bare(4, several_roots, NULL);
    GROUP("hccl_6 a rank table");
    write_table(4);
    ranks_bare(4, rank_table, NULL);
    GROUP("hccl_6 groups by name");
    ranks_bare(4, by_name, NULL);
    unlink(table_path);
    states();
    GROUP("hccl_6 windows and registered memory");
    ranks_run(2, NULL, windows, NULL);
    CHECK_OK(aclFinalize());
    return END();
}
