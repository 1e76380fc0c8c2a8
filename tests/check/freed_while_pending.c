/* Memory is freed while a memset on it may be pending. */
#include "program.h"

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    void *memory = device_memory(4096);
    MUST(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(stream));
#endif
    MUST(aclrtFree(memory));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    end();
    return 0;
}
