// pooltest: --acl make
/* Keeps every clause. */
#include "pool.h"

aclrtAllocatorDesc make(int device, aclrtStream stream)
{
    return describe(device, stream);
}
