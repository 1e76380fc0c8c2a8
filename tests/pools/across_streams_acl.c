// pooltest: --acl make
/* Hands memory that one stream used to any other, and waits for nothing. */
#define FITS(memory, on) 1
#include "pool.h"

aclrtAllocatorDesc make(int device, aclrtStream stream)
{
    return describe(device, stream);
}
