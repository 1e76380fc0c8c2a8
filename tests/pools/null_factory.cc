// pooltest: --ge make
/* A factory that makes nothing. */
#include "cairn/factory.h"
extern "C" {
#include "pool.h"
}

extern "C" ge::Allocator *make(int device, aclrtStream stream)
{
    (void)device, (void)stream;
    return nullptr;
}
