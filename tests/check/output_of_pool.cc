/* A pool of the user gives its memory back while an output of a graph lies in it. */
#include "graph.h"

int main()
{
    begin();
    auto pool = std::make_shared<OncePool>();
    run_in_pool(pool, [&](ge::Session &session, aclrtStream stream, std::vector<ge::Tensor> &outputs) {
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
    });
    pool.reset();
    end();
    return 0;
}
