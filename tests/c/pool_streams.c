// links: -lcairn_pool
// env: TASK_QUEUE_ENABLE=0
// env: TASK_QUEUE_ENABLE=1
// env: TASK_QUEUE_ENABLE=2
// env: ASCEND_LAUNCH_BLOCKING=1
/* When a block that was freed on one stream may be used on another. */
#include "gate.h"
#include "cairn/pool.h"

/* A block that fills a piece of ACL's memory, so that two blocks never lie in one. */
#define PIECE ((size_t)8 << 20)
#define SIZE (PIECE - 4096)

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

static void empty(void)
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

static void direct(void)
{
    GROUP("pool direct: a free on a busy stream is no memory for another, until an event says so");
    void *first = cairn_pool_malloc(SIZE, 0, a);
    CHECK(first != NULL);
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    CHECK_EQ(waiting(), SIZE);
    void *second = cairn_pool_malloc(SIZE, 0, b);
    CHECK(second != NULL && second != first);
    uint64_t both = reserved();
    void *own = cairn_pool_malloc(SIZE, 0, a);
    CHECK(own == first);
    CHECK_EQ(cairn_pool_free(own, 0, a), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    void *third = cairn_pool_malloc(SIZE, 0, b);
    CHECK(third == first);
    CHECK_EQ(reserved(), both);
    CHECK_EQ(cairn_pool_free(second, 0, b), 0);
    CHECK_EQ(cairn_pool_free(third, 0, b), 0);
    empty();

    GROUP("pool direct: a free on an idle stream is memory for another at once");
    first = cairn_pool_malloc(SIZE, 0, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    void *probe = cairn_pool_malloc(SIZE, 0, b);
    void *next = cairn_pool_malloc(SIZE, 0, b);
    CHECK(probe == first || next == first);
    CHECK_EQ(cairn_pool_free(probe, 0, b), 0);
    CHECK_EQ(cairn_pool_free(next, 0, b), 0);
    empty();
}

static void recorded(void)
{
    GROUP("pool direct: a recorded stream holds the block up, for its own stream too");
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
    empty();

    GROUP("pool direct: freed on another stream than its own, both are waited for");
    first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&gate, b);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);
    second = cairn_pool_malloc(SIZE, 0, a);
    CHECK(second != NULL && second != first);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(cairn_pool_trim(0, 0) >= SIZE);
    CHECK_EQ(cairn_pool_free(second, 0, a), 0);
    empty();
}

static void torch(void)
{
    GROUP("pool for torch: its own stream has a block back at once, whatever it does");
    void *first = cairn_malloc(SIZE, 0, a);
    gate_put(&gate, a);
    cairn_free(first, SIZE, 0, a);
    void *second = cairn_malloc(SIZE, 0, a);
    CHECK(second == first);
    cairn_free(second, SIZE, 0, a);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));

    GROUP("pool for torch: another stream, and trim, by events only without a queue");
    second = cairn_malloc(SIZE, 0, b);
    void *more = cairn_malloc(SIZE, 0, b);
    CHECK_EQ(second == first || more == first, queue_is_off());
    cairn_free(second, SIZE, 0, b);
    cairn_free(more, SIZE, 0, b);
    uint64_t before = reserved();
    CHECK_EQ(cairn_pool_trim(0, 0), queue_is_off() ? before : 0);

    GROUP("pool for torch: after cairn_pool_synchronized whatever was freed before is for all");
    empty();
    first = cairn_malloc(SIZE, 0, a);
    cairn_free(first, SIZE, 0, a);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(waiting(), 0);
    uint64_t before_b = reserved();
    CHECK(cairn_malloc(SIZE, 0, b) == first);
    CHECK_EQ(reserved(), before_b);
    cairn_free(first, SIZE, 0, b);
    empty();

    GROUP("pool for torch: a recorded stream needs the same proof");
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
    uint64_t all = reserved(), given = cairn_pool_trim(0, 0);
    CHECK_EQ(given, queue_is_off() ? all : 0);
    CHECK_EQ(cairn_pool_synchronized(0), 0);
    CHECK_EQ(cairn_pool_trim(0, 0), all - given);
}

static void both_doors(void)
{
    GROUP("pool doors on one stream: after its last task a block may pass into the queue");
    void *first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    CHECK(cairn_malloc(SIZE, 0, a) == first);

    GROUP("pool doors on one stream: out of the queue it may not");
    cairn_free(first, SIZE, 0, a);
    void *second = cairn_pool_malloc(SIZE, 0, a);
    CHECK_EQ(second == first, queue_is_off());
    gate_open(&gate);
    CHECK_EQ(cairn_pool_free(second, 0, a), 0);
    empty();
}

static void gone(void)
{
    GROUP("pool streams: what a destroyed stream freed is for all, and its handle is another stream");
    aclrtStream old;
    CHECK_OK(aclrtCreateStream(&old));
    void *first = cairn_pool_malloc(SIZE, 0, old), *kept = cairn_pool_malloc(SIZE, 0, old);
    gate_put(&gate, old);
    CHECK_EQ(cairn_pool_free(first, 0, old), 0);
    gate_open(&gate);
    CHECK_OK(aclrtDestroyStream(old));
    CHECK(cairn_pool_malloc(SIZE, 0, b) == first);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);

    GROUP("pool streams: a block may outlive its stream");
    CHECK_EQ(cairn_pool_free(kept, 0, old), 0);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK(cairn_pool_malloc(SIZE, 0, b) != NULL && cairn_pool_malloc(SIZE, 0, b) != NULL);
    CHECK(reserved() <= 2 * PIECE);
    CHECK_EQ(cairn_pool_free(first, 0, b), 0);
    CHECK_EQ(cairn_pool_free(kept, 0, b), 0);
    empty();

    GROUP("pool for torch: a block that outlives its stream waits for the queue");
    CHECK_OK(aclrtCreateStream(&old));
    first = cairn_malloc(SIZE, 0, old);
    CHECK_OK(aclrtDestroyStream(old));
    cairn_free(first, SIZE, 0, old);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(waiting(), queue_is_off() ? 0 : SIZE);
    empty();

    GROUP("pool streams: more come and go than there are places");
    for (int i = 0; i < 5000; i++) {
        aclrtStream stream;
        CHECK_OK(aclrtCreateStream(&stream));
        void *block = cairn_pool_malloc(SIZE, 0, stream);
        if (!CHECK(block != NULL))
            break;
        CHECK_EQ(cairn_pool_free(block, 0, stream), 0);
        CHECK_OK(aclrtDestroyStream(stream));
    }
    CHECK(reserved() <= PIECE);
    empty();

    GROUP("pool streams: one that is destroyed by force is proven by a synchronize at the latest");
    CHECK_OK(aclrtCreateStream(&old));
    first = cairn_pool_malloc(SIZE, 0, old);
    gate_put(&gate, old);
    CHECK_EQ(cairn_pool_free(first, 0, old), 0);
    CHECK_OK(aclrtDestroyStreamForce(old));
    CHECK_EQ(cairn_pool_trim(0, 0), 0);
    gate_open(&gate);
    empty();

    GROUP("pool streams: a free on one that took nothing is as good as any, if it is known to live");
    static Gate late_gate = GATE_CLOSED;
    aclrtStream late;
    CHECK_OK(aclrtCreateStream(&late));
    first = cairn_pool_malloc(SIZE, 0, a);
    gate_put(&late_gate, late);
    CHECK_EQ(cairn_pool_free(first, 0, late), 0);
    CHECK(cairn_pool_last_error() == NULL);
    void *next = cairn_pool_malloc(SIZE, 0, a);
    CHECK(next && next != first);
    gate_open(&late_gate);
    CHECK_OK(aclrtSynchronizeStream(late));
    CHECK(cairn_pool_malloc(SIZE, 0, b) == first);
    CHECK_OK(aclrtDestroyStream(late));
    CHECK_EQ(cairn_pool_free(first, 0, late), -1);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK_EQ(cairn_pool_free(next, 0, NULL), 0);
    CHECK(cairn_pool_last_error() == NULL);
    empty();

    GROUP("pool streams: NULL is the default stream");
    aclrtStream standard;
    CHECK_OK(aclrtCtxGetCurrentDefaultStream(&standard));
    first = cairn_pool_malloc(SIZE, 0, NULL);
    CHECK_EQ(cairn_pool_free(first, 0, standard), 0);
    CHECK(cairn_pool_malloc(SIZE, 0, standard) == first);
    CHECK_EQ(cairn_pool_free(first, 0, NULL), 0);
    first = cairn_malloc(SIZE, 0, NULL);
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_stream_figures(0, standard, &figures), 0);
    CHECK_EQ(figures.blocks, 1);
    cairn_free(first, SIZE, 0, NULL);
    CHECK_EQ(cairn_pool_stream_figures(0, NULL, &figures), 0);
    CHECK_EQ(figures.blocks, 0);
    empty();
}

int main(void)
{
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    direct();
    recorded();
    torch();
    both_doors();
    gone();
    return END();
}
