/* A block of a user's allocator is freed by the program while the engine has it. */
#include "graph.h"

/* It remembers the last block, and keeps the objects to its end. */
class Remembering : public OncePool {
public:
    ge::MemBlock *Malloc(size_t size) override
    {
        blocks_.emplace_back(OncePool::Malloc(size));
        return blocks_.back().get();
    }

    void Free(ge::MemBlock *) override {}

    ge::MemBlock *last() { return blocks_.back().get(); }

private:
    std::vector<std::unique_ptr<ge::MemBlock>> blocks_;
};

int main()
{
    begin();
    auto pool = std::make_shared<Remembering>();
    run_in_pool(pool, [&](ge::Session &, aclrtStream stream, std::vector<ge::Tensor> &outputs) {
        MUST(aclrtSynchronizeStream(stream));
#ifndef RIGHT
        pool->last()->Free();
#endif
        outputs.clear();
    });
    pool.reset();
    end();
    return 0;
}
