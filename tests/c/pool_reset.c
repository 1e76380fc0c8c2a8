// links: -lcairn_pool
/* Frees that come after a reset of the device took the block along, and what a reset leaves behind. */
#include "gate.h"
#include "cairn/pool.h"
#include <malloc.h>

#define MIB ((size_t)1 << 20)

static int says(const char *part)
{
    const char *text = cairn_pool_last_error();
    if (text && strstr(text, part))
        return 1;
    printf("the text lacks \"%s\": %s\n", part, text ? text : "(there is none)");
    return 0;
}

static cairnPoolFigures figures(void)
{
    cairnPoolFigures all;
    CHECK_EQ(cairn_pool_figures(0, &all), 0);
    return all;
}

static aclrtStream reset(void)
{
    aclrtStream stream;
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    return stream;
}

static size_t heap(void)
{
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

int main(void)
{
    aclrtStream old, now;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&old));

    GROUP("pool reset: the figures begin again");
    void *lost = cairn_pool_malloc(4 * MIB, 0, old);
    CHECK(lost != NULL);
    CHECK_EQ(cairn_pool_set_fraction(0.25, 0), 0);
    CHECK(figures().budget > 0);
    now = reset();
    cairnPoolFigures after = figures();
    CHECK_EQ(after.live | after.requested | after.peak | after.reserved | after.peakReserved, 0);
    CHECK_EQ(after.waiting | after.largestHole | after.budget | after.blocks, 0);
    CHECK_EQ(after.taken | after.freed | after.failed, 0);

    GROUP("pool reset: a late free does not reach the block that has the address now");
    void *block = cairn_pool_malloc(4 * MIB, 0, now);
    CHECK(block == lost);
    CHECK_EQ(cairn_pool_free(lost, 0, old), -1);
    CHECK(says("went when device 0 was reset"));
    CHECK_EQ(figures().live, 4 * MIB);
    CHECK_EQ(cairn_pool_free(block, 0, now), 0);
    CHECK_EQ(figures().live, 0);

    GROUP("pool reset: nor does one of another size, whatever its stream");
    block = cairn_malloc(2 * MIB, 0, now);
    CHECK(block != NULL);
    now = reset();
    void *next = cairn_malloc(3 * MIB, 0, now);
    CHECK(next == block);
    cairn_free(block, 2 * MIB, 0, now);
    CHECK(says("its size is another"));
    CHECK_EQ(figures().live, 3 * MIB);
    cairn_free(next, 3 * MIB, 0, now);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(figures().live, 0);

    GROUP("pool reset: nor one through a descriptor of before");
    old = reset();
    block = cairn_pool_malloc(MIB, 0, old);
    aclrtAllocatorDesc desc = cairn_pool_create_desc(0, old);
    CHECK_OK(aclrtAllocatorRegister(old, desc));
    CHECK_EQ(cairn_pool_destroy_desc(desc), 0);
    aclrtAllocatorDesc got = NULL;
    aclrtAllocator object = NULL;
    aclrtAllocatorAllocFunc alloc = NULL;
    aclrtAllocatorFreeFunc release = NULL;
    aclrtAllocatorAllocAdviseFunc advise = NULL;
    aclrtAllocatorGetAddrFromBlockFunc address = NULL;
    CHECK_OK(aclrtAllocatorGetByStream(old, &got, &object, &alloc, &release, &advise, &address));
    now = reset();
    next = cairn_pool_malloc(MIB, 0, now);
    CHECK(next == block);
    release(object, block);
    CHECK(says("went when device 0 was reset"));
    CHECK_EQ(figures().live, MIB);
    release(object, block);
    CHECK(says("the stream of the descriptor is gone"));
    CHECK_EQ(figures().live, MIB);
    CHECK_EQ(cairn_pool_free(next, 0, now), 0);

    GROUP("pool reset: a late free where nothing lies is nothing, once");
    block = cairn_malloc(8 * MIB, 0, now);
    now = reset();
    cairn_free(block, 8 * MIB, 0, now);
    CHECK(cairn_pool_last_error() == NULL);
    cairn_free(block, 8 * MIB, 0, now);
    CHECK(says("is not held"));

    GROUP("pool reset: resets without end, with blocks out, take no more memory");
    for (int i = 0; i < 10; i++) {
        CHECK(cairn_malloc(MIB, 0, now) != NULL);
        now = reset();
    }
    size_t before = heap();
    for (int i = 0; i < 40; i++) {
        CHECK(cairn_malloc(MIB, 0, now) != NULL);
        CHECK(cairn_pool_malloc(MIB, 0, now) != NULL);
        now = reset();
    }
    size_t grown = heap() > before ? heap() - before : 0;
    if (!CHECK(grown < 256 << 10))
        printf("  40 resets took %zu bytes of the heap\n", grown);
    return END();
}
