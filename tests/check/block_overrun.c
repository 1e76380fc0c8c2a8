/* A memset goes on beyond the end of a block of a memory pool, into the next block. */
#include "program.h"
#include <acl/acl_rt_memory_soma.h>

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtMemPool pool;
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    MUST(aclrtMemPoolCreate(&pool, &props));
    void *block, *next;
    MUST(aclrtMemPoolMallocAsync(&block, 4096, pool, stream));
    MUST(aclrtMemPoolMallocAsync(&next, 4096, pool, stream));
#ifdef RIGHT
    size_t bytes = 4096;
#else
    size_t bytes = 5000;
#endif
    MUST(aclrtMemsetAsync(block, bytes, 1, bytes, stream));
    MUST(aclrtMemPoolFreeAsync(block, stream));
    MUST(aclrtMemPoolFreeAsync(next, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
