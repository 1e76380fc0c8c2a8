// links: -lhccl
/* Wrong arguments of every function: the code that HCCL gives, and a text with the wrong value. One rank, so no engine is needed. */
#include "gate.h"
#include "hccl/hccl.h"

static HcclComm comm;
static aclrtStream stream, destroyed;
static void *send_buffer, *recv_buffer;

/* Arguments of an operator; what a kind does not take is not used. */
typedef struct Call {
    void *send, *recv;
    uint64_t count;
    int type, op;
    uint32_t rank;
    HcclComm comm;
    aclrtStream stream;
} Call;

enum Kind {
    ALL_REDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_V, ALL_GATHER, ALL_GATHER_V, BROADCAST, SCATTER, ALL_TO_ALL,
    ALL_TO_ALL_V, ALL_TO_ALL_VC, SEND, RECV, BATCH, BARRIER, KINDS
};

static const char *const names[KINDS] = {
    "HcclAllReduce", "HcclReduce", "HcclReduceScatter", "HcclReduceScatterV", "HcclAllGather", "HcclAllGatherV",
    "HcclBroadcast", "HcclScatter", "HcclAlltoAll", "HcclAlltoAllV", "HcclAlltoAllVC", "HcclSend", "HcclRecv",
    "HcclBatchSendRecv", "HcclBarrier"};

static HcclResult call(int kind, Call c)
{
    HcclDataType type = (HcclDataType)c.type;
    HcclReduceOp op = (HcclReduceOp)c.op;
    uint64_t counts[1] = {c.count}, places[1] = {0};
    HcclSendRecvItem item = {HCCL_SEND, c.send, c.count, type, c.rank};
    switch (kind) {
    case ALL_REDUCE:
        return HcclAllReduce(c.send, c.recv, c.count, type, op, c.comm, c.stream);
    case REDUCE:
        return HcclReduce(c.send, c.recv, c.count, type, op, c.rank, c.comm, c.stream);
    case REDUCE_SCATTER:
        return HcclReduceScatter(c.send, c.recv, c.count, type, op, c.comm, c.stream);
    case REDUCE_SCATTER_V:
        return HcclReduceScatterV(c.send, counts, places, c.recv, c.count, type, op, c.comm, c.stream);
    case ALL_GATHER:
        return HcclAllGather(c.send, c.recv, c.count, type, c.comm, c.stream);
    case ALL_GATHER_V:
        return HcclAllGatherV(c.send, c.count, c.recv, counts, places, type, c.comm, c.stream);
    case BROADCAST:
        return HcclBroadcast(c.send, c.count, type, c.rank, c.comm, c.stream);
    case SCATTER:
        return HcclScatter(c.send, c.recv, c.count, type, c.rank, c.comm, c.stream);
    case ALL_TO_ALL:
        return HcclAlltoAll(c.send, c.count, type, c.recv, c.count, type, c.comm, c.stream);
    case ALL_TO_ALL_V:
        return HcclAlltoAllV(c.send, counts, places, type, c.recv, counts, places, type, c.comm, c.stream);
    case ALL_TO_ALL_VC:
        return HcclAlltoAllVC(c.send, counts, type, c.recv, type, c.comm, c.stream);
    case SEND:
        return HcclSend(c.send, c.count, type, c.rank, c.comm, c.stream);
    case RECV:
        return HcclRecv(c.send, c.count, type, c.rank, c.comm, c.stream);
    case BATCH:
        return HcclBatchSendRecv(&item, 1, c.comm, c.stream);
    default:
        return HcclBarrier(c.comm, c.stream);
    }
}

static Call right(void)
{
    Call c = {send_buffer, recv_buffer, 8, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, 0, comm, stream};
    return c;
}

/* Every kind of a mask fails with the code and a text that has the part, and its own name. */
static void all_fail(unsigned mask, Call c, int code, const char *part)
{
    for (int kind = 0; kind < KINDS; kind++) {
        if (!(mask & 1u << kind))
            continue;
        (void)aclGetRecentErrMsg();
        int before = check_failures;
        CHECK_CODE(call(kind, c), code);
        const char *text = aclGetRecentErrMsg();
        CHECK(text && strstr(text, part) && strstr(text, names[kind]));
        if (check_failures != before)
            printf("  by %s, expected \"%s\" in: %s\n", names[kind], part, text ? text : "(no text)");
    }
}

enum {
    EVERY = (1 << KINDS) - 1,
    REDUCING = 1 << ALL_REDUCE | 1 << REDUCE | 1 << REDUCE_SCATTER | 1 << REDUCE_SCATTER_V,
    WITH_ELEMENTS = EVERY & ~(1 << BARRIER),
    WITH_RECEIVER = WITH_ELEMENTS & ~(1 << BROADCAST | 1 << SEND | 1 << RECV | 1 << BATCH),
    WITH_RANK = 1 << REDUCE | 1 << BROADCAST | 1 << SCATTER | 1 << SEND | 1 << RECV | 1 << BATCH,
    TO_OTHERS = 1 << ALL_TO_ALL | 1 << ALL_TO_ALL_V | 1 << ALL_TO_ALL_VC
};

static void operators(void)
{
    Call c;
    GROUP("hccl_3 null and unknown communicators and streams");
    c = right();
    c.comm = NULL;
    all_fail(EVERY, c, HCCL_E_PTR, "comm");
    c = right();
    c.stream = NULL;
    all_fail(EVERY, c, HCCL_E_PTR, "stream");
    c = right();
    c.comm = (HcclComm)0x1234;
    all_fail(EVERY, c, HCCL_E_PARA, "0x1234");
    c = right();
    c.comm = (HcclComm)stream;
    all_fail(EVERY, c, HCCL_E_PARA, "stream");
    c = right();
    c.stream = destroyed;
    all_fail(EVERY, c, HCCL_E_PARA, "destroyed");
    c = right();
    c.stream = (aclrtStream)comm;
    all_fail(EVERY, c, HCCL_E_PARA, "communicator");

    GROUP("hccl_3 null buffers");
    c = right();
    c.send = NULL;
    all_fail(WITH_ELEMENTS, c, HCCL_E_PTR, "null");
    c = right();
    c.recv = NULL;
    all_fail(WITH_RECEIVER, c, HCCL_E_PTR, "null");

    GROUP("hccl_3 types, reductions, counts, ranks");
    c = right();
    c.type = 13;
    all_fail(WITH_ELEMENTS, c, HCCL_E_NOT_SUPPORT, "13");
    c = right();
    c.type = HCCL_DATA_TYPE_RESERVED;
    all_fail(WITH_ELEMENTS, c, HCCL_E_NOT_SUPPORT, "255");
    c = right();
    c.type = -1;
    all_fail(WITH_ELEMENTS, c, HCCL_E_NOT_SUPPORT, "-1");
    c = right();
    c.op = 4;
    all_fail(REDUCING, c, HCCL_E_NOT_SUPPORT, "4");
    c = right();
    c.op = HCCL_REDUCE_RESERVED;
    all_fail(REDUCING, c, HCCL_E_NOT_SUPPORT, "255");
    c = right();
    c.op = HCCL_REDUCE_PROD;
    c.type = HCCL_DATA_TYPE_INT16;
    all_fail(REDUCING, c, HCCL_E_NOT_SUPPORT, "int16");
    c.type = HCCL_DATA_TYPE_BFP16;
    all_fail(REDUCING, c, HCCL_E_NOT_SUPPORT, "bfp16");
    c = right();
    c.count = 0x800000000;
    all_fail(WITH_ELEMENTS, c, HCCL_E_PARA, "34359738368");
    c = right();
    c.rank = 1;
    all_fail(WITH_RANK, c, HCCL_E_PARA, "1");
    c = right();
    c.rank = 0xffffffff;
    all_fail(WITH_RANK, c, HCCL_E_PARA, "4294967295");

    GROUP("hccl_3 one buffer for both sides");
    c = right();
    c.recv = c.send;
    all_fail(TO_OTHERS, c, HCCL_E_PARA, "in place");
}

static void special_arguments(void)
{
    uint64_t one[1] = {8}, zero[1] = {0};
    HcclDataType type = HCCL_DATA_TYPE_FP32;
    GROUP("hccl_3 what only some operators take");
    CHECK_FAIL(
        HcclAlltoAll(send_buffer, 8, type, recv_buffer, 4, type, comm, stream), HCCL_E_PARA, "4");
    CHECK_FAIL(
        HcclAlltoAll(send_buffer, 8, type, recv_buffer, 8, HCCL_DATA_TYPE_FP16, comm, stream), HCCL_E_PARA, "fp16");
    CHECK_FAIL(
        HcclAllGatherV(send_buffer, 5, recv_buffer, one, zero, type, comm, stream), HCCL_E_PARA, "5");
    CHECK_FAIL(
        HcclReduceScatterV(send_buffer, one, zero, recv_buffer, 5, type, HCCL_REDUCE_SUM, comm, stream), HCCL_E_PARA, "5");
    CHECK_FAIL(
        HcclAllGatherV(send_buffer, 8, recv_buffer, NULL, zero, type, comm, stream), HCCL_E_PTR, "recvCounts");
    CHECK_FAIL(
        HcclAllGatherV(send_buffer, 8, recv_buffer, one, NULL, type, comm, stream), HCCL_E_PTR, "recvDispls");
    CHECK_FAIL(
        HcclReduceScatterV(send_buffer, NULL, zero, recv_buffer, 8, type, HCCL_REDUCE_SUM, comm, stream), HCCL_E_PTR,
        "sendCounts");
    CHECK_FAIL(
        HcclReduceScatterV(send_buffer, one, NULL, recv_buffer, 8, type, HCCL_REDUCE_SUM, comm, stream), HCCL_E_PTR,
        "sendDispls");
    CHECK_FAIL(HcclAlltoAllVC(send_buffer, NULL, type, recv_buffer, type, comm, stream), HCCL_E_PTR, "sendCountMatrix");
    CHECK_FAIL(
        HcclAlltoAllV(send_buffer, NULL, zero, type, recv_buffer, one, zero, type, comm, stream), HCCL_E_PTR, "sendCounts");
    CHECK_FAIL(
        HcclAlltoAllV(send_buffer, one, zero, type, recv_buffer, one, NULL, type, comm, stream), HCCL_E_PTR, "rdispls");
    CHECK_FAIL(HcclBatchSendRecv(NULL, 1, comm, stream), HCCL_E_PTR, "sendRecvInfo");
    HcclSendRecvItem item = {(HcclSendRecvType)2, send_buffer, 8, type, 0};
    CHECK_FAIL(HcclBatchSendRecv(&item, 1, comm, stream), HCCL_E_PARA, "2");

    GROUP("hccl_3 memory that is not the device's fails at synchronize, with operator, argument and address");
    float host[8] = {0};
    char address[32];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)(uintptr_t)host);
    CHECK_OK(HcclAllReduce(host, recv_buffer, 8, type, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    const char *text = aclGetRecentErrMsg();
    CHECK(text && strstr(text, "HcclAllReduce") && strstr(text, address));
    CHECK_OK(HcclAllReduce(send_buffer, recv_buffer, 4096, type, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    CHECK_TEXT("HcclAllReduce");
    CHECK_OK(HcclAllReduce(send_buffer, recv_buffer, 8, type, HCCL_REDUCE_SUM, comm, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

static void without_device(void *info)
{
    HcclComm made;
    HcclRootInfo root;
    CHECK_FAIL(HcclGetRootInfo(&root), HCCL_E_RUNTIME, "context");
    CHECK_FAIL(HcclCommInitRootInfo(1, (HcclRootInfo *)info, 0, &made), HCCL_E_RUNTIME, "context");
}

static void creation(void)
{
    HcclRootInfo info, garbage;
    HcclComm made = (HcclComm)1;
    HcclCommConfig config;
    int32_t devices[3] = {0, 1, 0};
    HcclComm comms[3];
    char path[5000];
    memset(&garbage, 0x5a, sizeof garbage);
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = 0;
    HcclCommConfigInit(&config);

    GROUP("hccl_3 how communicators are made");
    CHECK_FAIL(HcclGetRootInfo(NULL), HCCL_E_PTR, "rootInfo");
    CHECK_OK(HcclGetRootInfo(&info));
    on_thread(without_device, &info);
    CHECK_FAIL(HcclCommInitRootInfo(0, &info, 0, &made), HCCL_E_PARA, "nRanks");
    CHECK_FAIL(HcclCommInitRootInfo(2, &info, 2, &made), HCCL_E_PARA, "rank 2");
    CHECK_FAIL(HcclCommInitRootInfo(1, NULL, 0, &made), HCCL_E_PTR, "rootInfo");
    CHECK_FAIL(HcclCommInitRootInfo(1, &info, 0, NULL), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclCommInitRootInfo(1, &garbage, 0, &made), HCCL_E_PARA, "rootInfo");
    CHECK_FAIL(HcclCommInitRootInfoConfig(1, &info, 0, NULL, &made), HCCL_E_PTR, "config");
    CHECK_FAIL(HcclCommInitRootInfoScalable(1, 0, &info, 0, 0, &config, &made), HCCL_E_PARA, "nRoot");
    CHECK_FAIL(HcclCommInitRootInfoScalable(1, 2, &info, 0, 0, &config, &made), HCCL_E_PARA, "2");
    CHECK_FAIL(HcclCommInitRootInfoScalable(1, 1, NULL, 0, 0, &config, &made), HCCL_E_PTR, "rootInfoList");
    CHECK_FAIL(HcclCommInitAll(0, devices, comms), HCCL_E_PARA, "ndev");
    CHECK_FAIL(HcclCommInitAll(1, NULL, comms), HCCL_E_PTR, "devices");
    CHECK_FAIL(HcclCommInitAll(1, devices, NULL), HCCL_E_PTR, "comms");
    devices[1] = 0;
    CHECK_FAIL(HcclCommInitAll(2, devices, comms), HCCL_E_PARA, "0");
    devices[1] = 77;
    CHECK_FAIL(HcclCommInitAll(2, devices, comms), HCCL_E_PARA, "77");
    devices[1] = -4;
    CHECK_FAIL(HcclCommInitAll(2, devices, comms), HCCL_E_PARA, "-4");
    CHECK_FAIL(HcclCommInitAll(100, devices, comms), HCCL_E_PARA, "100");
    CHECK_FAIL(HcclCommInitClusterInfo(NULL, 0, &made), HCCL_E_PTR, "clusterInfo");
    CHECK_FAIL(HcclCommInitClusterInfo("/no/such/table.json", 0, &made), HCCL_E_INTERNAL, "/no/such/table.json");
    CHECK_FAIL(HcclCommInitClusterInfo(path, 0, &made), HCCL_E_PARA, "4999");
    CHECK_FAIL(HcclCommInitClusterInfo("x", 0, NULL), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclCommInitClusterInfoConfig("x", 0, NULL, &made), HCCL_E_PTR, "config");
    CHECK(made == NULL);

    GROUP("hccl_3 a sub-communicator");
    uint32_t members[2] = {0, 0};
    HcclComm none = NULL, unknown = (HcclComm)0x77;
    CHECK_FAIL(HcclCreateSubCommConfig(NULL, 1, members, 1, 0, &config, &made), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclCreateSubCommConfig(&none, 1, members, 1, 0, &config, &made), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclCreateSubCommConfig(&unknown, 1, members, 1, 0, &config, &made), HCCL_E_PARA, "0x77");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, members, 1, 0, &config, NULL), HCCL_E_PTR, "subComm");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, members, 1, 0, NULL, &made), HCCL_E_PTR, "config");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, NULL, 1, 0, &config, &made), HCCL_E_PARA, "rankIds");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, members, 0xFFFFFFFF, 0, &config, &made), HCCL_E_PARA, "subCommId");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 0, members, 1, 0, &config, &made), HCCL_E_PARA, "rankNum");
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 2, members, 1, 0, &config, &made), HCCL_E_PARA, "2");
    members[0] = 3;
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, members, 1, 0, &config, &made), HCCL_E_PARA, "3");
    members[0] = 0;
    CHECK_FAIL(HcclCreateSubCommConfig(&comm, 1, members, 1, 1, &config, &made), HCCL_E_PARA, "1");
    made = (HcclComm)1;
    CHECK_OK(HcclCreateSubCommConfig(&comm, 1, NULL, 0xFFFFFFFF, 0, &config, &made));
    CHECK(made == NULL);
}

static void queries(void)
{
    uint32_t number = 77;
    char name[COMM_NAME_MAX_LENGTH], long_name[200];
    HcclResult async_error = HCCL_E_RESERVED;
    HcclComm found = NULL;
    HcclCommStatus status = HCCL_COMM_STATUS_RESERVED;
    HcclConfigValue value = {0};
    bool in_group = true;
    int32_t mode = -1;
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;

    GROUP("hccl_3 questions");
    CHECK_OK(HcclGetRankSize(comm, &number));
    CHECK_EQ(number, 1);
    CHECK_OK(HcclGetRankId(comm, &number));
    CHECK_EQ(number, 0);
    CHECK_FAIL(HcclGetRankSize(comm, NULL), HCCL_E_PTR, "rankSize");
    CHECK_FAIL(HcclGetRankId(comm, NULL), HCCL_E_PTR, "rank");
    CHECK_FAIL(HcclGetRankSize(NULL, &number), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclGetRankId((HcclComm)0x99, &number), HCCL_E_PARA, "0x99");
    CHECK_OK(HcclGetCommName(comm, name));
    CHECK(strlen(name) > 0 && strlen(name) < 128);
    CHECK_FAIL(HcclGetCommName(comm, NULL), HCCL_E_PTR, "commName");
    CHECK_OK(HcclCommGetHandleWithName(name, &found));
    CHECK(found == comm);
    CHECK_FAIL(HcclCommGetHandleWithName("nobody", &found), HCCL_E_PARA, "nobody");
    CHECK_FAIL(HcclCommGetHandleWithName(NULL, &found), HCCL_E_PTR, "commName");
    CHECK_FAIL(HcclCommGetHandleWithName(name, NULL), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclCommGetHandleWithName(long_name, &found), HCCL_E_PARA, "199");
    CHECK_OK(HcclCommGetStatus(name, &status));
    CHECK_EQ(status, HCCL_COMM_STATUS_READY);
    CHECK_FAIL(HcclCommGetStatus("nobody", &status), HCCL_E_PARA, "nobody");
    CHECK_FAIL(HcclCommGetStatus(name, NULL), HCCL_E_PTR, "status");
    CHECK_OK(HcclGetCommAsyncError(comm, &async_error));
    CHECK_EQ(async_error, HCCL_SUCCESS);
    CHECK_FAIL(HcclGetCommAsyncError(comm, NULL), HCCL_E_PTR, "asyncError");
    CHECK_FAIL(HcclGetCommAsyncError(NULL, &async_error), HCCL_E_PTR, "comm");
    CHECK_OK(HcclGroupStatusGet(&in_group));
    CHECK(!in_group);
    CHECK_FAIL(HcclGroupStatusGet(NULL), HCCL_E_PTR, "isGroupEnabled");
    CHECK_FAIL(HcclGroupEnd(), HCCL_E_NOT_SUPPORT, "group");
    CHECK_OK(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, 4, &mode));
    CHECK_EQ(mode, HCCL_OP_EXPANSION_MODE_HOST);
    CHECK_FAIL(HcclConfigGetInfo(comm, (HcclConfigType)5, 4, &mode), HCCL_E_PARA, "5");
    CHECK_FAIL(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, 8, &mode), HCCL_E_PARA, "8");
    CHECK_FAIL(HcclConfigGetInfo(comm, HCCL_CONFIG_TYPE_OP_EXPANSION_MODE, 4, NULL), HCCL_E_PTR, "info");

    GROUP("hccl_3 an option of one communicator");
    value.value = 2;
    CHECK_OK(HcclSetCommConfig(comm, HCCL_DETERMINISTIC, value));
    value.value = 7;
    CHECK_OK(HcclGetCommConfig(comm, HCCL_DETERMINISTIC, &value));
    CHECK_EQ(value.value, 2);
    CHECK_OK(HcclGetConfig(HCCL_DETERMINISTIC, &value));
    CHECK_EQ(value.value, 0);
    value.value = 9;
    CHECK_FAIL(HcclSetCommConfig(comm, HCCL_DETERMINISTIC, value), HCCL_E_PARA, "9");
    CHECK_FAIL(HcclSetCommConfig(NULL, HCCL_DETERMINISTIC, value), HCCL_E_PTR, "comm");
    CHECK_FAIL(HcclGetCommConfig(comm, HCCL_DETERMINISTIC, NULL), HCCL_E_PTR, "configValue");
    bool backup = true;
    number = 0;
    CHECK_FAIL(HcclCommWorkingDevNicSet(comm, &number, &backup, 1), HCCL_E_NOT_SUPPORT, "interface");
}

static void ends(void)
{
    GROUP("hccl_3 the end of a communicator");
    CHECK_OK(HcclCommDestroy(NULL));
    CHECK_FAIL(HcclCommDestroy((HcclComm)0x1230), HCCL_E_PARA, "0x1230");
    CHECK_FAIL(HcclCommDestroy((HcclComm)stream), HCCL_E_PARA, "it is a stream");
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_FAIL(HcclCommDestroy(comm), HCCL_E_PARA, "destroyed");
    all_fail(EVERY, right(), HCCL_E_PARA, "destroyed");
}

int main(void)
{
    HcclRootInfo info;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(aclrtCreateStream(&destroyed));
    CHECK_OK(aclrtDestroyStream(destroyed));
    CHECK_OK(aclrtMalloc(&send_buffer, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMalloc(&recv_buffer, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(HcclGetRootInfo(&info));
    CHECK_OK(HcclCommInitRootInfo(1, &info, 0, &comm));
    operators();
    special_arguments();
    creation();
    queries();
    ends();
    CHECK_OK(aclrtFree(send_buffer));
    CHECK_OK(aclrtFree(recv_buffer));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
