/* A memset goes on beyond the end of an output that lies in a pool of the user. */
#include "graph.h"

int main()
{
    begin();
    run_in_pool(std::make_shared<OncePool>(), [](ge::Session &, aclrtStream stream, std::vector<ge::Tensor> &outputs) {
#ifdef RIGHT
        size_t bytes = BYTES;
#else
        size_t bytes = 1024;
#endif
        MUST(aclrtMemsetAsync(outputs[0].GetData(), bytes, 1, bytes, stream));
        MUST(aclrtSynchronizeStream(stream));
        outputs.clear();
    });
    end();
    return 0;
}
