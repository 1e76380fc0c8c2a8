// tools: leak
/* A graph is still loaded, and an output not released, when the program ends. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    auto *session = new ge::Session(options);
    MUST_GE(session->AddGraph(1, doubling(-1)));
    auto *outputs = new std::vector<ge::Tensor>(run(*session, 1, stream, memory));
    MUST(aclrtSynchronizeStream(stream));
#ifdef RIGHT
    delete outputs;
    delete session;
    MUST_GE(ge::GEFinalize());
#else
    (void)outputs;
#endif
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
#ifdef RIGHT
    end();
#endif
    return 0;
}
