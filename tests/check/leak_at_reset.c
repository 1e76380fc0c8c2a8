// tools: leak
/* Memory, a stream and a context are left to the reset of the device. */
#include "program.h"

int main(void)
{
    begin();
    aclrtContext context;
    MUST(aclrtCreateContext(&context, 0));
    aclrtStream stream = new_stream();
    void *memory = device_memory(4096);
#ifdef RIGHT
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyContext(context));
#else
    (void)memory, (void)stream;
#endif
    end();
    return 0;
}
