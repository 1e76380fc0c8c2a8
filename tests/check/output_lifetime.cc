/* An output that the engine made is released after the session, and so the graph, is gone. */
#include <acl/acl.h>
#include <ge/ge_api.h>

#include <cstdio>
#include <map>
#include <memory>
#include <vector>

#include "all_ops.h"

namespace {

ge::Graph Double()
{
    ge::TensorDesc desc(ge::Shape({-1}), ge::FORMAT_ND, ge::DT_FLOAT);
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(desc);
    x.update_output_desc_y(desc);
    auto sum = ge::op::Add("sum").set_input_x1(x).set_input_x2(x);
    ge::Graph graph("double");
    graph.SetInputs({x}).SetOutputs({sum});
    return graph;
}

} // namespace

int main()
{
    aclInit(nullptr);
    aclrtSetDevice(0);
    std::map<ge::AscendString, ge::AscendString> options;
    ge::GEInitialize(options);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    void *memory;
    aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemset(memory, 64, 0, 64);
    std::vector<ge::Tensor> outputs;
    {
        auto session = std::make_unique<ge::Session>(options);
        auto graph = Double();
        session->AddGraph(1, graph);
        ge::TensorDesc desc(ge::Shape({16}), ge::FORMAT_ND, ge::DT_FLOAT);
        desc.SetPlacement(ge::kPlacementDevice);
        ge::Tensor input(desc);
        input.SetData(static_cast<uint8_t *>(memory), 64, [](uint8_t *) {});
        std::vector<ge::Tensor> inputs = {input};
        if (session->RunGraphWithStreamAsync(1, stream, inputs, outputs) != ge::SUCCESS) {
            std::fprintf(stderr, "%s\n", ge::GEGetErrorMsgV2().GetString());
            return 2;
        }
        aclrtSynchronizeStream(stream);
#ifdef RIGHT
        outputs.clear();
#endif
    }
    outputs.clear();
    aclrtDestroyStream(stream);
    aclrtFree(memory);
    ge::GEFinalize();
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
