// env: CAIRN_DEVICES=8
// env: CAIRN_DEVICES=8 HCCL_BUFFSIZE=1 HCCL_DETERMINISTIC=strict
// links: -lhccl
/* Every operator and type on 2, 4 and 8 ranks, against a plain computation: odd counts, large counts, count 0, in place, gaps. */
#include "ranks.h"

enum { ODD = 37, LARGE = (1 << 19) + 3, UNTOUCHED = 5 };

/* What the functions below compute for; each rank has its own. */
static __thread struct Now {
    uint32_t size, root;
    HcclReduceOp op;
    size_t count;
    int shift;
} now;

/* What a rank puts in: 1 or 2, shifted for types with a sign. */
static int mine(uint32_t rank, size_t i)
{
    return 1 + (int)((rank * 7 + i * 3 + i / 11) % 2) - now.shift;
}

static int untouched(uint32_t rank, size_t i)
{
    (void)rank;
    (void)i;
    return UNTOUCHED;
}

/* The values of all ranks at one place, combined. */
static int combined(uint32_t rank, size_t i)
{
    (void)rank;
    int result = mine(0, i);
    for (uint32_t r = 1; r < now.size; r++) {
        int other = mine(r, i);
        switch (now.op) {
        case HCCL_REDUCE_SUM:
            result += other;
            break;
        case HCCL_REDUCE_PROD:
            result *= other;
            break;
        case HCCL_REDUCE_MAX:
            result = other > result ? other : result;
            break;
        default:
            result = other < result ? other : result;
        }
    }
    return result;
}

static int my_part_combined(uint32_t rank, size_t i) { return combined(rank, rank * now.count + i); }
static int gathered(uint32_t rank, size_t i) { (void)rank; return mine((uint32_t)(i / now.count), i % now.count); }
static int of_root(uint32_t rank, size_t i) { (void)rank; return mine(now.root, i); }
static int part_of_root(uint32_t rank, size_t i) { return mine(now.root, rank * now.count + i); }

static int exchanged(uint32_t rank, size_t i)
{
    return mine((uint32_t)(i / now.count), rank * now.count + i % now.count);
}

/* How many elements rank `from` has for rank `to`; some are 0. */
static uint64_t between(uint32_t from, uint32_t to)
{
    return (from * 3 + to * 5) % 7 * (now.count / 7 + 1);
}

static int has_sign(HcclDataType type)
{
    return type != HCCL_DATA_TYPE_UINT8 && type != HCCL_DATA_TYPE_UINT16 && type != HCCL_DATA_TYPE_UINT32 &&
           type != HCCL_DATA_TYPE_UINT64;
}

/* Two calls per operator: into another buffer, and in place. */
static void reduces(Rank *rank, HcclDataType type, HcclReduceOp op, size_t count)
{
    now.op = op;
    now.count = count;
    now.shift = op != HCCL_REDUCE_PROD && has_sign(type) ? 3 : 0;
    size_t each = type_bytes(type), all = count * now.size;
    now.root = (uint32_t)(count % now.size);

    void *send = device_elements(type, count, mine, rank->rank);
    void *recv = device_elements(type, count, untouched, rank->rank);
    CHECK_OK(HcclAllReduce(send, recv, count, type, op, rank->comm, rank->stream));
    CHECK_OK(HcclAllReduce(send, send, count, type, op, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, count, combined, rank->rank, "AllReduce");
    elements_are(send, type, count, combined, rank->rank, "AllReduce in place");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    send = device_elements(type, count, mine, rank->rank);
    recv = device_elements(type, count, untouched, rank->rank);
    CHECK_OK(HcclReduce(send, recv, count, type, op, now.root, rank->comm, rank->stream));
    CHECK_OK(HcclReduce(send, send, count, type, op, now.root, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    if (rank->rank == now.root) {
        elements_are(recv, type, count, combined, rank->rank, "Reduce");
        elements_are(send, type, count, combined, rank->rank, "Reduce in place");
    } else {
        elements_are(send, type, count, mine, rank->rank, "Reduce off the root");
    }
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    send = device_elements(type, all, mine, rank->rank);
    recv = device_elements(type, count, untouched, rank->rank);
    char *place = (char *)send + rank->rank * count * each;
    CHECK_OK(HcclReduceScatter(send, recv, count, type, op, rank->comm, rank->stream));
    CHECK_OK(HcclReduceScatter(send, place, count, type, op, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, count, my_part_combined, rank->rank, "ReduceScatter");
    elements_are(place, type, count, my_part_combined, rank->rank, "ReduceScatter in place");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));
}

/* Parts of different sizes with a gap before each. */
static __thread uint64_t gap_counts[MAX_RANKS], gap_places[MAX_RANKS];

static int part_with_gaps_combined(uint32_t rank, size_t i) { return combined(rank, gap_places[rank] + i); }

static void reduces_parts(Rank *rank, HcclDataType type, HcclReduceOp op, size_t count)
{
    now.op = op;
    now.count = count;
    now.shift = has_sign(type) ? 3 : 0;
    size_t all = 0;
    for (uint32_t r = 0; r < now.size; r++) {
        gap_counts[r] = between(0, r);
        gap_places[r] = all + 2;
        all = gap_places[r] + gap_counts[r];
    }
    size_t part = gap_counts[rank->rank];
    void *send = device_elements(type, all, mine, rank->rank);
    void *recv = device_elements(type, part, untouched, rank->rank);
    CHECK_OK(HcclReduceScatterV(send, gap_counts, gap_places, recv, part, type, op, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, part, part_with_gaps_combined, rank->rank, "ReduceScatterV");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));
}

static int gathered_with_gaps(uint32_t rank, size_t i)
{
    (void)rank;
    for (uint32_t r = 0; r < now.size; r++)
        if (i >= gap_places[r] && i < gap_places[r] + gap_counts[r])
            return mine(r, i - gap_places[r]);
    return UNTOUCHED;
}

static void moves_to_all(Rank *rank, HcclDataType type, size_t count)
{
    now.count = count;
    now.shift = 0;
    now.root = (uint32_t)((count + 1) % now.size);
    size_t each = type_bytes(type), all = count * now.size;

    void *send = device_elements(type, count, mine, rank->rank);
    void *recv = device_elements(type, all, untouched, rank->rank);
    CHECK_OK(HcclAllGather(send, recv, count, type, rank->comm, rank->stream));
    CHECK_OK(HcclBroadcast(send, count, type, now.root, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, all, gathered, rank->rank, "AllGather");
    elements_are(send, type, count, of_root, rank->rank, "Broadcast");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    recv = device_elements(type, all, mine, rank->rank);
    char *place = (char *)recv + rank->rank * count * each;
    send = device_elements(type, count, mine, rank->rank);
    CHECK_OK(aclrtMemcpy(place, count * each, send, count * each, ACL_MEMCPY_DEVICE_TO_DEVICE));
    CHECK_OK(HcclAllGather(place, recv, count, type, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, all, gathered, rank->rank, "AllGather in place");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    send = rank->rank == now.root ? device_elements(type, all, mine, rank->rank) : NULL;
    recv = device_elements(type, count, untouched, rank->rank);
    CHECK_OK(HcclScatter(send, recv, count, type, now.root, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, count, part_of_root, rank->rank, "Scatter");
    if (send)
        CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    size_t end = 0;
    for (uint32_t r = 0; r < now.size; r++) {
        gap_counts[r] = between(r, 0);
        gap_places[r] = end + 3;
        end = gap_places[r] + gap_counts[r];
    }
    send = device_elements(type, gap_counts[rank->rank], mine, rank->rank);
    recv = device_elements(type, end, untouched, rank->rank);
    CHECK_OK(HcclAllGatherV(
        send, gap_counts[rank->rank], recv, gap_counts, gap_places, type, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, end, gathered_with_gaps, rank->rank, "AllGatherV");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));
}

/* Where a rank puts what it has for others, and what it gets. */
static __thread uint64_t out_counts[MAX_RANKS], out_places[MAX_RANKS], in_counts[MAX_RANKS], in_places[MAX_RANKS];

static uint64_t out_place(uint32_t from, uint32_t to, uint64_t gap)
{
    uint64_t place = gap;
    for (uint32_t r = 0; r < to; r++)
        place += between(from, r) + gap;
    return place;
}

static int received(uint32_t rank, size_t i, uint64_t gap)
{
    for (uint32_t r = 0; r < now.size; r++)
        if (i >= in_places[r] && i < in_places[r] + in_counts[r])
            return mine(r, out_place(r, rank, gap) + i - in_places[r]);
    return UNTOUCHED;
}

static int received_with_gaps(uint32_t rank, size_t i) { return received(rank, i, 1); }
static int received_packed(uint32_t rank, size_t i) { return received(rank, i, 0); }

static void exchanges(Rank *rank, HcclDataType type, size_t count)
{
    now.count = count;
    now.shift = 0;
    size_t all = count * now.size;
    void *send = device_elements(type, all, mine, rank->rank);
    void *recv = device_elements(type, all, untouched, rank->rank);
    CHECK_OK(HcclAlltoAll(send, count, type, recv, count, type, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(recv, type, all, exchanged, rank->rank, "AlltoAll");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(recv));

    uint64_t matrix[MAX_RANKS * MAX_RANKS];
    for (uint32_t gap = 0; gap < 2; gap++) {
        uint64_t in_end = gap;
        for (uint32_t r = 0; r < now.size; r++) {
            out_counts[r] = between(rank->rank, r);
            out_places[r] = out_place(rank->rank, r, gap);
            in_counts[r] = between(r, rank->rank);
            in_places[r] = in_end;
            in_end += in_counts[r] + gap;
            for (uint32_t to = 0; to < now.size; to++)
                matrix[r * now.size + to] = between(r, to);
        }
        send = device_elements(type, out_place(rank->rank, now.size, gap), mine, rank->rank);
        recv = device_elements(type, in_end, untouched, rank->rank);
        if (gap)
            CHECK_OK(HcclAlltoAllV(
                send, out_counts, out_places, type, recv, in_counts, in_places, type, rank->comm, rank->stream));
        else
            CHECK_OK(HcclAlltoAllVC(send, matrix, type, recv, type, rank->comm, rank->stream));
        CHECK_OK(aclrtSynchronizeStream(rank->stream));
        elements_are(
            recv, type, in_end, gap ? received_with_gaps : received_packed, rank->rank,
            gap ? "AlltoAllV" : "AlltoAllVC");
        CHECK_OK(aclrtFree(send));
        CHECK_OK(aclrtFree(recv));
    }
}

static int of_left(uint32_t rank, size_t i) { return mine((rank + now.size - 1) % now.size, i); }
static int of_right(uint32_t rank, size_t i) { return mine((rank + 1) % now.size, i); }

static void sends(Rank *rank, HcclDataType type, size_t count)
{
    now.count = count;
    now.shift = 0;
    uint32_t right = (rank->rank + 1) % now.size, left = (rank->rank + now.size - 1) % now.size;
    void *send = device_elements(type, count, mine, rank->rank);
    void *from_left = device_elements(type, count, untouched, rank->rank);
    void *from_right = device_elements(type, count, untouched, rank->rank);
    /* Around the ring: odd ranks receive first. */
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (rank->rank % 2 == turn)
            CHECK_OK(HcclSend(send, count, type, right, rank->comm, rank->stream));
        else
            CHECK_OK(HcclRecv(from_left, count, type, left, rank->comm, rank->stream));
    }
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(from_left, type, count, of_left, rank->rank, "Send and Recv");
    HcclSendRecvItem items[4] = {
        {HCCL_SEND, send, count, type, left},
        {HCCL_SEND, send, count, type, right},
        {HCCL_RECV, from_right, count, type, right},
        {HCCL_RECV, from_left, count, type, left}};
    CHECK_OK(aclrtMemset(from_left, count * type_bytes(type), 0, count * type_bytes(type)));
    CHECK_OK(HcclBatchSendRecv(items, now.size == 2 ? 0 : 4, rank->comm, rank->stream));
    /* With two ranks, left and right are the same: one message each way. */
    if (now.size == 2) {
        items[1] = items[3];
        CHECK_OK(HcclBatchSendRecv(items, 2, rank->comm, rank->stream));
    }
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(from_left, type, count, of_left, rank->rank, "BatchSendRecv");
    if (now.size > 2)
        elements_are(from_right, type, count, of_right, rank->rank, "BatchSendRecv");
    CHECK_OK(aclrtFree(send));
    CHECK_OK(aclrtFree(from_left));
    CHECK_OK(aclrtFree(from_right));
}

/* An operator with nothing to do takes no part, whatever its pointers are. */
static void nothing(Rank *rank)
{
    uint64_t zeros[MAX_RANKS * MAX_RANKS] = {0};
    HcclDataType type = HCCL_DATA_TYPE_FP32;
    CHECK_OK(HcclAllReduce(NULL, NULL, 0, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(HcclReduce(NULL, NULL, 0, type, HCCL_REDUCE_SUM, 0, rank->comm, rank->stream));
    CHECK_OK(HcclReduceScatter(NULL, NULL, 0, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(HcclAllGather(NULL, NULL, 0, type, rank->comm, rank->stream));
    CHECK_OK(HcclBroadcast(NULL, 0, type, 0, rank->comm, rank->stream));
    CHECK_OK(HcclScatter(NULL, NULL, 0, type, 0, rank->comm, rank->stream));
    CHECK_OK(HcclAlltoAll(NULL, 0, type, NULL, 0, type, rank->comm, rank->stream));
    CHECK_OK(HcclSend(NULL, 0, type, 0, rank->comm, rank->stream));
    CHECK_OK(HcclRecv(NULL, 0, type, 0, rank->comm, rank->stream));
    CHECK_OK(HcclBatchSendRecv(NULL, 0, rank->comm, rank->stream));
    CHECK_OK(HcclAlltoAllV(NULL, zeros, zeros, type, NULL, zeros, zeros, type, rank->comm, rank->stream));
    void *memory = device_bytes(64);
    void *other = device_bytes(64);
    CHECK_OK(HcclAlltoAllVC(memory, zeros, type, other, type, rank->comm, rank->stream));
    CHECK_OK(HcclAllGatherV(memory, 0, other, zeros, zeros, type, rank->comm, rank->stream));
    CHECK_OK(HcclReduceScatterV(memory, zeros, zeros, other, 0, type, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFree(other));
}

static int is_refused(HcclDataType type, HcclReduceOp op)
{
    return op == HCCL_REDUCE_PROD && (type == HCCL_DATA_TYPE_INT16 || type == HCCL_DATA_TYPE_BFP16);
}

static void every_operator(Rank *rank)
{
    now.size = rank->size;
    for (int t = 0; t < NUMBERS; t++)
        for (int op = 0; op < 4; op++)
            if (!is_refused(numbers[t], (HcclReduceOp)op)) {
                reduces(rank, numbers[t], (HcclReduceOp)op, op % 2 ? ODD : 1);
                if (op != HCCL_REDUCE_PROD)
                    reduces_parts(rank, numbers[t], (HcclReduceOp)op, ODD);
            }
    for (int type = 0; type <= HCCL_DATA_TYPE_FP8E8M0; type++) {
        if (type_bytes((HcclDataType)type) == 0)
            continue;
        moves_to_all(rank, (HcclDataType)type, ODD);
        exchanges(rank, (HcclDataType)type, ODD);
        sends(rank, (HcclDataType)type, ODD);
    }
    nothing(rank);
    CHECK_OK(HcclBarrier(rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
}

static void large(Rank *rank)
{
    now.size = rank->size;
    reduces(rank, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, LARGE);
    reduces(rank, HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_MAX, LARGE);
    reduces_parts(rank, HCCL_DATA_TYPE_FP16, HCCL_REDUCE_SUM, LARGE / 4);
    moves_to_all(rank, HCCL_DATA_TYPE_INT32, LARGE);
    exchanges(rank, HCCL_DATA_TYPE_INT32, LARGE / 8);
    sends(rank, HCCL_DATA_TYPE_INT64, LARGE);
}

/* Many operators on the stream before anything is waited for. */
static int doubled(uint32_t rank, size_t i)
{
    (void)rank;
    (void)i;
    return 64;
}

static int one(uint32_t rank, size_t i)
{
    (void)rank;
    (void)i;
    return 1;
}

static void in_flight(Rank *rank)
{
    void *buffer = device_elements(HCCL_DATA_TYPE_INT32, ODD, one, rank->rank);
    int steps = rank->size == 2 ? 6 : rank->size == 4 ? 3 : 2;
    for (int i = 0; i < steps; i++)
        CHECK_OK(HcclAllReduce(
            buffer, buffer, ODD, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
    elements_are(buffer, HCCL_DATA_TYPE_INT32, ODD, doubled, rank->rank, "AllReduce after AllReduce");
    CHECK_OK(aclrtFree(buffer));
}

static void alone(Rank *rank)
{
    now.size = 1;
    reduces(rank, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, ODD);
    moves_to_all(rank, HCCL_DATA_TYPE_FP16, ODD);
    exchanges(rank, HCCL_DATA_TYPE_INT8, ODD);
    nothing(rank);
    CHECK_OK(HcclBarrier(rank->comm, rank->stream));
    CHECK_OK(aclrtSynchronizeStream(rank->stream));
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    GROUP("hccl_2 one rank");
    ranks_run(1, NULL, alone, NULL);
    GROUP("hccl_2 every operator and type on 2 ranks");
    ranks_run(2, NULL, every_operator, NULL);
    GROUP("hccl_2 every operator and type on 4 ranks");
    ranks_run(4, NULL, every_operator, NULL);
    GROUP("hccl_2 every operator and type on 8 ranks");
    ranks_run(8, NULL, every_operator, NULL);
    GROUP("hccl_2 large counts");
    ranks_run(2, NULL, large, NULL);
    ranks_run(4, NULL, large, NULL);
    GROUP("hccl_2 operators run in the order of their stream");
    ranks_run(2, NULL, in_flight, NULL);
    ranks_run(4, NULL, in_flight, NULL);
    ranks_run(8, NULL, in_flight, NULL);
    CHECK_OK(aclFinalize());
    return END();
}
