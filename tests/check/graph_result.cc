/* The result of a graph is read before the stream was synchronized. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES), *result = device_memory(BYTES);
    {
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(COUNT)));
        std::vector<ge::Tensor> inputs = {tensor(memory)}, outputs = {tensor(result)};
        MUST_GE(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
#ifdef RIGHT
        MUST(aclrtSynchronizeStream(stream));
#endif
        float host[COUNT];
        MUST(aclrtMemcpy(host, BYTES, result, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        MUST(aclrtSynchronizeStream(stream));
    }
    MUST(aclrtFree(memory));
    MUST(aclrtFree(result));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
