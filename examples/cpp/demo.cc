// What `cargo xtask demo` runs: a pool of your own on each of two streams, a static and a dynamic graph on
// them, on the CPU device that comes with Cairn.
#include <ge/ge_api.h>

#include "graphs.h"
#include "pool.h"

int main() {
    CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS, "no device");
    aclrtStream left = nullptr;
    aclrtStream right = nullptr;
    CHECK(aclrtCreateStream(&left) == ACL_SUCCESS && aclrtCreateStream(&right) == ACL_SUCCESS, "no stream");
    CHECK(ge::GEInitialize(std::map<ge::AscendString, ge::AscendString>{}) == ge::SUCCESS, "GEInitialize");
    {
        auto pool_left = std::make_shared<SlabPool>("left", 1 << 20);
        auto pool_right = std::make_shared<SlabPool>("right", 1 << 20);
        ge::Session session(std::map<ge::AscendString, ge::AscendString>{});
        CHECK(session.RegisterExternalAllocator(left, pool_left) == ge::SUCCESS, "register");
        CHECK(session.RegisterExternalAllocator(right, pool_right) == ge::SUCCESS, "register");

        std::printf("graph 1, static, on the left stream: LoadGraph, ExecuteGraphWithStreamAsync\n");
        const std::map<ge::AscendString, ge::AscendString> refreshable = {
            {ge::AscendString("ge.featureBaseRefreshable"), ge::AscendString("1")}};
        CHECK(session.AddGraph(1, Network("static", 4), refreshable) == ge::SUCCESS, "AddGraph");
        CHECK(session.CompileGraph(1) == ge::SUCCESS, ge::GEGetErrorMsgV2().GetString());
        CHECK(session.LoadGraph(1, {}, left) == ge::SUCCESS, ge::GEGetErrorMsgV2().GetString());
        const std::vector<float> x = Numbers(4);
        ge::Tensor memory = OnDevice(x, {4, 8});
        std::vector<gert::Tensor> inputs(1);
        inputs[0] = gert::Tensor({{4, 8}, {4, 8}}, {ge::FORMAT_ND, ge::FORMAT_ND, {}}, gert::kOnDeviceHbm, ge::DT_FLOAT,
                                 memory.GetData());
        inputs[0].SetSize(x.size() * sizeof(float));
        {
            std::vector<gert::Tensor> outputs;
            for (int run = 0; run < 3; ++run) {
                CHECK(session.ExecuteGraphWithStreamAsync(1, left, inputs, outputs) == ge::SUCCESS,
                      ge::GEGetErrorMsgV2().GetString());
            }
            CHECK(aclrtSynchronizeStream(left) == ACL_SUCCESS, aclGetRecentErrMsg());
            CHECK(Close(outputs[0].GetAddr(), Expected(x)), "wrong numbers");
            std::printf("  numbers are right; feature memory was asked for again %zu times where it was\n",
                        pool_left->Advised());
            pool_left->Print();
        }

        std::printf("graph 2, dynamic, on the right stream: RunGraphWithStreamAsync with empty outputs\n");
        CHECK(session.AddGraph(2, Network("dynamic", -1)) == ge::SUCCESS, "AddGraph");
        for (int64_t rows : {2, 64, 2}) {
            const std::vector<float> values = Numbers(rows);
            std::vector<ge::Tensor> run_inputs = {OnDevice(values, {rows, 8})};
            std::vector<ge::Tensor> results;
            CHECK(session.RunGraphWithStreamAsync(2, right, run_inputs, results) == ge::SUCCESS,
                  ge::GEGetErrorMsgV2().GetString());
            CHECK(aclrtSynchronizeStream(right) == ACL_SUCCESS, aclGetRecentErrMsg());
            CHECK(Close(results[0].GetData(), Expected(values)), "wrong numbers");
        }
        std::printf("  numbers are right for 2, 64 and 2 rows\n");
        pool_right->Print();

        CHECK(session.RemoveGraph(1) == ge::SUCCESS && session.RemoveGraph(2) == ge::SUCCESS, "RemoveGraph");
        CHECK(session.UnregisterExternalAllocator(left) == ge::SUCCESS, "unregister");
        CHECK(session.UnregisterExternalAllocator(right) == ge::SUCCESS, "unregister");
        CHECK(pool_left->Live() == 0 && pool_right->Live() == 0, "something is still out");
        std::printf("graphs removed, pools unregistered: every block is back\n");
    }
    ge::GEFinalize();
    aclrtDestroyStream(left);
    aclrtDestroyStream(right);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
