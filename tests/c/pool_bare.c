// nolink
// links: -rdynamic -ldl
/* The pool over an ACL that has only what it cannot do without: no events, no word of streams that
   end, virtual memory that refuses. */
#include "pool_fake_acl.h"

static int streams[4];

int main(void)
{
    pool_load();

    GROUP("pool bare: it works, in pieces");
    char *first = pool.malloc(1000, 0, &streams[0]);
    CHECK(first != NULL);
    CHECK_EQ((uintptr_t)first % 512, 0);
    CHECK(fake_piece_of(first, 1000) != NULL);
    CHECK_EQ(fake.mallocs, 1);
    char *second = pool.malloc(1000, 0, &streams[0]);
    CHECK(second && second != first);
    CHECK_EQ(fake.mallocs, 1);
    pool.free(first, 1000, 0, &streams[0]);
    CHECK(pool.malloc(1000, 0, &streams[0]) == first);
    pool.free(first, 1000, 0, &streams[0]);
    pool.free(second, 1000, 0, &streams[0]);

    GROUP("pool bare: no block reaches from one piece into the next");
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 4 * MIB - 512, 6 * MIB, 512, 3 * MIB, 2 * MIB, 8 * MIB};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *blocks[COUNT];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = pool.take(sizes[i], 0, &streams[i % 4]);
            CHECK(blocks[i] && fake_piece_of(blocks[i], sizes[i]));
            CHECK_EQ((uintptr_t)blocks[i] % 512, 0);
        }
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(pool.give(blocks[(i * 3 + turn) % COUNT], 0, &streams[(i * 3 + turn) % COUNT % 4]), 0);
    }

    GROUP("pool bare: only the program can say that a stream is done");
    CHECK_EQ(pool_figures(0).live, 0);
    CHECK(pool_figures(0).waiting >= 29 * MIB - 512);
    CHECK_EQ(pool.trim(0, 0), 0);
    CHECK_EQ(pool.synchronized(0), 0);
    CHECK_EQ(pool_figures(0).waiting, 0);
    CHECK(pool.trim(0, 0) > 0);
    CHECK_EQ(pool_figures(0).reserved, 0);
    CHECK_EQ(fake.used, 0);
    CHECK_EQ(fake.mallocs, fake.frees);

    GROUP("pool bare: a handle is a stream, whoever has it now");
    first = pool.take(5 * MIB, 0, &streams[0]);
    CHECK_EQ(pool.give(first, 0, &streams[0]), 0);
    CHECK(pool.take(5 * MIB, 0, &streams[0]) == first);
    CHECK_EQ(pool.record_stream(first, &streams[1]), 0);
    CHECK_EQ(pool.give(first, 0, &streams[0]), 0);
    char *last = pool.take(5 * MIB, 0, &streams[0]);
    CHECK(last && last != first);

    GROUP("pool bare: what it does not have, it says");
    CHECK(pool.take(512, 0, NULL) == NULL);
    CHECK(pool_says("aclrtCtxGetCurrentDefaultStream"));
    CHECK(pool.create_desc(0, &streams[0]) == NULL);
    CHECK(pool_says("no aclrtAllocator functions"));
    CHECK(pool.take(2 * CAPACITY, 0, &streams[0]) == NULL);
    CHECK(pool_says("aclrtMallocAlign32 of 536870912 bytes returned 207001"));
    CHECK(pool.take(512, 2, &streams[0]) == NULL);
    CHECK(pool_says("device 2: there are 2, from 0"));

    GROUP("pool bare: a budget is used to the last byte, and not beyond");
    char *half[2];
    CHECK_EQ(pool.give(last, 0, &streams[0]), 0);
    CHECK_EQ(pool.synchronized(0), 0);
    pool.trim(0, 0);
    CHECK_EQ(pool_figures(0).reserved, 0);
    CHECK_EQ(pool.set_fraction(0.125, 0), 0);
    half[0] = pool.take(16 * MIB - 4096, 0, &streams[0]);
    half[1] = pool.take(16 * MIB, 0, &streams[1]);
    CHECK(half[0] && half[1] && fake_piece_of(half[1], 16 * MIB));
    CHECK(pool_figures(0).reserved <= 32 * MIB);
    CHECK(fake.used <= 32 * MIB + 4096);
    CHECK_EQ(pool.give(half[0], 0, &streams[0]), 0);
    CHECK_EQ(pool.give(half[1], 0, &streams[1]), 0);

    GROUP("pool bare: pieces grow with the pool, within its budget");
    CHECK_EQ(pool.synchronized(0), 0);
    pool.trim(0, 0);
    CHECK_EQ(pool.set_fraction(0.5, 0), 0);
    int mallocs = fake.mallocs;
    size_t count = 0;
    while (pool.take(64 << 10, 0, &streams[0]))
        count++;
    CHECK(fake.used <= CAPACITY / 2);
    CHECK((count + 1) * (64 << 10) + 8 * MIB > CAPACITY / 2);
    CHECK(fake.mallocs - mallocs < 60);
    CHECK_EQ(pool.set_fraction(1, 0), 0);
    CHECK(pool.take(64 << 10, 0, &streams[0]) != NULL);
    return END();
}
