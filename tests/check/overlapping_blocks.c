/* An allocator hands the same bytes out for two blocks of one execution. */
#include "program.h"

static void *same_address(aclrtAllocatorBlock block)
{
    (void)block;
    return *(void **)block;
}

static void *blocks[2];

static void *alloc(aclrtAllocator object, size_t size)
{
    Pool *pool = object;
    static int calls;
    (void)size;
    int number = calls++ % 2;
#ifdef RIGHT
    blocks[number] = pool->memory + (size_t)number * POOL_BLOCK;
#else
    blocks[number] = pool->memory;
#endif
    return &blocks[number];
}

static void give_back(aclrtAllocator object, aclrtAllocatorBlock block)
{
    (void)object, (void)block;
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Pool pool;
    pool_create(&pool);
    pool_register_with(&pool, stream, alloc, give_back, same_address);
    /* The numbers lie on the host: the execution takes a block for their copy, and one for its workspace. */
    static float numbers[SORT_COUNT];
    Numbers memory = new_numbers();
    int64_t count = SORT_COUNT;
    aclTensorDesc *in = aclCreateTensorDesc(ACL_FLOAT, 1, &count, ACL_FORMAT_ND);
    aclTensorDesc *out[] = {aclCreateTensorDesc(ACL_FLOAT, 1, &count, ACL_FORMAT_ND),
                            aclCreateTensorDesc(ACL_INT32, 1, &count, ACL_FORMAT_ND)};
    MUST(aclSetTensorPlaceMent(in, ACL_MEMTYPE_HOST));
    aclDataBuffer *from = aclCreateDataBuffer(numbers, SORT_BYTES);
    aclDataBuffer *to[] = {aclCreateDataBuffer(memory.sorted, SORT_BYTES), aclCreateDataBuffer(memory.indices, SORT_BYTES)};
    aclError code = aclopExecuteV2("Sort", 1, &in, &from, 2, out, to, NULL, stream);
    printf("aclopExecuteV2: %d\n", code);
    MUST(aclrtSynchronizeStream(stream));
    aclDestroyTensorDesc(in);
    MUST(aclDestroyDataBuffer(from));
    for (int i = 0; i < 2; i++) {
        aclDestroyTensorDesc(out[i]);
        MUST(aclDestroyDataBuffer(to[i]));
    }
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    free_numbers(memory);
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
