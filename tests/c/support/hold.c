/* Allocates 1 GiB on device 1, prints READY and waits until its input ends. */
#include "check.h"

int main(void)
{
    void *memory = NULL;
    CHECK_OK(aclInit(NULL));
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtMalloc(&memory, (size_t)1 << 30, ACL_MEM_MALLOC_HUGE_FIRST));
    if (check_failures == 0)
        printf("READY\n");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    CHECK_OK(aclrtFree(memory));
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclFinalize());
    return END();
}
