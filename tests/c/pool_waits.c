// links: -lcairn_pool
// env: CAIRN_DEVICE_MEMORY=64mib CAIRN_POOL_WAIT_MS=20
// env: CAIRN_DEVICE_MEMORY=64mib CAIRN_POOL_WAIT_MS=60000
/* A request that only freed memory of a busy stream can serve waits for that stream, but not for ever. */
#include "gate.h"
#include "cairn/pool.h"

#define MIB ((size_t)1 << 20)

static Gate gate = GATE_CLOSED, second_gate = GATE_CLOSED;
static Gate *closed = &gate;

static uint64_t failed(void)
{
    cairnPoolFigures figures;
    CHECK_EQ(cairn_pool_figures(0, &figures), 0);
    return figures.failed;
}

static void open_when_refused(void *before)
{
    CHECK_OK(aclrtSetDevice(0));
    SPIN_UNTIL(failed() > *(uint64_t *)before);
    gate_open(closed);
}

int main(void)
{
    int has_time = strcmp(getenv("CAIRN_POOL_WAIT_MS"), "20") != 0;
    aclrtStream a, b;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));
    void *first = cairn_pool_malloc(40 * MIB, 0, a);
    CHECK(first != NULL);
    gate_put(&gate, a);
    CHECK_EQ(cairn_pool_free(first, 0, a), 0);

    if (has_time) {
        GROUP("pool wait: as soon as the stream has finished, there is memory");
        uint64_t before = failed();
        pthread_t opener = start_thread(open_when_refused, &before);
        CHECK(cairn_pool_malloc(40 * MIB, 0, b) == first);
        join_thread(opener);

        GROUP("pool wait: also while other memory waits for torch's queue");
        void *queued = cairn_malloc(8 * MIB, 0, a);
        CHECK(queued != NULL);
        cairn_free(queued, 8 * MIB, 0, a);
        closed = &second_gate;
        gate_put(closed, b);
        CHECK_EQ(cairn_pool_free(first, 0, b), 0);
        before = failed();
        opener = start_thread(open_when_refused, &before);
        CHECK(cairn_pool_malloc(40 * MIB, 0, a) == first);
        gate_open(closed);
        join_thread(opener);
        CHECK_EQ(cairn_pool_free(first, 0, a), 0);
    } else {
        GROUP("pool wait: a stream that stays blocked is an error");
        CHECK(cairn_pool_malloc(40 * MIB, 0, b) == NULL);
        const char *text = cairn_pool_last_error();
        CHECK(text && strstr(text, "what was freed waits for streams"));
        CHECK(text && strstr(text, "synchronize the streams"));
        CHECK(text && strstr(text, "largest hole 40 MiB, which this stream may not have yet"));

        GROUP("pool wait: no request waits for torch's queue");
        gate_open(&gate);
        CHECK_OK(aclrtSynchronizeStream(a));
        first = cairn_malloc(40 * MIB, 0, a);
        CHECK(first != NULL);
        cairn_free(first, 40 * MIB, 0, a);
        CHECK(cairn_malloc(40 * MIB, 0, b) == NULL);
        CHECK_EQ(cairn_pool_synchronized(0), 0);
        first = cairn_malloc(40 * MIB, 0, b);
        CHECK(first != NULL);
    }
    return END();
}
