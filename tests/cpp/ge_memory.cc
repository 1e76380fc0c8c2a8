// breaks: pool-freed-while-pending
// links: -lge_runner
// strings: both
/* Memory of graphs: base addresses that the application sets, in every order, and the classes of memory that an allocator serves. */
#include "ge.h"
#include "ge/ge_api.h"
#include <string>

using ge::SUCCESS;

static const ge::Status REPEAT = 1343242306, NOT_BUILT = 1343242295, UNSUPPORTED = 1343242281, NOT_EXIST = 1343242242,
                        INVALID = 1343225857;

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

/* y = x + 3: the constant is too large to be stored in the model, and is computed once at load. */
static ge::Graph filled(int64_t n)
{
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(floats({n}));
    x.update_output_desc_y(floats({n}));
    ge::TensorDesc desc(ge::Shape(std::vector<int64_t>{1}), ge::FORMAT_ND, ge::DT_INT64);
    ge::Tensor dims(desc);
    dims.SetData(reinterpret_cast<const uint8_t *>(&n), sizeof n);
    auto count = ge::op::Const("count").set_attr_value(dims);
    float three = 3;
    ge::Tensor value(ge::TensorDesc(ge::Shape(std::vector<int64_t>{}), ge::FORMAT_ND, ge::DT_FLOAT));
    value.SetData(reinterpret_cast<const uint8_t *>(&three), sizeof three);
    auto number = ge::op::Const("three").set_attr_value(value);
    auto threes = ge::op::Fill("threes").set_input_dims(count).set_input_value(number);
    auto y = ge::op::Add("y").set_input_x1(x).set_input_x2(threes);
    ge::Graph graph("filled");
    graph.SetInputs({x}).SetOutputs({y});
    return graph;
}

static void setters(aclrtStream stream)
{
    GROUP("ge_reg_9 what the setters of memory refuse, and with which code");
    ge::Session session(Options{});
    Device x(16, X), out0(16), out1(16), memory(1 << 16);
    CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
    CHECK_EQ(session.SetGraphConstMemoryBase(7, memory.data, 4096), NOT_EXIST);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, memory.data, 4096), NOT_BUILT);
    CHECK_EQ(session.UpdateGraphFeatureMemoryBase(1, memory.data, 4096), NOT_BUILT);
    CHECK_EQ(session.CompileGraph(1), SUCCESS);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, nullptr, 4096), INVALID);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, memory.data, 511), INVALID);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, X, 4096), INVALID);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, memory.data, 4096), SUCCESS);
    CHECK_EQ(session.SetGraphConstMemoryBase(1, memory.data, 4096), REPEAT);
    char *feature = static_cast<char *>(memory.data) + 8192;
    CHECK_EQ(session.UpdateGraphFeatureMemoryBase(1, feature, 16384), SUCCESS);
    CHECK_EQ(session.UpdateGraphFeatureMemoryBase(1, feature, 16384), REPEAT);
    CHECK_EQ(session.UpdateGraphRefreshableFeatureMemoryBase(1, feature, 16384), UNSUPPORTED);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(1, feature, 16384), UNSUPPORTED);
    std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
    RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(x)}, outputs));
    CHECK_EQ(session.SetGraphConstMemoryBase(1, memory.data, 4096), UNSUPPORTED);
    CHECK(session.UpdateGraphFeatureMemoryBase(1, feature, 16384) != SUCCESS);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(holds(out0.data, Y) && holds(out1.data, Z));
    CHECK_EQ(session.AddGraph(2, two_outputs(-1)), SUCCESS);
    CHECK_EQ(session.CompileGraph(2), SUCCESS);
    CHECK(session.SetGraphConstMemoryBase(2, memory.data, 4096) != SUCCESS);
    CHECK(error_text().find("static") != std::string::npos);

    GROUP("ge_reg_9 feature memory of the application that may move");
    CHECK_EQ(session.AddGraph(3, two_outputs(4), option("ge.featureBaseRefreshable", "1")), SUCCESS);
    CHECK_EQ(session.CompileGraph(3), SUCCESS);
    for (int run = 0; run < 4; run++) {
        Device feature_memory(16384);
        CHECK_EQ(session.UpdateGraphFeatureMemoryBase(3, feature_memory.data, 16384), SUCCESS);
        CHECK_OK(aclrtMemset(out0.data, 16, 0, 16));
        RUNS(session.RunGraphWithStreamAsync(3, stream, {on_device(x)}, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out0.data, Y));
    }
}

static void fixed_memory(aclrtStream stream)
{
    const int64_t n = 100000;
    std::vector<float> ones(n, 1), fours(n, 4);
    Device x(n * 4, ones.data()), out(n * 4);
    std::vector<ge::Tensor> outputs = {on_device(out, {n})};
    const std::vector<ge::Tensor> inputs = {on_device(x, {n})};

    GROUP("ge_reg_9 point 11: fixed feature memory comes from the allocator, and goes back with the graph");
    for (int loads = 0; loads < 2; loads++) {
        auto pool = std::make_shared<Pool>();
        ge::Session session(Options{});
        CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
        CHECK_EQ(session.AddGraph(1, filled(n), option("ge.exec.staticMemoryPolicy", "2")), SUCCESS);
        CHECK_EQ(session.CompileGraph(1), SUCCESS);
        size_t size = 0;
        CHECK_EQ(session.GetCompiledGraphSummary(1)->GetFixedFeatureMemorySize(size), SUCCESS);
        CHECK(size >= size_t(n) * 4);
        if (loads)
            RUNS(session.LoadGraph(1, {}, stream));
        for (int run = 0; run < 2; run++)
            RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out.data, fours.data(), n));
        CHECK_EQ(pool->classes[CAIRN_CLASS_FIXED], 1);
        CHECK_EQ(session.RemoveGraph(1), SUCCESS);
        CHECK_EQ(pool->live.size(), 0);

        GROUP("ge_reg_9 it is not taken where the application set feature memory, or set none (a null base)");
        CHECK_EQ(session.AddGraph(2, filled(n), option("ge.exec.staticMemoryPolicy", "2")), SUCCESS);
        CHECK_EQ(session.CompileGraph(2), SUCCESS);
        CHECK_EQ(session.GetCompiledGraphSummary(2)->GetFeatureMemorySize(size), SUCCESS);
        Device feature(size);
        CHECK_EQ(session.UpdateGraphFeatureMemoryBase(2, feature.data, size), SUCCESS);
        RUNS(session.RunGraphWithStreamAsync(2, stream, inputs, outputs));
        CHECK_EQ(session.AddGraph(3, filled(n), option("ge.exec.staticMemoryPolicy", "2")), SUCCESS);
        CHECK_EQ(session.CompileGraph(3), SUCCESS);
        CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(3, nullptr, 0), SUCCESS);
        RUNS(session.RunGraphWithStreamAsync(3, stream, inputs, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(out.data, fours.data(), n));
        CHECK_EQ(pool->classes[CAIRN_CLASS_FIXED], 1);
        CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);
    }

    GROUP("ge_reg_9 point 12: what the setters of fixed memory take");
    ge::Session session(Options{});
    Device mine(n * 4 + 4096);
    CHECK_EQ(session.AddGraph(1, filled(n), option("ge.featureBaseRefreshable", "1")), SUCCESS);
    CHECK_EQ(session.CompileGraph(1), SUCCESS);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(1, nullptr, 8), INVALID);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBaseWithType(1, ge::MemoryType::MEMORY_TYPE_P2P, nullptr, 0), INVALID);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBaseWithType(1, static_cast<ge::MemoryType>(9), mine.data, 8), INVALID);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(1, mine.data, 8), INVALID);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(1, mine.data, mine.bytes), SUCCESS);
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(1, mine.data, mine.bytes), REPEAT);
    RUNS(session.RunGraphWithStreamAsync(1, stream, inputs, outputs));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(holds(out.data, fours.data(), n));
    CHECK(holds(mine.data, std::vector<float>(n, 3).data(), n));
    CHECK_EQ(session.AddGraph(2, two_outputs(4)), SUCCESS);
    CHECK_EQ(session.CompileGraph(2), SUCCESS);
    (void)ge::GEGetWarningMsgV2();
    CHECK_EQ(session.SetGraphFixedFeatureMemoryBase(2, mine.data, 64), SUCCESS); /* it has none: no effect */
    CHECK(std::string(ge::GEGetWarningMsgV2().GetString()).find("not used") != std::string::npos);
    CHECK_EQ(session.UpdateGraphFeatureMemoryBase(2, mine.data, mine.bytes), SUCCESS);
}

static void shared_memory(aclrtStream stream)
{
    GROUP("ge_run_13 points 8 and 15: run, then execute; outputs with null data get memory");
    Device x(16, X), out0(16), out1(16);
    auto pool = std::make_shared<Pool>();
    ge::Session session(Options{});
    CHECK_EQ(session.RegisterExternalAllocator(stream, pool), SUCCESS);
    CHECK_EQ(session.AddGraph(1, two_outputs(4)), SUCCESS);
    std::vector<ge::Tensor> outputs = {on_device(out0), on_device(out1)};
    RUNS(session.RunGraphWithStreamAsync(1, stream, {on_device(x)}, outputs));
    std::vector<gert::Tensor> inputs(1), results(2);
    inputs[0] = gert_tensor(x.data, 16);
    RUNS(session.ExecuteGraphWithStreamAsync(1, stream, inputs, results));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(pool->Holds(results[0].GetAddr()) && pool->Holds(results[1].GetAddr()));
    CHECK(holds(results[0].GetAddr(), Y) && holds(results[1].GetAddr(), Z) && holds(out0.data, Y));
    CHECK_EQ(results[0].GetDataType(), ge::DT_FLOAT);
    CHECK_EQ(results[0].GetStorageShape().GetDim(0), 4);
    results.clear();
    CHECK_EQ(session.RemoveGraph(1), SUCCESS);
    CHECK_EQ(pool->live.size(), 0);

    GROUP("ge_reg_9 point 16: two graphs share one allocator; blocks and workspaces are balanced");
    CHECK_EQ(session.AddGraph(2, two_outputs(-1)), SUCCESS);
    CHECK_EQ(session.AddGraph(3, two_outputs(4)), SUCCESS);
    for (int run = 0; run < 10; run++)
        for (uint32_t id = 2; id <= 3; id++) {
            std::vector<ge::Tensor> mine;
            RUNS(session.RunGraphWithStreamAsync(id, stream, {on_device(x)}, mine));
            CHECK_OK(aclrtSynchronizeStream(stream));
            CHECK(mine.size() == 2 && holds(mine[0].GetData(), Y));
        }
    CHECK_EQ(session.RemoveGraph(2), SUCCESS);
    CHECK_EQ(session.RemoveGraph(3), SUCCESS);
    CHECK_EQ(pool->mallocs, pool->frees);
    CHECK_EQ(session.UnregisterExternalAllocator(stream), SUCCESS);

    GROUP("ge_run_10 an output may be the memory of an input, declared or not");
    for (int declared = 0; declared < 2; declared++) {
        Device in_and_out(16, X);
        const uint32_t id = 10 + declared;
        CHECK_EQ(session.AddGraph(id, two_outputs(4), declared ? option("ge.exec.outputReuseInputMemIndexes", "0,0") : Options{}), SUCCESS);
        std::vector<ge::Tensor> same = {on_device(in_and_out), on_device(out1)};
        RUNS(session.RunGraphWithStreamAsync(id, stream, {on_device(in_and_out)}, same));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(in_and_out.data, Y) && holds(out1.data, Z));
    }

    GROUP("ge_run_3 inputs that are frozen stay where they are");
    Device other(16, X);
    CHECK_EQ(session.AddGraph(20, two_outputs(4)), SUCCESS);
    CHECK_EQ(session.CompileGraph(20), SUCCESS);
    RUNS(session.LoadGraph(20, option("ge.exec.frozenInputIndexes", "0"), stream));
    inputs[0] = gert_tensor(x.data, 16);
    RUNS(session.ExecuteGraphWithStreamAsync(20, stream, inputs, results));
    inputs[0] = gert_tensor(other.data, 16);
    CHECK(session.ExecuteGraphWithStreamAsync(20, stream, inputs, results) != SUCCESS);
    CHECK(error_text().find("frozen") != std::string::npos);
    CHECK_OK(aclrtSynchronizeStream(stream));
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);
    setters(stream);
    fixed_memory(stream);
    shared_memory(stream);
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
    CHECK_OK(aclrtDestroyStream(stream));
    return END();
}
