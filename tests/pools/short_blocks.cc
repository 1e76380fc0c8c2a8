// pooltest: --ge make
/* An allocator of graphs whose blocks say that they are as long as the last request of their slot. */
#include "cairn/factory.h"
extern "C" {
#include "pool.h"
}

namespace {

class Pool : public ge::Allocator {
public:
    Pool(int device, aclrtStream stream) : device_(device), stream_(stream) {}

    ge::MemBlock *Malloc(size_t size) override
    {
        void *const address = take(size, device_, stream_);
        return address == nullptr ? nullptr : new ge::MemBlock(*this, address, size / 512 * 512);
    }

    void Free(ge::MemBlock *block) override
    {
        give_back(block->GetAddr());
        delete block;
    }

private:
    int device_;
    aclrtStream stream_;
};

}  // namespace

extern "C" ge::Allocator *make(int device, aclrtStream stream)
{
    return new Pool(device, stream);
}
