// Allocators of the user, as the engine calls them.
#ifndef CAIRN_CPP_ALLOCATOR_H
#define CAIRN_CPP_ALLOCATOR_H

#include "bridge.h"
#include "ge/ge_allocator.h"

namespace cairn __attribute__((visibility("hidden"))) {

// Registers an allocator on a stream; the engine holds a reference from here on.
CairnStatus register_allocator(uint64_t session, const void *stream, const ge::AllocatorPtr &allocator);

}  // namespace cairn

#endif
