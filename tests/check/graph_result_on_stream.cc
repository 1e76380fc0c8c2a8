/* The result of a dynamic graph, in memory that the engine took, is copied on another stream that nothing orders. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream(), other = new_stream();
    void *memory = device_memory(BYTES), *copy = device_memory(BYTES);
    {
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
#ifdef RIGHT
        MUST(aclrtSynchronizeStream(stream));
#endif
        MUST(aclrtMemcpyAsync(copy, BYTES, outputs[0].GetData(), BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
        MUST(aclrtSynchronizeStream(stream));
        MUST(aclrtSynchronizeStream(other));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtFree(copy));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
