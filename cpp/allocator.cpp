// Allocators of the user, as the engine calls them.

#include "allocator.h"

#include "guard.h"

namespace cairn {

static bool alloc(void *object, size_t bytes, void **block, const CairnGuard *guard)
{
    return guarded(guard, [&] { *block = static_cast<ge::Allocator *>(object)->Malloc(bytes); });
}

static bool advise(void *object, size_t bytes, void *near, void **block, const CairnGuard *guard)
{
    return guarded(guard, [&] { *block = static_cast<ge::Allocator *>(object)->MallocAdvise(bytes, near); });
}

static bool address(void *block, void **address, const CairnGuard *guard)
{
    return guarded(guard, [&] { *address = static_cast<ge::MemBlock *>(block)->GetAddr(); });
}

static void claim(const void *block, size_t *bytes, size_t *users)
{
    const auto *claimed = static_cast<const ge::MemBlock *>(block);
    *bytes = claimed->GetSize();
    *users = claimed->GetCount();
}

static bool free_block(void *, void *block, const CairnGuard *guard)
{
    return guarded(guard, [&] { static_cast<ge::MemBlock *>(block)->Free(); });
}

static void drop(void *owner)
{
    (void)guarded(nullptr, [&] { delete static_cast<ge::AllocatorPtr *>(owner); });
}

CairnStatus register_allocator(uint64_t session, const void *stream, const ge::AllocatorPtr &allocator)
{
    if (allocator == nullptr) {
        return CairnSessionRegister(session, stream, nullptr);
    }
    CairnAllocator calls = {};
    calls.object = allocator.get();
    calls.owner = new ge::AllocatorPtr(allocator);
    calls.alloc = alloc;
    calls.advise = advise;
    calls.address = address;
    calls.claim = claim;
    calls.free = free_block;
    calls.drop = drop;
    return CairnSessionRegister(session, stream, &calls);
}

}  // namespace cairn
