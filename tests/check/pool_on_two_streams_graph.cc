/* One pool of the user serves graphs on two streams, which nothing orders. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream first = new_stream(), second = new_stream();
    void *memory = device_memory(BYTES);
    {
        auto pool = std::make_shared<OncePool>();
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        MUST_GE(session.AddGraph(2, doubling(-1)));
        MUST_GE(session.RegisterExternalAllocator(first, pool));
        MUST_GE(session.RegisterExternalAllocator(second, pool));
        std::vector<ge::Tensor> a = run(session, 1, first, memory);
#ifdef RIGHT
        MUST(aclrtSynchronizeStream(first));
#endif
        std::vector<ge::Tensor> b = run(session, 2, second, memory);
        MUST(aclrtSynchronizeStream(first));
        MUST(aclrtSynchronizeStream(second));
        a.clear();
        b.clear();
        MUST_GE(session.UnregisterExternalAllocator(first));
        MUST_GE(session.UnregisterExternalAllocator(second));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
