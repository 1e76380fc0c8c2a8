/* Keeps the size of each block in front of it, in device memory. */
#include "pool.h"

enum { FRONT = 512 };

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    char *address = size ? take((size_t)size + FRONT, device, stream) : NULL;
    if (!address)
        return NULL;
    *(size_t *)address = (size_t)size;
    return address + FRONT;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    if (ptr)
        give_back((char *)ptr - FRONT);
}
