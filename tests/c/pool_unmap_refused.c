// nolink
// links: -rdynamic -ldl
/* The pool over an ACL that refuses to unmap a page: no other page is mapped at its address again, which the fake checks. */
#define FAKE_FULL
#include "pool_fake_acl.h"

static FakeStream streams[2];

static char *take(int pages)
{
    return pool.malloc(pages * PAGE, fake.device, &streams[fake.device]);
}

static void give(char *block)
{
    CHECK_EQ(pool.free(block, fake.device, &streams[fake.device]), 0);
}

/* Maps at all addresses, one after the other. */
static void use_all_addresses(void)
{
    size_t capacity = CAPACITY - fake.used;
    for (int round = 0; round < 5; round++) {
        char *block = pool.malloc(capacity, fake.device, &streams[fake.device]);
        CHECK(block != NULL);
        give(block);
        pool.trim(fake.device, 0);
    }
}

/* When all addresses were in use before, new pages go into gaps. */
static void last_pages(void)
{
    GROUP("pool stitch: when nothing can be put after the last page, it moves like others, also without new memory");
    use_all_addresses();
    char *gap = take(4), *live = take(2), *hole = take(2), *next = take(2), *last = take(2);
    CHECK(gap < live && live < hole && hole < next && next < last);
    give(gap);
    pool.trim(0, 0);
    CHECK_EQ(pool_figures(0).reserved, 8 * PAGE);
    give(hole);
    give(last);
    const FakeHandle *moved = fake_handle_at(last);
    fake.fail_physical_in = 1;
    fake.fail_again = 100;
    char *large = take(4);
    CHECK(large == gap);
    CHECK(fake_handle_at(large) == moved || fake_handle_at(large + 2 * PAGE) == moved);
    CHECK_EQ(pool_figures(0).reserved, 8 * PAGE);
    fake.fail_physical_in = fake.fail_again = 0;
    give(large);
    give(live);
    give(next);
    pool.trim(0, 0);
    CHECK(fake.mapped == 0 && fake.handles == 0);
}

static void roll_back(void)
{
    GROUP("pool stitch: a page of a failed stitch that stays mapped is in nobody's way");
    char *blocks[8];
    for (int i = 0; i < 8; i++)
        CHECK((blocks[i] = take(2)) != NULL);
    for (int i = 0; i < 8; i += 2)
        give(blocks[i]);
    fake.fail_map_in = 3;
    fake.fail_unmap_in = 1;
    char *large = take(8);
    CHECK(large != NULL);
    CHECK(fake.stuck == 1 && fake.mapped == 25 * PAGE);
    CHECK_EQ(pool_figures(0).reserved, 24 * PAGE);
    give(large);
    for (int i = 1; i < 8; i += 2)
        give(blocks[i]);
    pool.trim(0, 0);
    use_all_addresses();
    CHECK(fake.mapped == PAGE);
}

static void first_page(void)
{
    GROUP("pool stitch: where the first page cannot be unmapped at its second address, that is left out");
    fake.device = 1;
    fake.stuck = 0;
    fake.fail_unmap_in = 1;
    use_all_addresses();
    CHECK_EQ(fake.stuck, 1);
    CHECK(strstr(fake.log, "does not map memory at two addresses") != NULL);
}

int main(void)
{
    pool_load();
    fake.maps_twice = 1;
    last_pages();
    roll_back();
    first_page();
    return END();
}
