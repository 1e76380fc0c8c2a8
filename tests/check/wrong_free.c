/* Memory is freed twice. */
#include "program.h"

int main(void)
{
    begin();
    void *memory = device_memory(4096);
    MUST(aclrtFree(memory));
#ifndef RIGHT
    aclrtFree(memory);
#endif
    end();
    return 0;
}
