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
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    MUST(aclrtAllocatorSetObjToDesc(desc, &pool));
    MUST(aclrtAllocatorSetAllocFuncToDesc(desc, copying_alloc));
    MUST(aclrtAllocatorSetFreeFuncToDesc(desc, pool_free));
    MUST(aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, pool_address));
    MUST(aclrtAllocatorRegister(stream, desc));
    MUST(aclrtAllocatorDestroyDesc(desc));
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
