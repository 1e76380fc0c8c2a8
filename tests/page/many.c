/* A million events: blocks that come and go, tasks on two streams, events between them. */
#include <acl/acl.h>
#include <stddef.h>

#define BLOCKS 64
#define ROUNDS 180000

int main(void)
{
    aclrtStream streams[2];
    aclrtEvent event;
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = 7;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&streams[0]) || aclrtCreateStream(&streams[1]) || aclrtCreateEvent(&event)) {
        return 1;
    }
    for (long round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245u + 12345u;
        unsigned at = (seed >> 16) % BLOCKS;
        size_t bytes = (size_t)512 << ((seed >> 24) % 12);
        if (blocks[at] && aclrtFree(blocks[at])) {
            return 1;
        }
        if (aclrtMalloc(&blocks[at], bytes, ACL_MEM_MALLOC_HUGE_FIRST)) {
            return 1;
        }
        if (round % 4 == 0 && aclrtMemsetAsync(blocks[at], bytes, 1, 64, streams[round / 4 % 2])) {
            return 1;
        }
        if (round % 64 == 0 && (aclrtRecordEvent(event, streams[0]) || aclrtStreamWaitEvent(streams[1], event))) {
            return 1;
        }
        if (round % 256 == 0 && aclrtSynchronizeDevice()) {
            return 1;
        }
    }
    for (int at = 0; at < BLOCKS; at++) {
        aclrtFree(blocks[at]);
    }
    return aclrtResetDevice(0) || aclFinalize();
}
