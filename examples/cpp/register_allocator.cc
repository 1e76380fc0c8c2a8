// A pool of your own under a graph: RegisterExternalAllocator, LoadGraph, ExecuteGraphWithStreamAsync.
//
//   g++ register_allocator.cc -I$ASCEND_HOME_PATH/include -I$ASCEND_HOME_PATH/opp/built-in/op_graph/inc
//       -L$ASCEND_HOME_PATH/lib64 -lge_runner -lgraph -lascendcl
#include <ge/ge_api.h>

#include "graphs.h"
#include "pool.h"

int main() {
    CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS, "no device");
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS, "no stream");
    CHECK(ge::GEInitialize(std::map<ge::AscendString, ge::AscendString>{}) == ge::SUCCESS, "GEInitialize");
    {
        auto pool = std::make_shared<SlabPool>("pool", 1 << 20);
        ge::Session session(std::map<ge::AscendString, ge::AscendString>{});
        // Before LoadGraph, so that constants and feature memory come from it too.
        CHECK(session.RegisterExternalAllocator(stream, pool) == ge::SUCCESS, "register");
        CHECK(session.AddGraph(1, Network("network", 4)) == ge::SUCCESS, "AddGraph");
        CHECK(session.CompileGraph(1) == ge::SUCCESS, ge::GEGetErrorMsgV2().GetString());
        CHECK(session.LoadGraph(1, {}, stream) == ge::SUCCESS, ge::GEGetErrorMsgV2().GetString());

        const std::vector<float> x = Numbers(4);
        ge::Tensor memory = OnDevice(x, {4, 8});
        std::vector<gert::Tensor> inputs(1);
        inputs[0] = gert::Tensor({{4, 8}, {4, 8}}, {ge::FORMAT_ND, ge::FORMAT_ND, {}}, gert::kOnDeviceHbm, ge::DT_FLOAT,
                                 memory.GetData());
        inputs[0].SetSize(x.size() * sizeof(float));
        {
            std::vector<gert::Tensor> outputs;  // empty: the engine takes memory for them from the pool
            CHECK(session.ExecuteGraphWithStreamAsync(1, stream, inputs, outputs) == ge::SUCCESS,
                  ge::GEGetErrorMsgV2().GetString());
            CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS, aclGetRecentErrMsg());
            CHECK(outputs.size() == 1 && Close(outputs[0].GetAddr(), Expected(x)), "wrong numbers");
            std::printf("what graph 1 took from the pool:\n");
            pool->Print();
        }  // outputs go back to the pool here
        CHECK(session.RemoveGraph(1) == ge::SUCCESS, "RemoveGraph");
        CHECK(session.UnregisterExternalAllocator(stream) == ge::SUCCESS, "unregister");
        CHECK(pool->Live() == 0, "something is still out");
        std::printf("all blocks are back\n");
    }
    ge::GEFinalize();
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
