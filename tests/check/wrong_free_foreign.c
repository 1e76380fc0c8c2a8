/* A pointer of the host is freed as if it were device memory. */
#include "program.h"

int main(void)
{
    begin();
    void *memory = device_memory(4096), *host = malloc(4096);
#ifdef RIGHT
    free(host);
#else
    aclrtFree(host);
#endif
    MUST(aclrtFree(memory));
    end();
    return 0;
}
