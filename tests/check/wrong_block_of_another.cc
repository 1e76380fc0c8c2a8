/* An allocator hands out blocks that were made with another allocator, to which they go back. */
#include "graph.h"

class Other : public OncePool {
public:
    void Free(ge::MemBlock *block) override { delete block; }
};

/* Its memory, and blocks that name another allocator. */
class Mixed : public OncePool {
public:
    ge::MemBlock *Malloc(size_t size) override
    {
#ifdef RIGHT
        return OncePool::Malloc(size);
#else
        std::unique_ptr<ge::MemBlock> block(OncePool::Malloc(size));
        return new ge::MemBlock(other_, block->GetAddr(), size);
#endif
    }

private:
    Other other_;
};

int main()
{
    begin();
    run_in_pool(std::make_shared<Mixed>(), [](ge::Session &, aclrtStream stream, std::vector<ge::Tensor> &outputs) {
        MUST(aclrtSynchronizeStream(stream));
        outputs.clear();
    });
    end();
    return 0;
}
