/* A pool of the user gives its memory back while an output of a graph lies in it. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    {
        auto pool = std::make_shared<OncePool>();
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        MUST_GE(session.RegisterExternalAllocator(stream, pool));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
        MUST(aclrtSynchronizeStream(stream));
        MUST_GE(session.UnregisterExternalAllocator(stream));
        MUST_GE(session.RemoveGraph(1));
#ifdef RIGHT
        outputs.clear();
        pool->release();
#else
        pool->release();
        outputs.clear();
#endif
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
