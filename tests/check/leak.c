// tools: contract,leak
/* Memory, a stream, an event and the descriptor of an allocator are never given back. */
#include "program.h"

int main(void)
{
    begin();
    void *memory = device_memory(4096);
    aclrtStream stream = new_stream();
    aclrtEvent event;
    MUST(aclrtCreateEvent(&event));
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
#ifdef RIGHT
    MUST(aclrtAllocatorDestroyDesc(desc));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(memory));
    end();
#else
    (void)memory, (void)stream, (void)desc;
#endif
    return 0;
}
