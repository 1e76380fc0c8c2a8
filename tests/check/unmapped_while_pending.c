/* Memory is unmapped while a memset on it may be pending. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtPhysicalMemProp prop = {0};
    aclrtDrvMemHandle handle = NULL;
    void *start = NULL;
    size_t page = (size_t)2 << 20;
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    MUST(aclrtReserveMemAddress(&start, page, 0, NULL, 0));
    MUST(aclrtMallocPhysical(&handle, page, &prop, 0));
    MUST(aclrtMapMem(start, page, 0, handle, 0));
    MUST(aclrtMemsetAsync(start, page, 1, 4096, stream));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(stream));
#endif
    MUST(aclrtUnmapMem(start));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(start));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
