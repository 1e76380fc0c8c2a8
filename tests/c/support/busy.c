/* Holds device 1 until its input ends: a stream with a task that waits and two behind it, a block of the device's pool, and an
 * allocator that was asked three times and has one block out. */
#include "acl/acl.h"
#include "cairn/probe.h"
#include "gate.h"

static char memory_taken;

static void *take(aclrtAllocator object, size_t size)
{
    void *address = NULL;
    (void)object;
    return aclrtMalloc(&address, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS ? address : NULL;
}

static void give_back(aclrtAllocator object, aclrtAllocatorBlock block)
{
    (void)object;
    aclrtFree(block);
}

static void *address_of(aclrtAllocatorBlock block)
{
    return block;
}

int main(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtStream waiting, other;
    void *target = NULL, *address = NULL, *kept = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtCreateStream(&waiting));
    CHECK_OK(aclrtCreateStream(&other));
    CHECK_OK(aclrtMalloc(&target, 4096, ACL_MEM_MALLOC_HUGE_FIRST));

    /* Without an allocator the probe takes from the pool of the device. */
    CairnProbeBlock block = {1 << 20, 1, 1, NULL, NULL, NULL, 0};
    CairnProbe probe = {&block, 1, 1, NULL};
    CHECK_OK(cairnProbeExecute(other, &probe));

    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    CHECK_OK(aclrtAllocatorSetObjToDesc(desc, &memory_taken));
    CHECK_OK(aclrtAllocatorSetAllocFuncToDesc(desc, take));
    CHECK_OK(aclrtAllocatorSetFreeFuncToDesc(desc, give_back));
    CHECK_OK(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of));
    CHECK_OK(aclrtAllocatorRegister(other, desc));
    CHECK_OK(aclrtAllocatorDestroyDesc(desc));
    for (int i = 0; i < 3; i++) {
        if (kept)
            CHECK_OK(cairnProbeGiveBack(kept));
        CHECK_OK(cairnProbeTake(other, CAIRN_PROBE_ACL, 5000, NULL, &address, &kept));
    }
    CHECK_OK(aclrtSynchronizeStream(other));

    gate_put(&gate, waiting);
    CHECK_OK(aclrtMemsetAsync(target, 4096, 1, 4096, waiting));
    CHECK_OK(aclrtMemsetAsync(target, 4096, 2, 4096, waiting));
    puts("READY");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(waiting));
    CHECK_OK(cairnProbeGiveBack(kept));
    CHECK_OK(cairnProbeGiveBack(probe.kept));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclFinalize());
    return END();
}
