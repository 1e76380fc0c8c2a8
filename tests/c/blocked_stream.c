// env: CAIRN_DEVICE_MEMORY=64mib
// env: CAIRN_DEVICE_MEMORY=64mib CAIRN_WORKERS=1
/* A host function that blocks a stream does not use up the memory: freed memory that no queued task
   touches can be allocated again; memory that a queued task touches stays intact until it has run. */
#include "gate.h"

#define BLOCK ((size_t)8 << 20)

int main(void)
{
    static Gate gate = GATE_CLOSED;
    aclrtStream stream = NULL;
    void *memory = NULL, *used = NULL;
    unsigned char *pinned = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));

    GROUP("acl_3_2_55 memory freed while a stream is blocked can be allocated again");
    gate_put(&gate, stream);
    for (int i = 0; i < 40; i++) {
        CHECK_OK(aclrtMalloc(&memory, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK_OK(aclrtFree(memory));
    }

    GROUP("acl_3_2_55 memory that a queued task reads cannot");
    CHECK_OK(aclrtMalloc(&used, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtMallocHost((void **)&pinned, BLOCK));
    CHECK_OK(aclrtMemset(used, BLOCK, 0x5a, BLOCK));
    CHECK_OK(aclrtMemcpyAsync(pinned, BLOCK, used, BLOCK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK_OK(aclrtFree(used));
    for (int i = 0; i < 10; i++) {
        if (aclrtMalloc(&memory, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
            CHECK_TEXT("waiting for a stream");
            continue;
        }
        CHECK(memory != used);
        CHECK_OK(aclrtMemset(memory, BLOCK, 0xff, BLOCK));
        CHECK_OK(aclrtFree(memory));
    }
    gate_open(&gate);
    CHECK_OK(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < BLOCK; i++)
        if (pinned[i] != 0x5a) {
            CHECK_EQ(pinned[i], 0x5a);
            break;
        }
    CHECK_OK(aclrtMalloc(&memory, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtFreeHost(pinned));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
