// nolink
// links: -rdynamic -ldl
/* The pool over a minimal ACL: without events and state callbacks, and with virtual memory
   functions that fail. */
#include "pool_fake_acl.h"

static int streams[4];

int main(void)
{
    pool_load();

    GROUP("pool bare: many blocks share one allocation of ACL's");
    char *first = pool.torch_malloc(1000, 0, &streams[0]);
    CHECK(first != NULL);
    CHECK_EQ((uintptr_t)first % 512, 0);
    CHECK(fake_allocation_of(first, 1000) != NULL);
    CHECK_EQ(fake.mallocs, 1);
    char *second = pool.torch_malloc(1000, 0, &streams[0]);
    CHECK(second && second != first);
    CHECK_EQ(fake.mallocs, 1);
    pool.torch_free(first, 1000, 0, &streams[0]);
    CHECK(pool.torch_malloc(1000, 0, &streams[0]) == first);
    pool.torch_free(first, 1000, 0, &streams[0]);
    pool.torch_free(second, 1000, 0, &streams[0]);

    GROUP("pool bare: no block spans two allocations of ACL's");
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 4 * MIB - 512, 6 * MIB, 512, 3 * MIB, 2 * MIB, 8 * MIB};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *blocks[COUNT];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = pool.malloc(sizes[i], 0, &streams[i % 4]);
            CHECK(blocks[i] && fake_allocation_of(blocks[i], sizes[i]));
            CHECK_EQ((uintptr_t)blocks[i] % 512, 0);
        }
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(pool.free(blocks[(i * 3 + turn) % COUNT], 0, &streams[(i * 3 + turn) % COUNT % 4]), 0);
    }

    GROUP("pool bare: only the program can say that a stream has finished");
    CHECK_EQ(pool_figures(0).live, 0);
    CHECK(pool_figures(0).waiting >= 29 * MIB - 512);
    CHECK_EQ(pool.trim(0, 0), 0);
    CHECK_EQ(pool.synchronized(0), 0);
    CHECK_EQ(pool_figures(0).waiting, 0);
    CHECK(pool.trim(0, 0) > 0);
    CHECK_EQ(pool_figures(0).reserved, 0);
    CHECK_EQ(fake.used, 0);
    CHECK_EQ(fake.mallocs, fake.frees);

    GROUP("pool bare: without callbacks, a handle that is reused counts as the same stream");
    first = pool.malloc(5 * MIB, 0, &streams[0]);
    CHECK_EQ(pool.free(first, 0, &streams[0]), 0);
    CHECK(pool.malloc(5 * MIB, 0, &streams[0]) == first);
    CHECK_EQ(pool.record_stream(first, &streams[1]), 0);
    CHECK_EQ(pool.free(first, 0, &streams[0]), 0);
    char *last = pool.malloc(5 * MIB, 0, &streams[0]);
    CHECK(last && last != first);

    GROUP("pool bare: functions that are missing are named in the error");
    CHECK(pool.malloc(512, 0, NULL) == NULL);
    CHECK(pool_error_has("aclrtCtxGetCurrentDefaultStream"));
    CHECK(pool.create_desc(0, &streams[0]) == NULL);
    CHECK(pool_error_has("no aclrtAllocator functions"));
    CHECK(pool.malloc(2 * CAPACITY, 0, &streams[0]) == NULL);
    CHECK(pool_error_has("aclrtMallocAlign32 of 536870912 bytes returned 207001"));
    CHECK(pool.malloc(512, 2, &streams[0]) == NULL);
    CHECK(pool_error_has("device 2: there are 2, from 0"));

    GROUP("pool bare: a budget is used to the last byte, and not beyond");
    char *halves[2];
    CHECK_EQ(pool.free(last, 0, &streams[0]), 0);
    CHECK_EQ(pool.synchronized(0), 0);
    pool.trim(0, 0);
    CHECK_EQ(pool_figures(0).reserved, 0);
    CHECK_EQ(pool.set_fraction(0.125, 0), 0);
    halves[0] = pool.malloc(16 * MIB - 4096, 0, &streams[0]);
    halves[1] = pool.malloc(16 * MIB, 0, &streams[1]);
    CHECK(halves[0] && halves[1] && fake_allocation_of(halves[1], 16 * MIB));
    CHECK(pool_figures(0).reserved <= 32 * MIB);
    CHECK(fake.used <= 32 * MIB + 4096);
    CHECK_EQ(pool.free(halves[0], 0, &streams[0]), 0);
    CHECK_EQ(pool.free(halves[1], 0, &streams[1]), 0);

    GROUP("pool bare: allocations grow with the pool, within its budget");
    CHECK_EQ(pool.synchronized(0), 0);
    pool.trim(0, 0);
    CHECK_EQ(pool.set_fraction(0.5, 0), 0);
    int mallocs = fake.mallocs;
    size_t count = 0;
    while (pool.malloc(64 << 10, 0, &streams[0]))
        count++;
    CHECK(fake.used <= CAPACITY / 2);
    CHECK((count + 1) * (64 << 10) + 8 * MIB > CAPACITY / 2);
    CHECK(fake.mallocs - mallocs < 60);
    CHECK_EQ(pool.set_fraction(1, 0), 0);
    CHECK(pool.malloc(64 << 10, 0, &streams[0]) != NULL);
    return END();
}
