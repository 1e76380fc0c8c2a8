/* A copy is made from memory that the same thread has freed. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    void *memory = device_memory(4096), *copy = device_memory(4096);
#ifndef RIGHT
    MUST(aclrtFree(memory));
#endif
    MUST(aclrtMemcpyAsync(copy, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
    MUST(aclrtFree(memory));
#endif
    MUST(aclrtFree(copy));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
