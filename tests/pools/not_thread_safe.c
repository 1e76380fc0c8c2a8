/* Keeps the size of the request in a variable that all threads share. */
#include <sched.h>
#include "pool.h"

static volatile size_t wanted;

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    wanted = (size_t)size;
    sched_yield();
    return take(wanted, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back(ptr);
}
