// env: CAIRN_SOC=Ascend310B1
// env: CAIRN_SOC=Ascend310B4
/* Atlas 200I/500 A2 inference products have no user allocators. */
#include "pool.h"

#define UNSUPPORTED(call) CHECK_FAIL(call, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "Ascend310B")

int main(void)
{
    aclrtStream stream = NULL;
    aclrtAllocatorDesc found = NULL;
    void *memory = NULL;
    int any = 0;
    GROUP("acl_reg_8 all ten functions return 207000, and the text names the chip");
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(0));
    CHECK_OK(aclrtCreateStream(&stream));
    CHECK(aclrtAllocatorCreateDesc() == NULL);
    CHECK_TEXT("Ascend310B");
    UNSUPPORTED(aclrtAllocatorDestroyDesc(&any));
    UNSUPPORTED(aclrtAllocatorSetObjToDesc(&any, &any));
    UNSUPPORTED(aclrtAllocatorSetAllocFuncToDesc(&any, pool_alloc));
    UNSUPPORTED(aclrtAllocatorSetFreeFuncToDesc(&any, pool_free));
    UNSUPPORTED(aclrtAllocatorSetAllocAdviseFuncToDesc(&any, pool_advise));
    UNSUPPORTED(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(&any, pool_address));
    UNSUPPORTED(aclrtAllocatorRegister(stream, &any));
    UNSUPPORTED(aclrtAllocatorGetByStream(stream, &found, NULL, NULL, NULL, NULL, NULL));
    UNSUPPORTED(aclrtAllocatorUnregister(stream));
    UNSUPPORTED(aclrtAllocatorUnregister(NULL));

    GROUP("acl_reg_8 everything else works");
    CHECK_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_OK(execute_with_tensor(stream, 100, NULL));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
