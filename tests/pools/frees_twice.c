/* Gives memory back to ACL in free, and in the function that free calls. */
#include <sys/types.h>
#include "acl/acl.h"

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    void *ptr = NULL;
    (void)device, (void)stream;
    aclrtMallocAlign32(&ptr, (size_t)size, ACL_MEM_MALLOC_HUGE_FIRST);
    return ptr;
}

static void release(void *ptr)
{
    aclrtFree(ptr);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    release(ptr);
    aclrtFree(ptr);
}
