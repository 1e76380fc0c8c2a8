// env: CAIRN_DEVICES=4 HCCL_CONNECT_TIMEOUT=2
// links: -lhccl
/* Ranks that do not agree, do not come or leave: an error on every rank that waits, which names ranks, operator and reason. */
#include "ranks.h"

enum { COUNT = 1000 };
static HcclDataType type = HCCL_DATA_TYPE_FP32;

static int ones(uint32_t rank, size_t i)
{
    (void)rank;
    (void)i;
    return 1;
}

static int size_of_all(uint32_t rank, size_t i)
{
    (void)rank;
    (void)i;
    return 2;
}

/* The stream fails with a text that has both parts, and the communicator has an error from then on. */
static void has_failed(Rank *rank, const char *part, const char *another)
{
    HcclResult async_error = HCCL_SUCCESS;
    HcclCommStatus status = HCCL_COMM_STATUS_READY;
    char name[128];
    (void)aclGetRecentErrMsg();
    CHECK(aclrtSynchronizeStream(rank->stream) != ACL_SUCCESS);
    const char *text = aclGetRecentErrMsg();
    if (!CHECK(text && strstr(text, part) && strstr(text, another)))
        printf("  rank %u, expected \"%s\" and \"%s\" in: %s\n", rank->rank, part, another, text ? text : "(none)");
    CHECK_OK(HcclGetCommAsyncError(rank->comm, &async_error));
    CHECK(async_error != HCCL_SUCCESS);
    text = aclGetRecentErrMsg();
    if (!CHECK(text && strstr(text, part)))
        printf("  rank %u, expected \"%s\" in: %s\n", rank->rank, part, text ? text : "(none)");
    CHECK_OK(HcclGetCommName(rank->comm, name));
    CHECK_OK(HcclCommGetStatus(name, &status));
    CHECK_EQ(status, HCCL_COMM_STATUS_INVALID);
    /* Later operators fail at once, for the same reason. */
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    CHECK_FAIL(
        HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream), async_error, part);
    CHECK_OK(aclrtFree(buffer));
}

static void different_operators(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    if (rank->rank == 0)
        CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    else
        CHECK_OK(HcclBroadcast(buffer, COUNT, type, 0, rank->comm, rank->stream));
    has_failed(rank, "HcclAllReduce", "HcclBroadcast");
    CHECK_OK(aclrtFree(buffer));
}

static void different_counts(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    CHECK_OK(HcclAllReduce(
        buffer, buffer, rank->rank ? 900 : 800, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    has_failed(rank, "800", "900");
    CHECK_OK(aclrtFree(buffer));
}

static void different_types(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    CHECK_OK(HcclAllReduce(
        buffer, buffer, 100, rank->rank ? HCCL_DATA_TYPE_INT32 : HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, rank->comm,
        rank->stream));
    has_failed(rank, "int32", "fp32");
    CHECK_OK(aclrtFree(buffer));
}

/* Each is its own root and waits for the other: a timeout. */
static void different_roots(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    CHECK_OK(HcclReduce(buffer, buffer, 100, type, HCCL_REDUCE_SUM, rank->rank, rank->comm, rank->stream));
    has_failed(rank, "HcclReduce", rank->rank ? "root 1" : "root 0");
    CHECK_OK(aclrtFree(buffer));
}

/* Sends that do not fit the receives. */
static void different_messages(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    if (rank->rank == 0)
        CHECK_OK(HcclSend(buffer, 100, type, 1, rank->comm, rank->stream));
    else
        CHECK_OK(HcclRecv(buffer, 101, type, 0, rank->comm, rank->stream));
    if (rank->rank == 1) {
        has_failed(rank, "100", "101");
    } else {
        /* The sender may have been done before. */
        (void)aclrtSynchronizeStream(rank->stream);
    }
    ranks_meet(rank);
    CHECK_OK(aclrtFree(buffer));
}

/* Rank 1 calls nothing: the others' time runs out. */
static void nothing_called(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    if (rank->rank == 0) {
        HcclResult async_error = HCCL_SUCCESS;
        CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
        has_failed(rank, "HcclAllReduce", "rank 1");
        CHECK_OK(HcclGetCommAsyncError(rank->comm, &async_error));
        CHECK_EQ(async_error, HCCL_E_TIMEOUT);
    }
    ranks_meet(rank);
    CHECK_OK(aclrtFree(buffer));
}

/* A communicator ends while its operator waits for a rank that calls nothing. */
static void destroyed_while_it_hangs(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    if (rank->rank == 0) {
        CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
        CHECK_OK(HcclCommDestroy(rank->comm));
        rank->comm = NULL;
        CHECK(aclrtSynchronizeStream(rank->stream) != ACL_SUCCESS);
        CHECK_TEXT("HcclAllReduce");
    }
    ranks_meet(rank);
    CHECK_OK(aclrtFree(buffer));
}

/* The peer leaves while this rank waits for it. */
static void peer_leaves(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    if (rank->rank == 0) {
        CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
        ranks_meet(rank);
        has_failed(rank, "HcclAllReduce", "rank 1");
    } else {
        ranks_meet(rank);
        CHECK_OK(HcclCommDestroy(rank->comm));
        rank->comm = NULL;
    }
    CHECK_OK(aclrtFree(buffer));
}

/* A failed communicator stops nobody: another one of the same ranks works, on the same streams. */
static void works(Rank *rank)
{
    void *buffer = device_elements(type, COUNT, ones, rank->rank);
    CHECK_OK(HcclAllReduce(buffer, buffer, COUNT, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(buffer, type, COUNT, size_of_all, rank->rank, "the next communicator");
    CHECK_OK(aclrtFree(buffer));
}

static void never_comes(void)
{
    HcclRootInfo root;
    HcclComm comm = (HcclComm)1;
    GROUP("hccl_7 a rank that never comes: the text names it");
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(HcclGetRootInfo(&root));
    CHECK_FAIL(HcclCommInitRootInfo(2, &root, 0, &comm), HCCL_E_TIMEOUT, "rank 1");
    CHECK(comm == NULL);
    CHECK_OK(aclrtResetDevice(0));
}

/* Both say that they are rank 0. */
static HcclRootInfo shared_root;
static int failures;

static void same_rank(Rank *rank)
{
    HcclComm comm = NULL;
    if (rank->rank == 0)
        CHECK_OK(HcclGetRootInfo(&shared_root));
    ranks_meet(rank);
    HcclResult code = HcclCommInitRootInfo(2, &shared_root, 0, &comm);
    CHECK(code != HCCL_SUCCESS && comm == NULL);
    CHECK_TEXT("rank");
    count_up(&failures);
}

/* One says that there are two ranks, the other that there are three. */
static void other_size(Rank *rank)
{
    HcclComm comm = NULL;
    if (rank->rank == 0)
        CHECK_OK(HcclGetRootInfo(&shared_root));
    ranks_meet(rank);
    HcclResult code = HcclCommInitRootInfo(2 + rank->rank, &shared_root, rank->rank, &comm);
    CHECK(code != HCCL_SUCCESS && comm == NULL);
    CHECK_TEXT("rank");
    count_up(&failures);
}

int main(void)
{
    HcclCommConfig config;
    CHECK_OK(aclInit(NULL));
    HcclCommConfigInit(&config);
    config.hcclExecTimeOut = 1;
    GROUP("hccl_7 ranks that call different operators: both hear who called what");
    ranks_run(2, NULL, different_operators, NULL);
    GROUP("hccl_7 different counts");
    ranks_run(2, NULL, different_counts, NULL);
    GROUP("hccl_7 different types");
    ranks_run(2, NULL, different_types, NULL);
    GROUP("hccl_7 different roots");
    ranks_run(2, &config, different_roots, NULL);
    GROUP("hccl_7 messages of different lengths");
    ranks_run(2, &config, different_messages, NULL);
    GROUP("hccl_7 a rank that calls nothing: a timeout");
    ranks_run(2, &config, nothing_called, NULL);
    GROUP("hccl_7 destroyed while an operator hangs");
    ranks_run(2, NULL, destroyed_while_it_hangs, NULL);
    GROUP("hccl_7 a rank that leaves");
    ranks_run(2, NULL, peer_leaves, NULL);
    GROUP("hccl_7 the next communicator works");
    ranks_run(2, NULL, works, NULL);
    never_comes();
    GROUP("hccl_7 one rank twice");
    ranks_bare(2, same_rank, NULL);
    CHECK_EQ(raised(&failures), 2);
    GROUP("hccl_7 different numbers of ranks");
    ranks_bare(2, other_size, NULL);
    CHECK_EQ(raised(&failures), 4);
    CHECK_OK(aclFinalize());
    return END();
}
