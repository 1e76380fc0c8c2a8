/* A memset goes on beyond the end of an output that lies in a pool of the user. */
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
#ifdef RIGHT
        size_t bytes = BYTES;
#else
        size_t bytes = 1024;
#endif
        MUST(aclrtMemsetAsync(outputs[0].GetData(), bytes, 1, bytes, stream));
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
