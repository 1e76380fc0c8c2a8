/*
 * Allocators of the graph engine. C++ only; C sees nothing here.
 *
 * The classes are complete in this header and cross library boundaries: members and virtual functions
 * keep their order.
 */
#ifndef CAIRN_GE_GE_ALLOCATOR_H
#define CAIRN_GE_GE_ALLOCATOR_H

#ifdef __cplusplus

#include <cstddef>
#include <memory>

namespace cairn {
struct BlockAllocator;
}

namespace ge {

class MemBlock;

/**
 * Where the engine takes device memory from. Users derive from it; the engine does not lock it.
 */
class Allocator {
public:
    Allocator() = default;
    virtual ~Allocator() = default;
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;

    /** A block of at least `size` bytes whose count is 1, or null. */
    virtual MemBlock *Malloc(size_t size) = 0;

    /** Takes a block back whose count is 0, and disposes of the object too. */
    virtual void Free(MemBlock *block) = 0;

    /** The same as Malloc, at `addr` if that is possible. */
    virtual MemBlock *MallocAdvise(size_t size, void *addr)
    {
        (void)addr;
        return Malloc(size);
    }
};

using AllocatorPtr = std::shared_ptr<Allocator>;

/** An address with a size and a count of its users. Not safe for use by two threads at a time. */
class MemBlock {
public:
    /** Begins with a count of 1. */
    MemBlock(Allocator &allocator, void *addr, size_t size)
        : allocator_(allocator), addr_(addr), count_(1), size_(size)
    {
    }
    virtual ~MemBlock() = default;

    const void *GetAddr() const { return addr_; }
    void *GetAddr() { return addr_; }
    size_t GetSize() const { return size_; }
    void SetSize(size_t size) { size_ = size; }
    size_t GetCount() const { return count_; }

    /** One user more; gives the new count. */
    size_t AddCount() { return ++count_; }

    /** One user less; gives the new count and frees nothing. */
    size_t SubCount() { return --count_; }

    /** One user less; the last one gives the block back to its allocator. */
    void Free()
    {
        if (count_ > 0 && SubCount() == 0) {
            allocator_.Free(this);
        }
    }

private:
    friend struct cairn::BlockAllocator;
    Allocator &allocator_;
    void *addr_;
    size_t count_;
    size_t size_;
};

}  // namespace ge

#endif

#endif
