/* Overwrites memory some frees after it was given back, to find those who still use it: also if it was handed out again. */
#include "pool.h"

enum { LATE = 4, BYTES = 512 };

static void *freed[LATE];
static int next;

void *my_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}

void my_free(void *ptr, ssize_t size, int device, aclrtStream stream)
{
    (void)size, (void)device, (void)stream;
    if (!ptr)
        return;
    give_back(ptr);
    LOCK;
    if (freed[next])
        aclrtMemset(freed[next], BYTES, 0xdd, BYTES);
    freed[next] = ptr;
    next = (next + 1) % LATE;
    UNLOCK;
}
