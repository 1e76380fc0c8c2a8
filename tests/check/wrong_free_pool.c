/* A block of a memory pool is freed twice. */
#include "mem_pool.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtMemPool pool = new_pool();
    void *kept = pool_block(pool, 4096, stream), *block = pool_block(pool, 4096, stream);
    MUST(aclrtMemPoolFreeAsync(block, stream));
#ifndef RIGHT
    aclrtMemPoolFreeAsync(block, stream);
#endif
    MUST(aclrtMemPoolFreeAsync(kept, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
