/* Keeps 16 bytes free in front of every block, and hands out what comes after them. */
#include "pool.h"

enum { FRONT = 16 };

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    char *address = take((size_t)size + FRONT, device, stream);
    return address ? address + FRONT : NULL;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back((char *)ptr - FRONT);
}
