// The C callbacks through which the engine calls a user allocator.

#include "allocator.h"

#include "user_call.h"

namespace cairn {

/** Which allocator a block goes back to. */
struct BlockAllocator {
    static const ge::Allocator &of(const ge::MemBlock &block) { return block.allocator_; }
};

static bool alloc(void *object, size_t bytes, void **block, const CairnCallContext *call_context)
{
    return call_user(call_context, [&] { *block = static_cast<ge::Allocator *>(object)->Malloc(bytes); });
}

static bool advise(void *object, size_t bytes, void *address_hint, void **block, const CairnCallContext *call_context)
{
    return call_user(call_context, [&] { *block = static_cast<ge::Allocator *>(object)->MallocAdvise(bytes, address_hint); });
}

static bool address(void *block, void **address, const CairnCallContext *call_context)
{
    return call_user(call_context, [&] { *address = static_cast<ge::MemBlock *>(block)->GetAddr(); });
}

static void block_info(const void *block, size_t *bytes, size_t *reference_count, const void **allocator)
{
    const auto *mem_block = static_cast<const ge::MemBlock *>(block);
    *bytes = mem_block->GetSize();
    *reference_count = mem_block->GetCount();
    *allocator = &BlockAllocator::of(*mem_block);
}

static bool free_block(void *, void *block, const CairnCallContext *call_context)
{
    return call_user(call_context, [&] { static_cast<ge::MemBlock *>(block)->Free(); });
}

static void drop(void *owner)
{
    (void)call_user(nullptr, [&] { delete static_cast<ge::AllocatorPtr *>(owner); });
}

CairnStatus register_allocator(uint64_t session, const void *stream, const ge::AllocatorPtr &allocator)
{
    if (allocator == nullptr) {
        return CairnSessionRegister(session, stream, nullptr);
    }
    CairnAllocator callbacks = {};
    callbacks.object = allocator.get();
    callbacks.owner = new ge::AllocatorPtr(allocator);
    callbacks.alloc = alloc;
    callbacks.advise = advise;
    callbacks.address = address;
    callbacks.block_info = block_info;
    callbacks.free = free_block;
    callbacks.drop = drop;
    return CairnSessionRegister(session, stream, &callbacks);
}

}  // namespace cairn
