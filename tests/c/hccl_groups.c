// env: CAIRN_DEVICES=4
// links: -lhccl -lhcomm
/* Groups: one thread makes all ranks of a process, sends before it receives, and notes operators until the end. */
#include "ranks.h"

enum { COUNT = 1000 };
static HcclDataType type = HCCL_DATA_TYPE_INT32;

static int mine(uint32_t rank, size_t i) { return (int)(rank * 1000 + i); }
static int of_left(uint32_t rank, size_t i) { return mine((rank + 3) % 4, i); }
static int sum(uint32_t rank, size_t i) { (void)rank; return (int)(6000 + 4 * i); }

static void ring_in_a_group(Rank *rank)
{
    uint32_t right = (rank->rank + 1) % rank->size, left = (rank->rank + rank->size - 1) % rank->size;
    void *send = device_elements(type, COUNT, mine, rank->rank);
    void *recv = device_elements(type, COUNT, sum, rank->rank);
    bool active = false;
    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclGroupStatusGet(&active));
    CHECK(active);
    /* As torch_npu does: every call again in a group of its own. */
    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclSend(send, COUNT, type, right, rank->comm, rank->stream));
    CHECK_OK(HcclGroupEnd());
    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclRecv(recv, COUNT, type, left, rank->comm, rank->stream));
    CHECK_OK(HcclGroupEnd());
    CHECK_OK(HcclGroupStatusGet(&active));
    CHECK(active);
    /* Nothing is queued before the end. */
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, COUNT, sum, rank->rank, "before the end");
    CHECK_OK(HcclGroupEnd());
    CHECK_OK(HcclGroupStatusGet(&active));
    CHECK(!active);
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, COUNT, of_left, rank->rank, "ring in a group");

    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclAllReduce(send, recv, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(HcclGroupEnd());
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, COUNT, sum, rank->rank, "a collective in a group");

    /* Wrong arguments are wrong at the call; the group goes on. */
    HcclSendRecvItem item = {HCCL_SEND, send, COUNT, type, right};
    CHECK_OK(HcclGroupStart());
    CHECK_FAIL(HcclSend(NULL, COUNT, type, right, rank->comm, rank->stream), HCCL_E_PTR, "HcclSend");
    CHECK_FAIL(HcclSend(send, COUNT, type, 9, rank->comm, rank->stream), HCCL_E_PARA, "9");
    CHECK_FAIL(HcclBatchSendRecv(&item, 1, rank->comm, rank->stream), HCCL_E_NOT_SUPPORT, "HcclBatchSendRecv");
    CHECK_OK(HcclGroupEnd());
    CHECK_FAIL(HcclGroupEnd(), HCCL_E_NOT_SUPPORT, "group");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));
}

static void one_thread_makes_all(void)
{
    HcclRootInfo root;
    HcclComm comms[4] = {NULL, NULL, NULL, NULL};
    aclrtStream streams[4];
    void *send[4], *recv[4];
    GROUP("hccl_5 one thread makes the communicators of all ranks in a group");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(HcclGetRootInfo(&root));
    CHECK_OK(HcclGroupStart());
    for (int i = 0; i < 4; i++) {
        CHECK_OK(aclrtSetDevice(i));
        CHECK_OK(HcclCommInitRootInfo(4, &root, (uint32_t)i, &comms[i]));
        CHECK(comms[i] == NULL);
    }
    CHECK_OK(HcclGroupEnd());
    GROUP("hccl_5 and runs an operator on all of them");
    for (int i = 0; i < 4; i++) {
        uint32_t rank = 77;
        CHECK_OK(HcclGetRankId(comms[i], &rank));
        CHECK_EQ(rank, i);
        CHECK_OK(aclrtSetDevice(i));
        CHECK_OK(aclrtCreateStream(&streams[i]));
        send[i] = device_elements(type, COUNT, mine, (uint32_t)i);
        recv[i] = device_elements(type, COUNT, mine, (uint32_t)i);
    }
    CHECK_OK(HcclGroupStart());
    for (int i = 0; i < 4; i++)
        CHECK_OK(HcclAllReduce(send[i], recv[i], COUNT, type, HCCL_REDUCE_SUM, comms[i], streams[i]));
    CHECK_OK(HcclGroupEnd());
    for (int i = 0; i < 4; i++) {
        CHECK_OK(aclrtSetDevice(i));
        CHECK_OK(aclrtSynchronizeStream(streams[i]));
        elements_are(recv[i], type, COUNT, sum, (uint32_t)i, "AllReduce of one thread");
    }
    GROUP("hccl_5 the same without a group: calls do not wait");
    for (int i = 0; i < 4; i++)
        CHECK_OK(HcclAllReduce(send[i], send[i], COUNT, type, HCCL_REDUCE_SUM, comms[i], streams[i]));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(aclrtSetDevice(i));
        CHECK_OK(aclrtSynchronizeStream(streams[i]));
        elements_are(send[i], type, COUNT, sum, (uint32_t)i, "AllReduce of one thread");
        CHECK_OK(aclrtFree(send[i]));
        CHECK_OK(aclrtFree(recv[i]));
        CHECK_OK(aclrtDestroyStream(streams[i]));
        CHECK_OK(HcclCommDestroy(comms[i]));
        CHECK_OK(aclrtResetDevice(i));
    }
}

static void failed_creation(void)
{
    HcclRootInfo root;
    HcclComm comm = (HcclComm)1;
    GROUP("hccl_5 the end of a group returns the first failure");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclCommInitClusterInfo("/no/such/table.json", 0, &comm));
    CHECK(comm == NULL);
    CHECK_FAIL(HcclGroupEnd(), HCCL_E_INTERNAL, "/no/such/table.json");
    CHECK(comm == NULL);
    GROUP("hccl_5 a group is made of creations or of operators");
    CHECK_OK(HcclGetRootInfo(&root));
    CHECK_OK(HcclCommInitRootInfo(1, &root, 0, &comm));
    aclrtStream stream;
    void *memory = device_bytes(64);
    HcclComm another = NULL;
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK_OK(HcclGetRootInfo(&root));
    CHECK_OK(HcclGroupStart());
    CHECK_OK(HcclAllReduce(memory, memory, 4, type, HCCL_REDUCE_SUM, comm, stream));
    CHECK_FAIL(HcclCommInitRootInfo(1, &root, 0, &another), HCCL_E_NOT_SUPPORT, "group");
    CHECK_OK(HcclGroupEnd());
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(HcclCommDestroy(comm));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl_5 sends and receives of a group do not wait for each other; groups nest");
    ranks_run(4, NULL, ring_in_a_group, NULL);
    one_thread_makes_all();
    failed_creation();
    CHECK_OK(aclFinalize());
    return END();
}
