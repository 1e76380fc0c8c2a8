// Two pools one after the other on one stream, then none: the second version of the interface.
//
//   g++ unregister_allocator.cc ... -lge_runner_v2 -lgraph -lascendcl
#include <ge/ge_api_v2.h>

#include "graphs.h"
#include "pool.h"

static void Run(ge::GeSession &session, aclrtStream stream, const std::vector<float> &x) {
    ge::Tensor memory = OnDevice(x, {4, 8});
    std::vector<gert::Tensor> inputs(1);
    inputs[0] = gert::Tensor({{4, 8}, {4, 8}}, {ge::FORMAT_ND, ge::FORMAT_ND, {}}, gert::kOnDeviceHbm, ge::DT_FLOAT,
                             memory.GetData());
    inputs[0].SetSize(x.size() * sizeof(float));
    std::vector<gert::Tensor> outputs;
    CHECK(session.RunGraphWithStreamAsync(1, stream, inputs, outputs) == ge::SUCCESS,
          ge::GEGetErrorMsgV3().GetString());
    CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS, aclGetRecentErrMsg());
    CHECK(Close(outputs[0].GetAddr(), Expected(x)), "wrong numbers");
}

int main() {
    CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS, "no device");
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS, "no stream");
    CHECK(ge::GEInitializeV2({}) == ge::SUCCESS, "GEInitializeV2");
    {
        auto first = std::make_shared<SlabPool>("first", 1 << 20);
        auto second = std::make_shared<SlabPool>("second", 1 << 20);
        const std::vector<float> x = Numbers(4);
        ge::GeSession session({});
        CHECK(session.AddGraph(1, Network("network", -1)) == ge::SUCCESS, "AddGraph");

        CHECK(session.RegisterExternalAllocator(stream, first) == ge::SUCCESS, "register");
        Run(session, stream, x);
        CHECK(session.RegisterExternalAllocator(stream, second) == ge::SUCCESS, "register again: the last one wins");
        Run(session, stream, x);
        CHECK(session.UnregisterExternalAllocator(stream) == ge::SUCCESS, "unregister");
        CHECK(session.UnregisterExternalAllocator(stream) == ge::SUCCESS, "a second time nothing happens");
        const size_t served = first->Served() + second->Served();
        Run(session, stream, x);
        CHECK(first->Served() + second->Served() == served, "a pool that is not registered was asked");

        first->Print();
        second->Print();
        CHECK(session.RemoveGraph(1) == ge::SUCCESS, "RemoveGraph");
        CHECK(first->Live() == 0 && second->Live() == 0, "something is still out");
        std::printf("each pool got back what it gave\n");
    }
    ge::GEFinalizeV2();
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
