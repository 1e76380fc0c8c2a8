// unchecked: it touches device memory itself
// env: CAIRN_MEMORY=guard,stats
// env: CAIRN_MEMORY=guard:external
// env: CAIRN_MEMORY=stats,guard:external,guard:external
// env: CAIRN_MEMORY=fault:nth=2
/*
 * Layers over a user's allocator. Its blocks are adjacent in one allocation, so a fill that runs from
 * one into the next passes ACL's address check: only canaries find it.
 */
#include "pool.h"

static Pool pool;
static aclrtStream stream;

/* Takes a tensor of 100 bytes and keeps it. */
static CairnProbe keep_tensor(CairnProbeBlock *block)
{
    CairnProbeBlock fresh = {100, 0, 0x5a, NULL, NULL, NULL, 0};
    CairnProbe probe = {block, 1, 1, NULL};
    *block = fresh;
    CHECK_OK(cairnProbeExecute(stream, &probe));
    CHECK_EQ(block->asked, 160);
    return probe;
}

static void guarded(size_t canaries)
{
    CairnProbeBlock block;
    char text[100];

    GROUP("CAIRN_MEMORY guard: callbacks are asked for canaries only on request");
    CairnProbe probe = keep_tensor(&block);
    CHECK_EQ(pool.last_size, 160 + canaries);
    CHECK_OK(cairnProbeGiveBack(probe.kept));
    CHECK_OK(aclrtSynchronizeStream(stream));

    GROUP("CAIRN_MEMORY guard: a block that goes back is poisoned in its stream");
    CHECK_EQ(((unsigned char *)block.address)[0], 0xfd);
    CHECK_EQ(((unsigned char *)block.address)[159], 0xfd);
    CHECK_EQ(pool.out, 0);

    GROUP("CAIRN_MEMORY guard: a fill beyond its block is reported at synchronize");
    for (int front = 0; front < 2; front++) {
        probe = keep_tensor(&block);
        char *start = (char *)block.address - (front && canaries ? 1 : 0);
        CHECK_OK(aclrtMemsetAsync(start, 161, 0x11, 161, stream));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK_OK(cairnProbeGiveBack(probe.kept));
        snprintf(
            text, sizeof text, "the block %p of 160 bytes: 1 byte %s it, the first at offset %d,",
            block.address, front ? "before" : "after", front ? -1 : 160);
        if (canaries)
            CHECK_FAIL(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MEMORY_FREE, text);
        CHECK_OK(aclrtSynchronizeStream(stream));
    }
}

static void faulty(void)
{
    GROUP("CAIRN_MEMORY fault: each allocator has its own count, and is not called for a request that fails");
    CHECK_OK(execute_with_tensor(stream, 100, NULL));
    int allocs = pool.allocs;
    CHECK_FAIL(execute_with_tensor(stream, 100, NULL), ACL_ERROR_RT_MEMORY_ALLOCATION, "injected fault: request 2, of 160 bytes from the user's allocator");
    CHECK_EQ(pool.allocs, allocs);
    CHECK_OK(execute_with_tensor(stream, 100, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
}

int main(void)
{
    const char *spec = getenv("CAIRN_MEMORY");
    size_t guards = 0;
    for (const char *at = spec; (at = strstr(at, "external")) != NULL; at++)
        guards++;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    pool_open(&pool);
    pool_register(stream, &pool);
    if (strstr(spec, "guard"))
        guarded(guards * 1024);
    else
        faulty();
    CHECK_OK(aclrtAllocatorUnregister(stream));
    pool_close(&pool);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
