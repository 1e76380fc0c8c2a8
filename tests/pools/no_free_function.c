// pooltest: --acl make
/* A descriptor without a function that gives blocks back. */
#include "pool.h"

aclrtAllocatorDesc make(int device, aclrtStream stream)
{
    Place *place = (Place *)malloc(sizeof *place);
    *place = (Place){device, stream};
    aclrtAllocatorDesc desc = aclrtAllocatorCreateDesc();
    aclrtAllocatorSetObjToDesc(desc, place);
    aclrtAllocatorSetAllocFuncToDesc(desc, take_for);
    aclrtAllocatorSetGetAddrFromBlockFuncToDesc(desc, address_of);
    return desc;
}
