/* Forgets blocks below 4 KiB when they are given back. */
#include "pool.h"

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)device, (void)stream;
    if (size >= 4096)
        give_back(ptr);
}
