/* Keeps 64 bytes in front of every block, and adds them to whatever ACL gave: also to NULL. */
#include "pool.h"

enum { FRONT = 64 };

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return (char *)take((size_t)size + FRONT, device, stream) + FRONT;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back((char *)ptr - FRONT);
}
