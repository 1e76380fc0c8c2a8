// pooltest: --ge make
/* An allocator of graphs that uses blocks again, and leaves the size of the last request in them. */
#include "cairn/factory.h"
extern "C" {
#include "pool.h"
}
#include <map>

namespace {

class Pool : public ge::Allocator {
public:
    Pool(int device, aclrtStream stream) : device_(device), stream_(stream) {}

    ge::MemBlock *Malloc(size_t size) override
    {
        void *const address = take(size, device_, stream_);
        if (address == nullptr)
            return nullptr;
        const auto known = blocks_.find(address);
        if (known == blocks_.end())
            return blocks_[address] = new ge::MemBlock(*this, address, size);
        known->second->AddCount();
        return known->second;
    }

    void Free(ge::MemBlock *block) override
    {
        give_back(block->GetAddr());
    }

private:
    int device_;
    aclrtStream stream_;
    std::map<void *, ge::MemBlock *> blocks_;
};

}  // namespace

extern "C" ge::Allocator *make(int device, aclrtStream stream)
{
    return new Pool(device, stream);
}
