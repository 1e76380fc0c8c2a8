/* A memset goes on beyond the end of a block of a memory pool, into the next block. */
#include "mem_pool.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    aclrtMemPool pool = new_pool();
    void *block = pool_block(pool, 4096, stream), *next = pool_block(pool, 4096, stream);
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
