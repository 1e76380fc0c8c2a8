/* Copies of rows, and copies that device memory describes: the first two touch other columns of the same rows, the last one does not. */
#include "program.h"

enum { ROWS = 2000, PITCH = 256, WIDTH = 128 };

int main(void)
{
    begin();
    aclrtStream left = new_stream(), right = new_stream();
    char *rows = (char *)device_memory(ROWS * PITCH), *from = (char *)device_memory(ROWS * PITCH);
    char *description = (char *)device_memory(64);
    MUST(aclrtMemset(from, ROWS * PITCH, 1, ROWS * PITCH));
    MUST(aclrtMemcpy2dAsync(rows, PITCH, from, PITCH, WIDTH, ROWS, ACL_MEMCPY_DEVICE_TO_DEVICE, left));
    MUST(aclrtMemcpy2dAsync(rows + WIDTH, PITCH, from, PITCH, WIDTH, ROWS, ACL_MEMCPY_DEVICE_TO_DEVICE, right));
#ifdef RIGHT
    MUST(aclrtSynchronizeStream(left));
#endif
    MUST(aclrtSetMemcpyDesc(description, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, from, rows + PITCH, WIDTH, NULL));
    MUST(aclrtMemcpyAsyncWithDesc(description, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, right));
    MUST(aclrtSynchronizeStream(left));
    MUST(aclrtSynchronizeStream(right));
    MUST(aclrtFree(rows));
    MUST(aclrtFree(from));
    MUST(aclrtFree(description));
    MUST(aclrtDestroyStream(left));
    MUST(aclrtDestroyStream(right));
    end();
    return 0;
}
