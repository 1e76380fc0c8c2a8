/* The result of a stream is read before the stream was synchronized. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    void *memory = device_memory(4096);
    char host[4096];
    MUST(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(stream));
#endif
    MUST(aclrtMemcpy(host, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
