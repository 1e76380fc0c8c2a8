/*
 * The pool of libcairn_pool.so as an allocator of the graph engine, over the functions of pool.h.
 * Link with -lcairn_pool.
 */
#ifndef CAIRN_POOL_HPP
#define CAIRN_POOL_HPP

#include <new>
#include "cairn/pool.h"
#include "ge/ge_allocator.h"

namespace cairn {

/**
 * Takes device memory from the pool of a device, for one stream.
 *
 *     auto allocator = std::make_shared<cairn::PoolAllocator>(0, stream);
 *     session.RegisterExternalAllocator(stream, allocator);
 *
 * A block is an object of this class's making that Free deletes; it must be freed while the
 * allocator lives. The memory belongs to the pool and outlives both. Malloc and Free may be called
 * from any thread. On failure Malloc gives null, and cairn_pool_last_error says why.
 */
class PoolAllocator : public ge::Allocator {
public:
    PoolAllocator(int device, aclrtStream stream) : device_(device), stream_(stream) {}

    ge::MemBlock *Malloc(size_t size) override
    {
        void *const addr = cairn_pool_malloc(size, device_, stream_);
        if (addr == nullptr) {
            return nullptr;
        }
        ge::MemBlock *const block = new (std::nothrow) ge::MemBlock(*this, addr, size);
        if (block == nullptr) {
            (void)cairn_pool_free(addr, device_, stream_);
        }
        return block;
    }

    void Free(ge::MemBlock *block) override
    {
        if (block != nullptr) {
            (void)cairn_pool_free(block->GetAddr(), device_, stream_);
            delete block;
        }
    }

    /** The address is a hint, which the pool ignores: the same as Malloc. */
    ge::MemBlock *MallocAdvise(size_t size, void *addr) override
    {
        (void)addr;
        return Malloc(size);
    }

    int Device() const { return device_; }
    aclrtStream Stream() const { return stream_; }

private:
    int device_;
    aclrtStream stream_;
};

}  // namespace cairn

#endif
