// pooltest: --ge make
/* Cairn's own pool as an allocator of graphs. */
#include "cairn/factory.h"
#include "cairn/pool.hpp"

extern "C" ge::Allocator *make(int device, aclrtStream stream)
{
    return new cairn::PoolAllocator(device, stream);
}
