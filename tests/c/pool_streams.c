// links: -lcairn_pool
// env: CAIRN_POOL_VMM=0 TASK_QUEUE_ENABLE=0
// env: CAIRN_POOL_VMM=0 TASK_QUEUE_ENABLE=1
// env: CAIRN_POOL_VMM=0 TASK_QUEUE_ENABLE=2
// env: CAIRN_POOL_VMM=0 ASCEND_LAUNCH_BLOCKING=1
/* When a block that was freed on one stream may be used on another; on segments, so that a trim gives back single blocks. */
#include "gate.h"
#include "cairn/pool.h"

/* A block that fills a segment of the pool, so that no segment has two blocks. */
#define SEGMENT ((size_t)8 << 20)
#define SIZE (SEGMENT - 4096)

static Gate gate = GATE_CLOSED;
static aclrtStream a, b;

static uint64_t reserved(void)
{
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    return figures.reserved;
}

static uint64_t waiting(void)
{
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    return figures.waiting;
}

static void empty_pool(void)
{
    CHECK_OK(aclrtSynchronizeDevice());
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    cairn_pool_empty_cache(true);
    CHECK_EQ(reserved(), 0);
}

static int queue_is_off(void)
{
    const char *queue = getenv("TASK_QUEUE_ENABLE"), *blocking = getenv("ASCEND_LAUNCH_BLOCKING");
    return (queue && strcmp(queue, "0") == 0) || (blocking && strcmp(blocking, "1") == 0);
}

static void by_events(void)
{
    GROUP("pool direct: memory freed on a busy stream is not for another stream, until an event proves its work finished");
    void *first = cairn_pool_malloc(SIZE, 0, a);
    CHECK(first != NULL);
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    CHECK_EQ(waiting(), SIZE);
    void *second = cairn_pool_malloc(SIZE, 0, b);
    CHECK(second != NULL && second != first);
    uint64_t reserved_for_two = reserved();
    void *again = cairn_pool_malloc(SIZE, 0, a);
    CHECK(again == first);
    CHECK_EQ(cairn_pool_free(again, 0, a), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    void *third = cairn_pool_malloc(SIZE, 0, b);
    CHECK(third == first);
    CHECK_EQ(reserved(), reserved_for_two);
    CHECK_EQ(cairn_pool_free(second, 0, b), 0);
    CHECK_EQ(cairn_pool_free(third, 0, b), 0);
    empty_pool();

    GROUP("pool direct: memory freed on an idle stream is for another stream at once");
    first = cairn_pool_malloc(SIZE, 0, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    void *probe = cairn_pool_malloc(SIZE, 0, b);
    void *next = cairn_pool_malloc(SIZE, 0, b);
    CHECK(probe == first || next == first);
    CHECK_EQ(cairn_pool_free(probe, 0, b), 0);
    CHECK_EQ(cairn_pool_free(next, 0, b), 0);
    empty_pool();
}

static void recorded(void)
{
    GROUP("pool direct: a recorded stream keeps the block from every stream, its own too");
    void *first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&gate, b);
    CHECK_EQ(cairn_pool_record_stream(first, b), 0);
    CHECK_EQ(cairn_pool_record_stream(first, b), 0);
    CHECK_EQ(cairn_pool_record_stream(first, a), 0);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    CHECK_EQ(waiting(), SIZE);
    void *second = cairn_pool_malloc(SIZE, 0, a);
    CHECK(second != NULL && second != first);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(cairn_pool_trim(0, 0) >= SIZE);
    CHECK_EQ(cairn_pool_free(second, 0, a), 0);
    empty_pool();

    GROUP("pool direct: a block freed on another stream than its own waits for both");
    first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&gate, b);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);
    second = cairn_pool_malloc(SIZE, 0, a);
    CHECK(second != NULL && second != first);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(cairn_pool_trim(0, 0) >= SIZE);
    CHECK_EQ(cairn_pool_free(second, 0, a), 0);
    empty_pool();
}

static void through_torch(void)
{
    GROUP("pool for torch: its own stream gets a freed block at once, busy or not");
    void *first = cairn_malloc(SIZE, 0, a);
    gate_put(&gate, a);
    cairn_free(first, SIZE, 0, a);
    void *second = cairn_malloc(SIZE, 0, a);
    CHECK(second == first);
    cairn_free(second, SIZE, 0, a);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));

    GROUP("pool for torch: other streams, and trim, get it by events only if torch's queue is off");
    second = cairn_malloc(SIZE, 0, b);
    void *more = cairn_malloc(SIZE, 0, b);
    CHECK_EQ(second == first || more == first, queue_is_off());
    cairn_free(second, SIZE, 0, b);
    cairn_free(more, SIZE, 0, b);
    uint64_t before = reserved();
    CHECK_EQ(cairn_pool_trim(0, 0), queue_is_off() ? before : 0);

    GROUP("pool for torch: after cairn_pool_synchronized memory freed before is for all streams");
    empty_pool();
    first = cairn_malloc(SIZE, 0, a);
    cairn_free(first, SIZE, 0, a);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(waiting(), 0);
    uint64_t before_b = reserved();
    CHECK(cairn_malloc(SIZE, 0, b) == first);
    CHECK_EQ(reserved(), before_b);
    cairn_free(first, SIZE, 0, b);
    empty_pool();

    GROUP("pool for torch: a recorded stream has to be proved finished too");
    first = cairn_malloc(SIZE, 0, a);
    CHECK_EQ(cairn_pool_record_stream(first, b), 0);
    gate_put(&gate, b);
    cairn_free(first, SIZE, 0, a);
    second = cairn_malloc(SIZE, 0, a);
    CHECK(second != first);
    cairn_free(second, SIZE, 0, a);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    second = cairn_malloc(SIZE, 0, a);
    void *third = cairn_malloc(SIZE, 0, a);
    CHECK_EQ(second == first || third == first, queue_is_off());
    cairn_free(second, SIZE, 0, a);
    cairn_free(third, SIZE, 0, a);
    uint64_t all = reserved(), trimmed = cairn_pool_trim(0, 0);
    CHECK_EQ(trimmed, queue_is_off() ? all : 0);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), all - trimmed);
}

static void torch_and_direct(void)
{
    GROUP("pool, both interfaces on one stream: a block freed directly may be allocated for torch");
    void *first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    CHECK(cairn_malloc(SIZE, 0, a) == first);

    GROUP("pool, both interfaces on one stream: one freed by torch is not for direct use while torch's queue is on");
    cairn_free(first, SIZE, 0, a);
    void *second = cairn_pool_malloc(SIZE, 0, a);
    CHECK_EQ(second == first, queue_is_off());
    gate_open(&gate);
    CHECK_EQ(cairn_pool_free(second, 0, a), 0);
    empty_pool();
}

static void destroyed_streams(void)
{
    GROUP("pool streams: memory freed on a destroyed stream is for all, and its handle counts as a new stream");
    aclrtStream old;
    CHECK_OK(aclrtCreateStream(&old));
    void *first = cairn_pool_malloc(SIZE, 0, old), *second_block = cairn_pool_malloc(SIZE, 0, old);
    gate_put(&gate, old);
    CHECK_EQ(cairn_pool_free(first, 0, old), 0);
    gate_open(&gate);
    CHECK_OK(aclrtDestroyStream(old));
    CHECK(cairn_pool_malloc(SIZE, 0, b) == first);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);

    GROUP("pool streams: a block may outlive its stream");
    CHECK_EQ(cairn_pool_free(second_block, 0, old), 0);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(cairn_pool_malloc(SIZE, 0, b) != NULL && cairn_pool_malloc(SIZE, 0, b) != NULL);
    CHECK(reserved() <= 2 * SEGMENT);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);
    CHECK_EQ(cairn_pool_free(second_block, 0, b), 0);
    empty_pool();

    GROUP("pool for torch: a block that outlives its stream waits for the queue");
    CHECK_OK(aclrtCreateStream(&old));
    first = cairn_malloc(SIZE, 0, old);
    CHECK_OK(aclrtDestroyStream(old));
    cairn_free(first, SIZE, 0, old);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(waiting(), queue_is_off() ? 0 : SIZE);
    empty_pool();

    GROUP("pool streams: more streams come and go than can exist at a time");
    for (int i = 0; i < 5000; i++) {
        aclrtStream stream;
        CHECK_OK(aclrtCreateStream(&stream));
        void *block = cairn_pool_malloc(SIZE, 0, stream);
        if (!CHECK(block != NULL))
            break;
        CHECK_EQ(cairn_pool_free(block, 0, stream), 0);
        CHECK_OK(aclrtDestroyStream(stream));
    }
    CHECK(reserved() <= SEGMENT);
    empty_pool();

    GROUP("pool streams: one destroyed by force is known to have finished after a synchronize at the latest");
    CHECK_OK(aclrtCreateStream(&old));
    first = cairn_pool_malloc(SIZE, 0, old);
    gate_put(&gate, old);
    CHECK_EQ(cairn_pool_free(first, 0, old), 0);
    CHECK_OK(aclrtDestroyStreamForce(old));
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    gate_open(&gate);
    empty_pool();

    GROUP("pool streams: a free on a stream that allocated nothing works, if the stream exists");
    static Gate third_gate = GATE_CLOSED;
    aclrtStream third;
    CHECK_OK(aclrtCreateStream(&third));
    first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&third_gate, third);
    CHECK_EQ(cairn_pool_free(first, 0, third), 0);
    CHECK(cairn_pool_last_error() == NULL);
    void *next = cairn_pool_malloc(SIZE, 0, a);
    CHECK(next && next != first);
    gate_open(&third_gate);
    CHECK_OK(aclrtSynchronizeStream(third));
    CHECK(cairn_pool_malloc(SIZE, 0, b) == first);
    CHECK_OK(aclrtDestroyStream(third));
    CHECK_EQ(cairn_pool_free(first, 0, third), -1);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK_EQ(cairn_pool_free(next, 0, NULL), 0);
    CHECK(cairn_pool_last_error() == NULL);
    empty_pool();

    GROUP("pool streams: NULL is the default stream");
    aclrtStream default_stream;
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
    first = cairn_pool_malloc(SIZE, 0, NULL);
    CHECK_EQ(cairn_pool_free(first, 0, default_stream), 0);
    CHECK(cairn_pool_malloc(SIZE, 0, default_stream) == first);
    CHECK_EQ(cairn_pool_free(first, 0, NULL), 0);
    first = cairn_malloc(SIZE, 0, NULL);
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_stream_figures(0, default_stream, &figures), 0);
    CHECK_EQ(figures.blocks, 1);
    cairn_free(first, SIZE, 0, NULL);
    CHECK_EQ(cairn_pool_stream_figures(0, NULL, &figures), 0);
    CHECK_EQ(figures.blocks, 0);
    empty_pool();
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    by_events();
    recorded();
    through_torch();
    torch_and_direct();
    destroyed_streams();
    return END();
}
