// tools: leak
/* Pinned memory, a block of a memory pool, a context, a tensor of an operator and a registration are never given back. */
#include "mem_pool.h"
#include <aclnn/acl_meta.h>

int main(void)
{
    begin();
    aclrtContext context;
    MUST(aclrtCreateContext(&context, 0));
    aclrtStream stream = new_stream();
    aclrtMemPool memory_pool = new_pool();
    void *block = pool_block(memory_pool, 4096, stream), *host;
    MUST(aclrtMallocHost(&host, 4096));
    int64_t size = 1024, stride = 1;
    aclTensor *tensor = aclCreateTensor(&size, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &size, 1, block);
    Pool pool;
    pool_create(&pool);
    pool_register(&pool, stream);
    MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
    MUST(aclrtAllocatorUnregister(stream));
    MUST(aclrtFree(pool.memory));
    aclDestroyTensor(tensor);
    MUST(aclrtFreeHost(host));
    MUST(aclrtMemPoolFreeAsync(block, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(memory_pool));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyContext(context));
    end();
#else
    (void)tensor;
#endif
    return 0;
}
