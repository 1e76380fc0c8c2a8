// links: -lcairn_pool
// env: CAIRN_POOL_VMM=0
/* Frees of blocks that a reset of the device has ended, and the state of the pool after a reset; on segments, whose addresses come again. */
#include "gate.h"
#include "cairn/pool.h"
#include <malloc.h>

#define MIB ((size_t)1 << 20)

static int error_has(const char *part)
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

static aclrtStream reset_device(void)
{
    aclrtStream stream;
    CHECK_OK(aclrtResetDeviceForce(0));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    return stream;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

int main(void)
{
    aclrtStream old, current;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&old));

    GROUP("pool reset: the figures begin again");
    void *reset_block = cairn_pool_malloc(4 * MIB, 0, old);
    CHECK(reset_block != NULL);
    CHECK_EQ(cairn_pool_set_fraction(0.25, 0), 0);
    CHECK(figures().budget > 0);
    current = reset_device();
    cairnPoolFigures after = figures();
    CHECK_EQ(after.live | after.requested | after.peak | after.reserved | after.peakReserved, 0);
    CHECK_EQ(after.waiting | after.largestHole | after.budget | after.blocks, 0);
    CHECK_EQ(after.taken | after.freed | after.failed, 0);

    GROUP("pool reset: a late free does not reach the block that has the address now");
    void *block = cairn_pool_malloc(4 * MIB, 0, current);
    CHECK(block == reset_block);
    CHECK_EQ(cairn_pool_free(reset_block, 0, old), -1);
    CHECK(error_has("went when device 0 was reset"));
    CHECK_EQ(figures().live, 4 * MIB);
    CHECK_EQ(cairn_pool_free(block, 0, current), 0);
    CHECK_EQ(figures().live, 0);

    GROUP("pool reset: nor does a late free with another size, whatever its stream");
    block = cairn_malloc(2 * MIB, 0, current);
    CHECK(block != NULL);
    current = reset_device();
    void *next = cairn_malloc(3 * MIB, 0, current);
    CHECK(next == block);
    cairn_free(block, 2 * MIB, 0, current);
    CHECK(error_has("its size is another"));
    CHECK_EQ(figures().live, 3 * MIB);
    cairn_free(next, 3 * MIB, 0, current);
    CHECK(cairn_pool_last_error() == NULL);
    CHECK_EQ(figures().live, 0);

    GROUP("pool reset: nor one through a descriptor made before the reset");
    old = reset_device();
    block = cairn_pool_malloc(MIB, 0, old);
    aclrtAllocatorDesc desc = cairn_pool_create_desc(0, old);
    CHECK_OK(aclrtAllocatorRegister(old, desc));
    CHECK_EQ(cairn_pool_destroy_desc(desc), 0);
    aclrtAllocatorDesc found = NULL;
    aclrtAllocator object = NULL;
    aclrtAllocatorAllocFunc alloc = NULL;
    aclrtAllocatorFreeFunc release = NULL;
    aclrtAllocatorAllocAdviseFunc advise = NULL;
    aclrtAllocatorGetAddrFromBlockFunc address = NULL;
    CHECK_OK(aclrtAllocatorGetByStream(old, &found, &object, &alloc, &release, &advise, &address));
    current = reset_device();
    next = cairn_pool_malloc(MIB, 0, current);
    CHECK(next == block);
    release(object, block);
    CHECK(error_has("went when device 0 was reset"));
    CHECK_EQ(figures().live, MIB);
    release(object, block);
    CHECK(error_has("the stream of the descriptor is gone"));
    CHECK_EQ(figures().live, MIB);
    CHECK_EQ(cairn_pool_free(next, 0, current), 0);

    GROUP("pool reset: a late free of an address without a block is ignored once");
    block = cairn_malloc(8 * MIB, 0, current);
    current = reset_device();
    cairn_free(block, 8 * MIB, 0, current);
    CHECK(cairn_pool_last_error() == NULL);
    cairn_free(block, 8 * MIB, 0, current);
    CHECK(error_has("is not held"));

    GROUP("pool reset: repeated resets with blocks not freed do not leak");
    for (int i = 0; i < 10; i++) {
        CHECK(cairn_malloc(MIB, 0, current) != NULL);
        current = reset_device();
    }
    size_t before = heap_bytes();
    for (int i = 0; i < 40; i++) {
        CHECK(cairn_malloc(MIB, 0, current) != NULL);
        CHECK(cairn_pool_malloc(MIB, 0, current) != NULL);
        current = reset_device();
    }
    size_t grown = heap_bytes() > before ? heap_bytes() - before : 0;
    if (!CHECK(grown < 256 << 10))
        printf("  40 resets took %zu bytes of the heap\n", grown);
    return END();
}
