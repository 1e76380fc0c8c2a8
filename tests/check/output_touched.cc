/* An output that the engine made is copied after its graph was removed. */
#include "graph.h"

int main()
{
    begin();
    Options options;
    MUST_GE(ge::GEInitialize(options));
    aclrtStream stream = new_stream();
    void *memory = device_memory(BYTES);
    {
        ge::Session session(options);
        MUST_GE(session.AddGraph(1, doubling(-1)));
        std::vector<ge::Tensor> outputs = run(session, 1, stream, memory);
        MUST(aclrtSynchronizeStream(stream));
        float host[COUNT];
#ifdef RIGHT
        MUST(aclrtMemcpy(host, BYTES, outputs[0].GetData(), BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        outputs.clear();
        MUST_GE(session.RemoveGraph(1));
#else
        MUST_GE(session.RemoveGraph(1));
        MUST(aclrtMemcpy(host, BYTES, outputs[0].GetData(), BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
#endif
    }
    MUST(aclrtFree(memory));
    MUST(aclrtDestroyStream(stream));
    MUST_GE(ge::GEFinalize());
    end();
    return 0;
}
