/* An allocator is registered on a stream whose operators have run before. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Pool pool, other;
    pool_create(&pool);
    pool_create(&other);
    pool_register(&pool, stream);
    Numbers numbers = new_numbers();
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
#ifndef RIGHT
    pool_register(&other, stream);
    sort(numbers, stream);
    MUST(aclrtSynchronizeStream(stream));
#endif
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    MUST(aclrtFree(other.memory));
    free_numbers(numbers);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
