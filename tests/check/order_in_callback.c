/* An allocator of the user, called by an execution, copies what a task may still be writing. */
#include "program.h"

static void *numbers;

static void *copying_alloc(aclrtAllocator object, size_t size)
{
    char host[64];
    MUST(aclrtMemcpy(host, sizeof host, numbers, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
    return pool_alloc(object, size);
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Pool pool;
    pool_create(&pool);
    pool_register_with(&pool, stream, copying_alloc, pool_free, pool_address);
    Numbers memory = new_numbers();
    numbers = memory.numbers;
    MUST(aclrtMemsetAsync(numbers, SORT_BYTES, 1, SORT_BYTES, stream));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(stream));
#endif
    sort(memory, stream);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    free_numbers(memory);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
