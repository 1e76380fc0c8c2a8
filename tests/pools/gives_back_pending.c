// pooltest: --acl make
/* When ACL has no more, gives back what is free, and does not wait for the tasks that still use it. */
#define WAIT 0
#include "pool.h"

aclrtAllocatorDesc make(int device, aclrtStream stream)
{
    return describe(device, stream);
}
