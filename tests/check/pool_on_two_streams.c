/* One pool of the user serves two streams, which nothing orders: they get the same block for their workspaces. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream first = new_stream(), second = new_stream();
    Pool pool;
    pool_create(&pool);
    pool_register(&pool, first);
    pool_register(&pool, second);
    Numbers a = new_numbers(), b = new_numbers();
    sort(a, first);
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(first));
#endif
    sort(b, second);
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtSynchronizeStream(second));
    MUST(aclrtAllocatorUnregister(first));
    MUST(aclrtAllocatorUnregister(second));
    MUST(aclrtFree(pool.memory));
    free_numbers(a);
    free_numbers(b);
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    end();
    return 0;
}
