/* An output that the engine made is released after the session, and so the graph, is gone. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    std::vector<ge::Tensor> outputs;
    {
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        outputs = run(session, 1, stream, memory);
        MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
        outputs.clear();
#endif
    }
    outputs.clear();
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
