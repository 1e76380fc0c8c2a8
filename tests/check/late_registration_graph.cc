/* An allocator is registered on a stream for which a graph was loaded before. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES), *result = device_memory(BYTES);
    {
        auto pool = std::make_shared<OncePool>();
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(COUNT)));
        MUST_GE(session.CompileGraph(1));
#ifdef RIGHT
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
        MUST_GE(session.LoadGraph(1, options, stream));
#else
        MUST_GE(session.LoadGraph(1, options, stream));
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
#endif
        std::vector<ge::Tensor> inputs = {tensor(memory)}, outputs = {tensor(result)};
        MUST_GE(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        MUST(aclrtSynchronizeStream(stream));
        MUST_GE(session.RemoveGraph(1));
        MUST_GE(session.UnregisterExternalAllocator(stream));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtFree(result));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
