/* The program itself stores to device memory. */
#include "program.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The fault that it is on an NPU, too: here it ends the program. */
static void on_fault(int signal)
{
    (void)signal;
    _exit(0);
}

int main(void)
{
    signal(SIGSEGV, on_fault);
    begin();
    char *memory = device_memory(4096);
#ifdef RIGHT
    static char ones[4096];
    memset(ones, 1, sizeof ones);
    MUST(aclrtMemcpy(memory, 4096, ones, 4096, ACL_MEMCPY_HOST_TO_DEVICE));
#else
    memset(memory, 1, 4096);
#endif
    MUST(aclrtFree(memory));
    end();
    return 0;
}
