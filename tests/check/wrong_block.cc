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
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    {
        auto pool = std::make_shared<Remembering>();
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
        MUST(aclrtSynchronizeStream(stream));
#ifndef RIGHT
        pool->last()->Free();
#endif
        outputs.clear();
        MUST_GE(session.UnregisterExternalAllocator(stream));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
