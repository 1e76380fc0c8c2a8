/* Free does nothing. */
#include "pool.h"

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)ptr, (void)size, (void)device, (void)stream;
}
