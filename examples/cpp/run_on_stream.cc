// RunGraphWithStreamAsync: compiles, loads and runs in one call, and returns before the run is done. Outputs
// may be memory of yours, or left empty where a pool is registered or sizes are not known before.
#include <ge/ge_api.h>

#include "graphs.h"
#include "pool.h"

int main() {
    CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS, "no device");
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS, "no stream");
    CHECK(ge::GEInitialize(std::map<ge::AscendString, ge::AscendString>{}) == ge::SUCCESS, "GEInitialize");
    {
        ge::Session session(std::map<ge::AscendString, ge::AscendString>{});
        CHECK(session.AddGraph(1, Network("fixed", 4)) == ge::SUCCESS, "AddGraph");
        CHECK(session.AddGraph(2, Network("any", -1)) == ge::SUCCESS, "AddGraph");

        // Inputs and outputs in memory of the caller.
        const std::vector<float> x = Numbers(4);
        std::vector<ge::Tensor> inputs = {OnDevice(x, {4, 8})};
        std::vector<ge::Tensor> outputs = {OnDevice(std::vector<float>(16), {4, 4})};
        CHECK(session.RunGraphWithStreamAsync(1, stream, inputs, outputs) == ge::SUCCESS,
              ge::GEGetErrorMsgV2().GetString());
        CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS, aclGetRecentErrMsg());
        CHECK(Close(outputs[0].GetData(), Expected(x)), "wrong numbers");
        std::printf("graph 1: output in memory of the caller\n");

        // A static graph, no pool, and no output: refused, and the text says what to do.
        std::vector<ge::Tensor> empty_outputs;
        CHECK(session.RunGraphWithStreamAsync(1, stream, inputs, empty_outputs) != ge::SUCCESS, "should be refused");
        std::printf("refused: %s\n", ge::GEGetErrorMsgV2().GetString());

        // A dynamic graph brings its outputs itself, for any number of rows.
        for (int64_t rows : {1, 5, 4}) {
            const std::vector<float> values = Numbers(rows);
            inputs = {OnDevice(values, {rows, 8})};
            empty_outputs.clear();
            CHECK(session.RunGraphWithStreamAsync(2, stream, inputs, empty_outputs) == ge::SUCCESS,
                  ge::GEGetErrorMsgV2().GetString());
            CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS, aclGetRecentErrMsg());
            CHECK(empty_outputs[0].GetTensorDesc().GetShape().GetDim(0) == rows, "wrong size");
            CHECK(Close(empty_outputs[0].GetData(), Expected(values)), "wrong numbers");
            std::printf("graph 2: %lld rows\n", static_cast<long long>(rows));
        }
        empty_outputs.clear();  // released before the graph is unloaded
    }
    ge::GEFinalize();
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
