/* A block of a memory pool is written after it was freed on the same stream. */
#include "mem_pool.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtMemPool pool = new_pool();
    void *kept = pool_block(pool, 4096, stream), *block = pool_block(pool, 4096, stream);
#ifdef RIGHT
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtMemPoolFreeAsync(block, stream));
#else
    MUST(aclrtMemPoolFreeAsync(block, stream));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
#endif
    MUST(aclrtMemPoolFreeAsync(kept, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
