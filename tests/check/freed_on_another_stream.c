/* A block of a memory pool is freed on one stream while another one may still write it. */
#include "mem_pool.h"

int main(void)
{
    begin();
    aclrtStream owner = new_stream(), other = new_stream();
    aclrtMemPool pool = new_pool();
    aclrtEvent taken, written;
    MUST(aclrtCreateEvent(&taken));
    MUST(aclrtCreateEvent(&written));
    void *kept = pool_block(pool, 4096, owner), *block = pool_block(pool, 4096, owner);
    MUST(aclrtRecordEvent(taken, owner));
    MUST(aclrtStreamWaitEvent(other, taken));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, other));
    MUST(aclrtRecordEvent(written, other));
#ifdef RIGHT
    MUST(aclrtStreamWaitEvent(owner, written));
#endif
    MUST(aclrtMemPoolFreeAsync(block, owner));
    MUST(aclrtSynchronizeStream(other));
    MUST(aclrtMemPoolFreeAsync(kept, owner));
    MUST(aclrtSynchronizeStream(owner));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyEvent(taken));
    MUST(aclrtDestroyEvent(written));
    MUST(aclrtDestroyStream(owner));
    MUST(aclrtDestroyStream(other));
    end();
    return 0;
}
