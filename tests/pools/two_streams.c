/* Has lists for two streams, and nothing for a third. */
#include "pool.h"

static aclrtStream known[2];

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    LOCK;
    int at = known[0] && known[0] != stream;
    if (!known[at])
        known[at] = stream;
    int is_known = known[at] == stream;
    UNLOCK;
    return is_known ? take((size_t)size, device, stream) : NULL;
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    give_back(ptr);
}
