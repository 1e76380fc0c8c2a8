/* A copy on one stream reads what a memset on another writes, and no event orders them. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream writer = new_stream(), reader = new_stream();
    void *memory = device_memory(4096), *host;
    MUST(aclrtMallocHost(&host, 4096));
    MUST(aclrtMemsetAsync(memory, 4096, 1, 4096, writer));
#ifdef RIGHT
    aclrtEvent written;
    MUST(aclrtCreateEvent(&written));
    MUST(aclrtRecordEvent(written, writer));
    MUST(aclrtStreamWaitEvent(reader, written));
#endif
    MUST(aclrtMemcpyAsync(host, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST, reader));
    MUST(aclrtSynchronizeStream(writer));
    MUST(aclrtSynchronizeStream(reader));
#ifdef RIGHT
    MUST(aclrtDestroyEvent(written));
#endif
    MUST(aclrtFree(memory));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
    end();
    return 0;
}
