/* Its functions have other names. */
#include "pool.h"

void *pool_malloc(ssize_t size, int device, aclrtStream stream)
{
    return take((size_t)size, device, stream);
}
