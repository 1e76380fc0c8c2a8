/* The memory of a pool is freed while the pool is registered: it hands out memory that is gone. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Pool pool;
    pool_create(&pool);
    pool_register(&pool, stream);
    Numbers numbers = new_numbers();
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
    MUST(aclrtAllocatorUnregister(stream));
#endif
    MUST(aclrtFree(pool.memory));
#ifdef RIGHT
    sort(numbers, stream);
#else
    printf("aclopExecuteV2: %d\n", try_sort(numbers, stream));
#endif
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtAllocatorUnregister(stream));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
