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
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    {
        auto pool = std::make_shared<Mixed>();
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
        MUST(aclrtSynchronizeStream(stream));
        outputs.clear();
        MUST_GE(session.UnregisterExternalAllocator(stream));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
