// nolink
// links: -rdynamic -ldl
// env: CAIRN_POOL_STITCH=1
// env: CAIRN_POOL_STITCH=0
/* The pool over an ACL with virtual memory: pages of several holes serve a large block. */
#define FAKE_FULL
#include "pool_fake_acl.h"

static FakeStream a, b;
static char *blocks[8];

/* Eight blocks of two pages, of which every other is freed. */
static void leave_holes(void)
{
    for (int i = 0; i < 8; i++)
        CHECK((blocks[i] = pool.malloc(2 * PAGE, 0, &a)) != NULL);
    for (int i = 0; i < 8; i += 2)
        CHECK_EQ(pool.free(blocks[i], 0, &a), 0);
}

static void give_all_back(void)
{
    for (int i = 1; i < 8; i += 2)
        CHECK_EQ(pool.free(blocks[i], 0, &a), 0);
    pool.trim(0, 0);
    CHECK(fake.mapped == 0 && fake.handles == 0 && fake.used == 0);
}

static void idle_stream(void)
{
    GROUP("pool stitch: holes serve a block that fits in none of them, with no new memory");
    leave_holes();
    const FakeHandle *hole = fake_handle_at(blocks[0]);
    int handles = fake.handles;
    char *large = pool.malloc(8 * PAGE - 512, 0, &a);
    CHECK(large != NULL);
    CHECK_EQ(fake.handles, handles);
    CHECK_EQ(pool_figures(0).reserved, 16 * PAGE);
    int found = 0;
    for (int i = 0; i < 8; i++)
        found += fake_handle_at(large + i * PAGE) == hole;
    CHECK_EQ(found, 1);

    GROUP("pool stitch: the range is kept, and its pages serve others when they are needed");
    CHECK_EQ(pool.free(large, 0, &a), 0);
    int maps = fake.maps;
    CHECK(pool.malloc(8 * PAGE - 512, 0, &a) == large);
    CHECK_EQ(fake.maps, maps);
    CHECK_EQ(pool.free(large, 0, &a), 0);
    char *half = pool.malloc(4 * PAGE, 0, &a), *rest = pool.malloc(4 * PAGE, 0, &a);
    CHECK(half && rest && pool_figures(0).reserved == 16 * PAGE);
    CHECK_EQ(pool.free(half, 0, &a), 0);
    CHECK_EQ(pool.free(rest, 0, &a), 0);
    give_all_back();
}

static void busy_stream(void)
{
    GROUP("pool stitch: tasks of a busy stream keep the old addresses until they are done");
    leave_holes();
    a.busy = 1;
    for (int i = 1; i < 8; i += 2)
        CHECK_EQ(pool.free(blocks[i], 0, &a), 0);
    for (int i = 1; i < 8; i += 2)
        CHECK((blocks[i] = pool.malloc(2 * PAGE - 512, 0, &a)) != NULL);
    const FakeHandle *hole = fake_handle_at(blocks[0]);
    char *large = pool.malloc(8 * PAGE, 0, &a);
    CHECK(large != NULL);
    CHECK(fake_handle_at(blocks[0]) == hole);

    GROUP("pool stitch: another stream does not get what the busy one may use");
    char *other = pool.malloc(8 * PAGE, 0, &b);
    CHECK(other && pool_figures(0).reserved >= 24 * PAGE);
    a.busy = 0;
    CHECK_EQ(pool.free(large, 0, &a), 0);
    CHECK_EQ(pool.free(other, 0, &b), 0);
    give_all_back();
}

static void failures(void)
{
    GROUP("pool stitch: a map that is refused leaves everything as it was, and the pool grows");
    leave_holes();
    size_t mapped = fake.mapped;
    fake.fail_map_in = 3;
    char *large = pool.malloc(8 * PAGE, 0, &a);
    CHECK(large != NULL);
    CHECK_EQ(fake.mapped, mapped + 8 * PAGE);
    CHECK_EQ(pool_figures(0).reserved, 24 * PAGE);
    CHECK_EQ(pool.free(large, 0, &a), 0);
    give_all_back();
}

static void fresh_pages(void)
{
    GROUP("pool stitch: what holes lack is added after them, and counted");
    leave_holes();
    int handles = fake.handles;
    char *large = pool.malloc(10 * PAGE, 0, &a);
    CHECK(large != NULL);
    CHECK_EQ(fake.handles, handles + 2);
    CHECK_EQ(pool_figures(0).reserved, 18 * PAGE);
    CHECK_EQ(pool.free(large, 0, &a), 0);
    give_all_back();
}

static void many_stitches(void)
{
    GROUP("pool stitch: no addresses are lost, however often pages move");
    for (int round = 0; round < 100; round++) {
        leave_holes();
        char *large = pool.malloc(8 * PAGE, 0, &a);
        CHECK(large != NULL);
        CHECK_EQ(pool_figures(0).reserved, 16 * PAGE);
        CHECK_EQ(pool.free(large, 0, &a), 0);
        give_all_back();
    }
    char *all = pool.malloc(CAPACITY, 0, &a);
    CHECK(all != NULL);
    CHECK_EQ(pool.free(all, 0, &a), 0);
    pool.trim(0, 0);
    CHECK(fake.mapped == 0);
}

static int without_stitching(void)
{
    GROUP("pool stitch: not with CAIRN_POOL_STITCH=0");
    leave_holes();
    CHECK(pool.malloc(8 * PAGE, 0, &a) != NULL);
    CHECK_EQ(pool_figures(0).reserved, 24 * PAGE);
    CHECK_EQ(fake.log[0], 0);
    return END();
}

int main(void)
{
    pool_load();
    fake.maps_twice = 1;
    if (strcmp(getenv("CAIRN_POOL_STITCH"), "0") == 0)
        return without_stitching();
    idle_stream();
    busy_stream();
    failures();
    fresh_pages();
    many_stitches();

    GROUP("pool stitch: an ACL that maps memory only once is reported once, and the pool works");
    CHECK_EQ(fake.log[0], 0);
    fake.maps_twice = 0;
    FakeStream c = {0, 0};
    CHECK(pool.malloc(PAGE, 1, &c) != NULL);
    CHECK(strstr(fake.log, "does not map memory at two addresses") != NULL);
    return END();
}
