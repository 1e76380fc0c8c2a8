/* A program to be recorded, with an allocator of its own on a stream: ten executions that take 1000 and 4096 bytes. With the
 * word `more` it takes 8 MiB from the device besides. */
#include <stdio.h>
#include <stdlib.h>
#include "acl/acl.h"
#include "cairn/probe.h"

enum { BYTES = 1 << 20 };

static char *memory;
static size_t used;

static void need(int code)
{
    if (code != 0) {
        printf("code %d: %s\n", code, aclGetRecentErrMsg());
        exit(3);
    }
}

static void *take(aclrtAllocator object, size_t size)
{
    (void)object;
    char *address = memory + used;
    used += (size + 511) / 512 * 512;
    return address;
}

static void give_back(aclrtAllocator object, aclrtAllocatorBlock block)
{
    (void)object, (void)block;
}

static void *address_of(aclrtAllocatorBlock block)
{
    return block;
}

int main(int count, char **arguments)
{
    aclrtStream stream;
    (void)arguments;
    need(aclInit(NULL));
    need(aclrtSetDevice(0));
    need(aclrtCreateStream(&stream));
    need(aclrtMalloc((void **)&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    void *more = NULL;
    if (count > 1)
        need(aclrtMallocWithCfg(&more, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    need(aclrtAllocatorSetObjToDesc(desc, &used));
    need(aclrtAllocatorSetAllocFuncToDesc(desc, take));
    need(aclrtAllocatorSetFreeFuncToDesc(desc, give_back));
    need(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of));
    need(aclrtAllocatorRegister(stream, desc));
    need(aclrtAllocatorDestroyDesc(desc));
    for (int i = 0; i < 10; i++) {
        CairnProbeBlock blocks[2] = {{1000, 1, 1, NULL, NULL, NULL, 0}, {4096, 1, 2, NULL, NULL, NULL, 0}};
        CairnProbe probe = {blocks, 2, 0, NULL};
        need(cairnProbeExecute(stream, &probe));
    }
    need(aclrtSynchronizeStream(stream));
    need(aclrtAllocatorUnregister(stream));
    if (more)
        need(aclrtFree(more));
    need(aclrtFree(memory));
    need(aclrtDestroyStream(stream));
    need(aclrtResetDevice(0));
    need(aclFinalize());
    return 0;
}
