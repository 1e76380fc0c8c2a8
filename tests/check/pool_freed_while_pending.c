/* A pool of the user gives its memory back while an operator may still work in it. */
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
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(stream));
#endif
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    MUST(aclrtSynchronizeStream(stream));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
