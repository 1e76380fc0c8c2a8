// tools: contract,order,memory,leak
/* Two streams write a block of a memory pool that has given back other parts of its memory. */
#include "mem_pool.h"

int main(void)
{
    begin();
    const size_t bytes = 4 << 20;
    aclrtStream first = new_stream(), second = new_stream();
    aclrtMemPool pool = new_pool();
    void *before = pool_block(pool, bytes, first), *block = pool_block(pool, bytes, first);
    void *behind = pool_block(pool, bytes, first);
    MUST(aclrtMemPoolFreeAsync(before, first));
    MUST(aclrtMemPoolFreeAsync(behind, first));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtMemPoolTrimTo(pool, 0));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, first));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(first));
#endif
    MUST(aclrtMemsetAsync(block, 4096, 2, 4096, second));
    MUST(aclrtSynchronizeStream(second));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtMemPoolFreeAsync(block, first));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    end();
    return 0;
}
