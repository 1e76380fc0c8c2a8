// links: -lcairn_pool
/* The pool as an allocator that is registered on a stream: acl_reg_1, acl_reg_3, acl_reg_7. */
#include "gate.h"
#include "acl/acl_rt_allocator.h"
#include "cairn/pool.h"
#include "cairn/probe.h"

#define MIB ((size_t)1 << 20)

static cairnPoolFigures figures(aclrtStream stream)
{
    cairnPoolFigures result;
    CHECK_EQ(cairn_pool_stream_figures(0, stream, &result), 0);
    return result;
}

/* One workspace and one tensor, filled in stream order. */
static aclError execute(aclrtStream stream, CairnProbeBlock blocks[2], size_t bytes, void **kept)
{
    memset(blocks, 0, 2 * sizeof *blocks);
    blocks[0].bytes = bytes;
    blocks[0].isWorkspace = 1;
    blocks[0].value = 1;
    blocks[1].bytes = 1000;
    blocks[1].value = 2;
    CairnProbe probe = {blocks, 2, kept != NULL, NULL};
    aclError code = cairnProbeExecute(stream, &probe);
    if (kept)
        *kept = probe.kept;
    return code;
}

int main(void)
{
    static Gate gate = GATE_CLOSED;
    CairnProbeBlock blocks[2], others[2];
    aclrtStream a, b;
    void *kept = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&a));
    CHECK_OK(aclrtCreateStream(&b));

    GROUP("pool descriptor: acl_reg_1 acl_reg_3 registered, destroyed, and in use");
    aclrtAllocatorDesc first = cairn_pool_create_desc(0, a), second = cairn_pool_create_desc(0, b);
    CHECK(first && second);
    CHECK_OK(aclrtAllocatorRegister(a, first));
    CHECK_OK(aclrtAllocatorRegister(b, second));
    CHECK_EQ(cairn_pool_destroy_desc(first), 0);
    CHECK_EQ(cairn_pool_destroy_desc(second), 0);
    CHECK_OK(execute(a, blocks, 3 * MIB, NULL));
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_EQ(figures(a).taken, 2);
    CHECK_EQ(figures(a).freed, 2);
    CHECK_EQ(figures(b).taken, 0);
    CHECK_EQ(figures(a).peak, 3 * MIB + 1536);

    GROUP("pool descriptor: executions on one stream share memory, without any wait");
    gate_put(&gate, a);
    CHECK_OK(execute(a, blocks, 3 * MIB, NULL));
    uint64_t reserved = figures(a).reserved;
    for (int i = 0; i < 100; i++) {
        CHECK_OK(execute(a, others, 3 * MIB, NULL));
        CHECK(others[0].address == blocks[0].address && others[1].address == blocks[1].address);
    }
    CHECK_EQ(figures(a).reserved, reserved);

    GROUP("pool descriptor: another stream gets that memory when the first has finished");
    CHECK_OK(execute(b, others, 3 * MIB, NULL));
    CHECK(others[0].address != blocks[0].address);
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(a));
    CHECK_OK(aclrtSynchronizeStream(b));
    CHECK_EQ(figures(a).blocks + figures(b).blocks, 0);
    CHECK(cairn_pool_trim(0, 0) >= 6 * MIB);
    CHECK_EQ(figures(a).reserved + figures(b).reserved, 0);

    GROUP("pool descriptor: blocks that are kept stay where they are");
    CHECK_OK(execute(a, blocks, MIB, &kept));
    CHECK_EQ(figures(a).blocks, 2);
    CHECK_OK(execute(a, others, MIB, NULL));
    CHECK(others[0].address != blocks[0].address);
    CHECK_OK(aclrtSynchronizeStream(a));
    unsigned char byte = 0;
    CHECK_OK(aclrtMemcpy(&byte, 1, (char *)blocks[1].address + 999, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK_EQ(byte, 2);
    CHECK_OK(cairnProbeGiveBack(kept));
    CHECK_EQ(figures(a).blocks, 0);

    GROUP("pool descriptor: out of memory fails one execution, and the stream stays usable");
    cairnPoolFigures all;
    CHECK_EQ(cairn_pool_figures(0, &all), 0);
    CHECK(execute(a, blocks, (size_t)1 << 50, NULL) != ACL_SUCCESS);
    const char *text = cairn_pool_last_error();
    CHECK(text && strstr(text, "no memory on device 0 for 1024 TiB"));
    CHECK_EQ(figures(a).blocks, 0);
    CHECK_OK(execute(a, blocks, MIB, NULL));
    CHECK_OK(aclrtSynchronizeStream(a));

    GROUP("pool descriptor: acl_reg_7 blocks that outlive their stream can still be freed");
    aclrtStream short_lived;
    CHECK_OK(aclrtCreateStream(&short_lived));
    first = cairn_pool_create_desc(0, short_lived);
    CHECK_OK(aclrtAllocatorRegister(short_lived, first));
    CHECK_OK(execute(short_lived, blocks, MIB, &kept));
    aclrtAllocator object = NULL;
    aclrtAllocatorAllocFunc alloc = NULL;
    aclrtAllocatorFreeFunc release = NULL;
    aclrtAllocatorAllocAdviseFunc advise = NULL;
    aclrtAllocatorGetAddrFromBlockFunc address = NULL;
    aclrtAllocatorDesc found = NULL;
    CHECK_OK(aclrtAllocatorGetByStream(short_lived, &found, &object, &alloc, &release, &advise, &address));
    CHECK(found == first && object && alloc && release && advise && address);
    void *block = advise(object, 100, blocks[0].address);
    CHECK(block && address(block) == block);
    release(object, block);
    CHECK_OK(aclrtDestroyStream(short_lived));
    CHECK_OK(cairnProbeGiveBack(kept));
    CHECK(cairn_pool_last_error() == NULL);
    CHECK(alloc(object, 100) == NULL);
    text = cairn_pool_last_error();
    CHECK(text && strstr(text, "the stream it was made for is gone"));
    release(object, block);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK_EQ(cairn_pool_figures(0, &all), 0);
    CHECK_EQ(all.blocks, 0);
    CHECK_EQ(cairn_pool_destroy_desc(first), 0);

    GROUP("pool descriptor: wrong arguments");
    CHECK(cairn_pool_create_desc(9, a) == NULL);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK(cairn_pool_create_desc(0, blocks) == NULL);
    CHECK(cairn_pool_last_error() != NULL);
    CHECK_EQ(cairn_pool_destroy_desc(NULL), -1);
    text = cairn_pool_last_error();
    CHECK(text && strstr(text, "100000"));
    CHECK_OK(aclrtAllocatorUnregister(a));
    CHECK_OK(aclrtAllocatorUnregister(b));
    return END();
}
