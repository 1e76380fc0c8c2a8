// nolink
// links: -rdynamic -ldl
// env: CAIRN_POOL_VMM=1
// env: CAIRN_POOL_VMM=0
/* The pool over an ACL with virtual memory: one range of addresses, pages mapped and unmapped. */
#define FAKE_FULL
#include "pool_fake_acl.h"

static FakeStream a, b;

static int memory_is(const char *kind)
{
    char text[4096], expected[64];
    CHECK(pool.json(0, text, sizeof text) > 0);
    snprintf(expected, sizeof expected, "\"memory\":\"%s\"", kind);
    return strstr(text, expected) != NULL;
}

static void growth(void)
{
    GROUP("pool mapped: blocks follow each other, pages are mapped as they are needed");
    char *first = pool.malloc(3 * MIB, 0, &a);
    CHECK(first == fake.reserved[0]);
    CHECK_EQ(fake.mapped, 4 * MIB);
    CHECK(memory_is("mapped"));
    char *second = pool.malloc(5 * MIB, 0, &a);
    CHECK(second == first + 3 * MIB);
    CHECK_EQ(fake.mapped, 8 * MIB);
    CHECK_EQ(pool_figures(0).reserved, 8 * MIB);
    CHECK_EQ(fake.largest_handle, PAGE);
    CHECK_EQ(fake.mallocs, 0);

    GROUP("pool mapped: large requests in large pages");
    char *third = pool.malloc(100 * MIB, 0, &a);
    CHECK(third == second + 5 * MIB);
    CHECK_EQ(fake.mapped, 108 * MIB);
    CHECK_EQ(fake.largest_handle, 16 * MIB);
    CHECK_EQ(fake.handles, 4 + 7);

    GROUP("pool mapped: trim unmaps the pages that are wholly free");
    CHECK_EQ(pool.free(second, 0, &a), 0);
    CHECK_EQ(pool.trim(0, 0), 4 * MIB);
    CHECK_EQ(fake.mapped, 104 * MIB);
    CHECK_EQ(pool_figures(0).reserved, 104 * MIB);
    CHECK_EQ(pool.free(third, 0, &a), 0);
    CHECK_EQ(pool.trim(0, 40 * MIB), 3 * 16 * MIB + 4 * MIB);
    CHECK_EQ(pool.free(first, 0, &a), 0);
    CHECK_EQ(pool.trim(0, 0), 3 * 16 * MIB + 4 * MIB);
    CHECK(fake.mapped == 0 && fake.handles == 0 && fake.used == 0);
    CHECK_EQ(pool_figures(0).reserved, 0);
    /* Addresses that were unmapped do not come again while there are others. */
    char *again = pool.malloc(MIB, 0, &a);
    CHECK(again == third + 100 * MIB);
    CHECK_EQ(pool.free(again, 0, &a), 0);
    pool.trim(0, 0);
}

static void failures(void)
{
    GROUP("pool mapped: a failure half way leaks nothing");
    fake.fail_physical_in = 3;
    fake.fail_again = 1;
    CHECK(pool.malloc(10 * MIB, 0, &a) == NULL);
    CHECK(pool_error_has("aclrtMallocPhysical of 2097152 bytes returned 207001"));
    CHECK(strstr(fake.log, "cairn_pool_malloc: no memory on device 0 for 10 MiB") != NULL);
    CHECK(fake.mapped == 0 && fake.handles == 0 && fake.used == 0);
    fake.fail_map_in = 2;
    fake.fail_again = 1;
    CHECK(pool.malloc(10 * MIB, 0, &a) == NULL);
    CHECK(pool_error_has("aclrtMapMem"));
    CHECK(fake.mapped == 0 && fake.handles == 0 && fake.used == 0);
    char *block = pool.malloc(10 * MIB, 0, &a);
    CHECK(block != NULL);
    CHECK(pool.malloc(CAPACITY, 0, &a) == NULL);
    CHECK(pool_error_has("capacity 256 MiB, of which 246 MiB free, no budget"));
    CHECK_EQ(fake.mapped, 10 * MIB);

    GROUP("pool mapped: a budget counts in pages");
    CHECK_EQ(pool.set_fraction(0.125, 0), 0);
    char *more = pool.malloc(22 * MIB, 0, &a);
    CHECK(more != NULL);
    CHECK(pool.malloc(512, 0, &a) == NULL);
    CHECK_EQ(fake.mapped, 32 * MIB);
    CHECK_EQ(pool.set_fraction(1, 0), 0);
    CHECK_EQ(pool.free(block, 0, &a), 0);
    CHECK_EQ(pool.free(more, 0, &a), 0);
    CHECK_EQ(pool.trim(0, 0), 32 * MIB);
}

static void streams(void)
{
    GROUP("pool mapped: one event at a time proves that a busy stream is past its frees");
    char *first = pool.malloc(8 * MIB, 0, &a);
    a.busy = 1;
    int records = fake.records;
    CHECK_EQ(pool.free(first, 0, &a), 0);
    CHECK_EQ(fake.records, records);
    char *second = pool.malloc(8 * MIB, 0, &b);
    CHECK(second && second != first);
    CHECK_EQ(fake.records, records + 1);
    char *third = pool.malloc(8 * MIB, 0, &b);
    CHECK(third && third != first);
    CHECK_EQ(fake.records, records + 1);
    a.busy = 0;
    CHECK(pool.malloc(8 * MIB, 0, &b) == first);
    CHECK_EQ(fake.mapped, 24 * MIB);
    CHECK_EQ(pool.free(first, 0, &b), 0);
    CHECK_EQ(pool.free(second, 0, &b), 0);
    CHECK_EQ(pool.free(third, 0, &b), 0);

    GROUP("pool mapped: nothing is recorded on a stream in capture");
    b.capturing = 1;
    CHECK_EQ(pool.trim(0, 0), 0);
    CHECK(pool.malloc(8 * MIB, 0, &b) != NULL);
    CHECK_EQ(pool_figures(0).blocks, 1);
    FakeStream fresh = {0, 1};
    char *captured = pool.malloc(8 * MIB, 0, &fresh);
    CHECK(captured != NULL);
    CHECK_EQ(pool.free(captured, 0, &fresh), 0);
    b.capturing = 0;
    CHECK_EQ(pool.trim(0, 0), 16 * MIB);
    fresh.capturing = 0;
    CHECK_EQ(pool.trim(0, 0), 8 * MIB);

    GROUP("pool mapped: an ACL that cannot say whether a stream is captured captures none");
    char *probe = pool.malloc(8 * MIB, 0, &b);
    CHECK_EQ(pool.free(probe, 0, &b), 0);
    fake.no_captures = 1;
    CHECK_EQ(pool.trim(0, 0), 8 * MIB);

    GROUP("pool mapped: a request for another device leaves the current device as it was");
    FakeStream other = {0, 0};
    fake.device = 0;
    char *on_device_1 = pool.malloc(MIB, 1, &other);
    CHECK(on_device_1 != NULL);
    CHECK_EQ(fake.device, 0);
    CHECK_EQ(pool.free(on_device_1, 1, &other), 0);
    CHECK_EQ(pool.trim(1, 0), PAGE);
    CHECK_EQ(fake.device, 0);

    GROUP("pool mapped: after the callback of a destroyed stream its handle counts as a new stream");
    FakeStream destroyed = {1, 0};
    char *waiting = pool.malloc(8 * MIB, 0, &destroyed);
    CHECK_EQ(pool.free(waiting, 0, &destroyed), 0);
    records = fake.records;
    fake.on_stream(&destroyed, ACL_RT_STREAM_STATE_DESTROY_PRE, NULL);
    CHECK_EQ(fake.records, records + 1);
    int queries = fake.queries;
    char *again = pool.malloc(8 * MIB, 0, &destroyed);
    CHECK(again && again != waiting);
    CHECK_EQ(fake.queries, queries + 1);
    destroyed.busy = 0;
    CHECK(pool.malloc(8 * MIB, 0, &a) == waiting);
}

/* Runs after the pool's own exit handler, because it was registered before the pool was first used. */
static void after_main(void)
{
    GROUP("pool mapped: after main ACL is not called, and memory that the pool has still works");
    int calls = fake.calls;
    char *block = pool.malloc(MIB, 0, &a);
    CHECK(block != NULL);
    CHECK_EQ(pool.free(block, 0, &a), 0);
    block = pool.malloc(MIB, 0, &a);
    (void)pool.last_error();
    CHECK_EQ(pool.free(block, 0, NULL), 0);
    CHECK(pool.last_error() == NULL);
    CHECK(pool.malloc(64 * MIB, 0, &a) == NULL);
    CHECK(pool_error_has("the process is ending"));
    CHECK_EQ(pool.trim(0, 0), 0);
    CHECK_EQ(fake.calls, calls);
    if (END())
        _exit(1);
}

static int without_vmm(void)
{
    GROUP("pool mapped: not with CAIRN_POOL_VMM=0");
    char *block = pool.malloc(MIB, 0, &a);
    CHECK(block && fake_allocation_of(block, MIB) && fake.reserved[0] == NULL);
    CHECK(memory_is("segments"));
    return END();
}

int main(void)
{
    pool_load();
    if (strcmp(getenv("CAIRN_POOL_VMM"), "0") == 0)
        return without_vmm();
    atexit(after_main);
    growth();
    failures();
    streams();
    char *last = pool.malloc(4 * MIB, 0, &a);
    CHECK(last != NULL);
    CHECK_EQ(pool.free(last, 0, &a), 0);
    return END();
}
