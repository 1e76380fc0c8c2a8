// breaks: pool-freed-while-pending
// links: -lge_runner -lopp_registry -lopapi
// strings: both
/* Operators of the program's own in graphs: what they are called with, whose memory they use, and what their failures are. */
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "ge.h"
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "graph/custom_op.h"
#include "graph/operator_reg.h"
#include "register/op_impl_registry.h"
#include <atomic>
#include <future>

using Ports = std::vector<std::pair<ge::Operator, std::vector<size_t>>>;

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

namespace ge {
REG_OP(Blend)
    .INPUT(x, TensorType::ALL())
    .OPTIONAL_INPUT(bias, TensorType::ALL())
    .DYNAMIC_INPUT(more, TensorType::ALL())
    .OUTPUT(y, TensorType::ALL())
    .ATTR(factor, Float, 1.0)
    .ATTR(title, String, "none")
    .ATTR(numbers, ListInt, {4, 5})
    .ATTR(flag, Bool, true)
    .REQUIRED_ATTR(count, Int)
    .OP_END_FACTORY_REG(Blend)
REG_OP(Raise)
    .INPUT(x, TensorType::ALL())
    .INPUT(by, TensorType({DT_FLOAT}))
    .OPTIONAL_INPUT(word, TensorType({DT_STRING}))
    .OUTPUT(y, TensorType::ALL())
    .OP_END_FACTORY_REG(Raise)
IMPL_OP(Raise).InputsDataDependency({1, 2});
REG_OP(Bump)
    .INPUT(x, TensorType::ALL())
    .OUTPUT(x, TensorType::ALL())
    .OUTPUT(before, TensorType::ALL())
    .OP_END_FACTORY_REG(Bump)
REG_OP(Halves)
    .INPUT(x, TensorType::ALL())
    .DYNAMIC_OUTPUT(y, TensorType::ALL())
    .OP_END_FACTORY_REG(Halves)
REG_OP(Wrong)
    .INPUT(x, TensorType::ALL())
    .OUTPUT(y, TensorType::ALL())
    .OUTPUT(z, TensorType::ALL())
    .OP_END_FACTORY_REG(Wrong)
REG_OP(Nothing).INPUT(x, TensorType::ALL()).OUTPUT(y, TensorType::ALL()).OP_END_FACTORY_REG(Nothing)
REG_OP(Lazy).INPUT(x, TensorType::ALL()).OUTPUT(y, TensorType::ALL()).OP_END_FACTORY_REG(Lazy)
REG_OP(Unknown).INPUT(x, TensorType::ALL()).OUTPUT(y, TensorType::ALL()).OP_END_FACTORY_REG(Unknown)
}  // namespace ge

/* A tensor of aclnn over one of the graph's. */
static aclTensor *view(const gert::Tensor *tensor)
{
    std::vector<int64_t> dims, strides;
    const gert::Shape &shape = tensor->GetStorageShape();
    for (size_t at = 0; at < shape.GetDimNum(); at++)
        dims.push_back(shape.GetDim(at));
    strides.assign(dims.size(), 1);
    for (size_t at = dims.size(); at > 1; at--)
        strides[at - 2] = strides[at - 1] * dims[at - 1];
    return aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND, dims.data(), dims.size(),
                           const_cast<void *>(tensor->GetAddr()));
}

/* out = a + alpha * b, submitted to the call's stream with scratch memory of the call. */
static int add(gert::EagerOpExecutionContext *ctx, const gert::Tensor *a, const gert::Tensor *b, float alpha, const gert::Tensor *out)
{
    aclTensor *const left = view(a), *const right = view(b), *const sum = view(out);
    aclScalar *const scalar = aclCreateScalar(&alpha, ACL_FLOAT);
    uint64_t bytes = 0;
    aclOpExecutor *executor = nullptr;
    int code = aclnnAddGetWorkspaceSize(left, right, scalar, sum, &bytes, &executor);
    if (code == 0) {
        void *const workspace = ctx->MallocWorkSpace(bytes + 1);
        code = workspace == nullptr ? 1 : aclnnAdd(workspace, bytes, executor, ctx->GetStream());
    }
    aclDestroyTensor(left), aclDestroyTensor(right), aclDestroyTensor(sum), aclDestroyScalar(scalar);
    return code;
}

static std::atomic<int> blend_calls{0};
static std::string last_blend;

/* y = x + factor * bias + the tensors of more; x where bias is not fed. */
class Blend : public ge::EagerExecuteOp {
public:
    ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
    {
        blend_calls++;
        const gert::Tensor *const x = ctx->GetRequiredInputTensor(0), *const bias = ctx->GetOptionalInputTensor(1);
        CHECK(x != nullptr && x == ctx->GetInputTensor(0) && x->GetPlacement() == gert::kOnDeviceHbm);
        const size_t more = ctx->GetIrInputInstanceInfo(2)->GetInstanceNum();
        CHECK_EQ(ctx->GetComputeNodeInputNum(), 1 + (bias != nullptr) + more);
        CHECK(ctx->GetDynamicInputTensor(2, more) == nullptr && ctx->GetInputTensor(9) == nullptr);
        CHECK(ctx->GetIrInputInstanceInfo(3) == nullptr && ctx->GetRequiredInputTensor(3) == nullptr);
        CHECK(std::string(ctx->GetNodeType()) == "Blend" && ctx->GetComputeNodeOutputNum() == 1);
        CHECK(ctx->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT && ctx->GetOutputTensor(0)->GetAddr() == nullptr);
        const gert::RuntimeAttrs *const attrs = ctx->GetAttrs();
        CHECK_EQ(attrs->GetAttrNum(), 5);
        const gert::TypedContinuousVector<int64_t> *const numbers = attrs->GetListInt(2);
        CHECK(numbers != nullptr && numbers->GetSize() == 2 && numbers->GetData()[1] == 5);
        CHECK(attrs->GetInt(0) == nullptr && attrs->GetStr(0) == nullptr && attrs->GetFloat(7) == nullptr);
        CHECK(*attrs->GetBool(3) && *attrs->GetAttrPointer<int64_t>(4) == 7);
        last_blend = std::string(ctx->GetNodeName()) + " " + attrs->GetStr(1);
        gert::Tensor *const y = ctx->MallocOutputTensor(0, x->GetShape(), x->GetFormat(), x->GetDataType());
        if (y == nullptr)
            return 55;
        CHECK(y == ctx->GetOutputTensor(0) && y->GetAddr() != nullptr && y->GetSize() == x->GetSize());
        CHECK(y == ctx->MallocOutputTensor(0, x->GetShape(), x->GetFormat(), x->GetDataType()));
        CHECK_OK(aclrtMemcpyAsync(y->GetAddr(), y->GetSize(), x->GetAddr(), x->GetSize(), ACL_MEMCPY_DEVICE_TO_DEVICE, ctx->GetStream()));
        if (bias != nullptr && add(ctx, y, bias, *attrs->GetFloat(0), y) != 0)
            return 56;
        for (size_t at = 0; at < more; at++)
            if (add(ctx, y, ctx->GetDynamicInputTensor(2, at), 1, y) != 0)
                return 57;
        return ge::GRAPH_SUCCESS;
    }
};
REG_AUTO_MAPPING_OP(Blend);

static std::string word_read;

/* y = x + by * x, where `by` is read by the host. */
class Raise : public ge::EagerExecuteOp {
public:
    ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
    {
        const gert::Tensor *const x = ctx->GetInputTensor(0), *const by = ctx->GetInputTensor(1);
        float factor = 0;
        CHECK_OK(aclrtMemcpy(&factor, sizeof factor, by->GetAddr(), sizeof factor, ACL_MEMCPY_DEVICE_TO_HOST));
        word_read.clear();
        if (const gert::Tensor *const word = ctx->GetOptionalInputTensor(2)) {
            CHECK_EQ(word->GetDataType(), ge::DT_STRING);
            word_read.resize(word->GetSize());
            CHECK_OK(aclrtMemcpy(&word_read[0], word_read.size(), word->GetAddr(), word_read.size(), ACL_MEMCPY_DEVICE_TO_HOST));
        }
        return add(ctx, x, x, factor, ctx->MallocOutputTensor(0, x->GetShape(), x->GetFormat(), x->GetDataType()));
    }
};
REG_AUTO_MAPPING_OP(Raise);

/* Doubles x in place; its second output is the old value. */
class Bump : public ge::EagerExecuteOp {
public:
    ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
    {
        const gert::Tensor *const x = ctx->GetInputTensor(0);
        CHECK(ctx->MallocOutputTensor(0, x->GetShape(), x->GetFormat(), x->GetDataType()) == nullptr);
        CHECK(ctx->MakeOutputRefInput(1, 0) == nullptr && ctx->MakeOutputRefInput(0, 1) == nullptr);
        gert::Tensor *const before = ctx->MallocOutputTensor(1, x->GetShape(), x->GetFormat(), x->GetDataType());
        CHECK_OK(aclrtMemcpyAsync(before->GetAddr(), before->GetSize(), x->GetAddr(), x->GetSize(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                                  ctx->GetStream()));
        const gert::Tensor *const after = ctx->MakeOutputRefInput(0, 0);
        CHECK(after != nullptr && after->GetAddr() == x->GetAddr());
        return add(ctx, x, before, 1, after);
    }
};
REG_AUTO_MAPPING_OP(Bump);

/* Splits x into its outputs: their sizes are known only after it ran. */
class Halves : public ge::EagerExecuteOp {
public:
    ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
    {
        const gert::Tensor *const x = ctx->GetInputTensor(0);
        const size_t parts = ctx->GetIrOutputInstanceInfo(0)->GetInstanceNum();
        const int64_t each = x->GetShapeSize() / static_cast<int64_t>(parts);
        for (size_t at = 0; at < parts; at++) {
            const gert::Tensor *const y = ctx->MallocOutputTensor(at, {{each}, {each}}, {}, ge::DT_FLOAT);
            const char *const from = static_cast<const char *>(x->GetAddr()) + at * y->GetSize();
            CHECK_OK(aclrtMemcpyAsync(const_cast<void *>(y->GetAddr()), y->GetSize(), from, y->GetSize(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                                      ctx->GetStream()));
        }
        return ge::GRAPH_SUCCESS;
    }
};
REG_AUTO_MAPPING_OP(Halves);

static int fault;

/* Fails in the way that `fault` chooses. */
class Wrong : public ge::EagerExecuteOp {
public:
    ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
    {
        const gert::Tensor *const x = ctx->GetInputTensor(0);
        const auto make = [&](size_t index) { return ctx->MallocOutputTensor(index, x->GetShape(), x->GetFormat(), x->GetDataType()); };
        switch (fault) {
            case 1:
                return 77;
            case 2:
                throw std::runtime_error("thrown by Execute");
            case 3:
                throw 3;
            case 4:
                make(1);
                return ge::GRAPH_SUCCESS;
            case 5:
                CHECK(make(2) == nullptr);
                return 78;
            case 6:
                CHECK(ctx->MallocOutputTensor(0, {{-1}, {-1}}, {}, ge::DT_FLOAT) == nullptr);
                return ge::GRAPH_FAILED;
            case 7:
                CHECK(ctx->MallocOutputTensor(0, {{4}, {4}}, {ge::FORMAT_FRACTAL_NZ, ge::FORMAT_FRACTAL_NZ, {}}, ge::DT_FLOAT) == nullptr);
                return ge::GRAPH_FAILED;
            case 8:
                CHECK(make(0) != nullptr && ctx->MallocOutputTensor(0, {{999}, {999}}, {}, ge::DT_FLOAT) == nullptr);
                return ge::GRAPH_FAILED;
            case 9:
                return make(0) == nullptr || ctx->MallocWorkSpace(64) == nullptr ? 79 : ge::GRAPH_SUCCESS;
            case 10: /* A task that fails: the failure is the stream's. */
                return aclrtMemcpyAsync(make(0)->GetAddr(), 16, x->GetAddr(), 1 << 30, ACL_MEMCPY_DEVICE_TO_DEVICE, ctx->GetStream());
            default:
                CHECK_OK(aclrtMemcpyAsync(make(0)->GetAddr(), x->GetSize(), x->GetAddr(), x->GetSize(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                                          ctx->GetStream()));
                return ge::GRAPH_SUCCESS;
        }
    }
};
REG_AUTO_MAPPING_OP(Wrong);

/* Has no Execute. */
class Lazy : virtual public ge::BaseCustomOp {};
REG_AUTO_MAPPING_OP(Lazy);

static const ge::CustomOpCreatorRegister nothing("Nothing", []() -> std::unique_ptr<ge::BaseCustomOp> { return nullptr; });

template <typename T>
static ge::op::Data data(const char *name, const T &dims)
{
    auto x = ge::op::Data(name).set_attr_index(0);
    x.update_input_desc_x(floats(dims));
    x.update_output_desc_y(floats(dims));
    return x;
}

/* z = blend(x + 1), y = 2 * relu(z): intermediates before and after the custom operator, and outputs. */
static ge::Graph blend_graph(int64_t n)
{
    auto x = data("x", std::vector<int64_t>{n});
    auto one = number("one", 1), two = number("two", 2);
    auto sum = ge::op::Add("sum").set_input_x1(x).set_input_x2(one);
    auto z = ge::op::Blend("z").set_input_x(sum).set_input_bias(x).create_dynamic_input_more(2).set_dynamic_input_more(0, x);
    z.set_dynamic_input_more(1, sum).set_attr_factor(2).set_attr_title("both").set_attr_count(7);
    auto r = ge::op::Relu("r").set_input_x(z);
    auto y = ge::op::Mul("y").set_input_x1(r).set_input_x2(two);
    ge::Graph graph("blend");
    graph.SetInputs({x}).SetOutputs({y, z});
    return graph;
}

static float blend(float x) { return (x + 1) + 2 * x + x + (x + 1); }

static std::vector<float> blend_of(const std::vector<float> &x, bool is_y)
{
    std::vector<float> results;
    for (float one : x)
        results.push_back(is_y ? std::max(blend(one), 0.0f) * 2 : blend(one));
    return results;
}

static void runs(ge::Session &session, aclrtStream stream, const std::shared_ptr<Pool> &pool, bool is_dynamic, uint32_t id)
{
    GROUP(is_dynamic ? "ge custom operator: sizes that are not known" : "ge custom operator: sizes that are known");
    RUNS(session.AddGraph(id, blend_graph(is_dynamic ? -1 : 4)));
    RUNS(session.CompileGraph(id));
    CHECK(!session.GetCompiledGraphSummary(id)->IsStatic());
    RUNS(session.LoadGraph(id, {}, stream));
    for (int64_t n : is_dynamic ? std::vector<int64_t>{4, 300, 4} : std::vector<int64_t>{4, 4}) {
        std::vector<float> x(n);
        for (int64_t at = 0; at < n; at++)
            x[at] = X[at % 4];
        Device in(n * 4, x.data()), y(n * 4), z(n * 4);
        pool->classes.clear();
        const int calls_before = blend_calls;
        std::vector<gert::Tensor> inputs, outputs(2);
        inputs.push_back(gert_tensor(in.data, n * 4, {{n}, {n}}));
        RUNS(session.ExecuteGraphWithStreamAsync(id, stream, inputs, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(blend_calls == calls_before + 1 && last_blend == "z both");
        CHECK_EQ(outputs[1].GetStorageShape().GetDim(0), n);
        CHECK(pool->Holds(outputs[0].GetAddr()) && pool->Holds(outputs[1].GetAddr()));
        CHECK(holds(outputs[0].GetAddr(), blend_of(x, true).data(), n));
        CHECK(holds(outputs[1].GetAddr(), blend_of(x, false).data(), n));
        CHECK_EQ(pool->classes[CAIRN_CLASS_OUTPUT], 2);
        CHECK_EQ(pool->classes[CAIRN_CLASS_WORKSPACE], 3);
        CHECK_EQ(pool->classes[CAIRN_CLASS_INTERMEDIATE], 2);
        /* The same in memory of the caller. */
        std::vector<gert::Tensor> preallocated;
        preallocated.push_back(gert_tensor(y.data, n * 4, {{n}, {n}}));
        preallocated.push_back(gert_tensor(z.data, n * 4, {{n}, {n}}));
        pool->classes.clear();
        RUNS(session.ExecuteGraphWithStreamAsync(id, stream, inputs, preallocated));
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(holds(y.data, blend_of(x, true).data(), n) && holds(z.data, blend_of(x, false).data(), n));
        CHECK_EQ(pool->classes[CAIRN_CLASS_OUTPUT], 0);
    }
    RUNS(session.RemoveGraph(id));
    CHECK(pool->live.empty());
}

static void other_run_functions(ge::Session &session, aclrtStream stream)
{
    GROUP("ge custom operator: on the host, in the background, on a stream without a pool, GeSession");
    const std::vector<float> x(X, X + 4), y = blend_of(x, true);
    const ge::Tensor host(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
    const ge::Graph graph = blend_graph(4);
    std::vector<ge::Tensor> outputs;
    RUNS(session.AddGraph(30, graph));
    RUNS(session.RunGraph(30, {host}, outputs));
    CHECK(outputs.size() == 2 && memcmp(outputs[0].GetData(), y.data(), 16) == 0);
    RUNS(session.AddGraph(31, graph));
    std::promise<bool> finished;
    RUNS(session.RunGraphAsync(31, {host}, [&](ge::Status status, std::vector<ge::Tensor> &results) {
        finished.set_value(status == ge::SUCCESS && memcmp(results[0].GetData(), y.data(), 16) == 0);
    }));
    CHECK(finished.get_future().get());
    RUNS(session.AddGraph(32, graph));
    Device in(16, X), out(16), other(16);
    std::vector<ge::Tensor> on_stream = {on_device(out), on_device(other)};
    RUNS(session.RunGraphWithStreamAsync(32, stream, {on_device(in)}, on_stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(holds(out.data, y.data()));
    std::map<ge::AscendString, ge::AscendString> none;
    ge::GeSession second(none);
    RUNS(second.AddGraph(1, graph));
    std::vector<gert::Tensor> inputs, results(2);
    inputs.push_back(gert_tensor(in.data, 16));
    RUNS(second.RunGraphWithStreamAsync(1, stream, inputs, results));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK(holds(results[0].GetAddr(), y.data()));
}

static void values(ge::Session &session, aclrtStream stream)
{
    GROUP("ge custom operator: values and texts that the host reads");
    ge::Tensor text(ge::TensorDesc(ge::Shape(), ge::FORMAT_ND, ge::DT_STRING));
    text.SetData(reinterpret_cast<const uint8_t *>("BSH"), 3);
    for (int is_computed = 0; is_computed < 2; is_computed++) {
        auto x = data("x", std::vector<int64_t>{4});
        auto three = number("three", 3);
        auto scale = ge::op::ReduceSumD("scale").set_input_x(x).set_attr_axes({0}).set_attr_keep_dims(true);
        auto word = ge::op::Const("word").set_attr_value(text);
        auto y = ge::op::Raise("y").set_input_x(x);
        if (is_computed)
            y.set_input_by(scale);
        else
            y.set_input_by(three).set_input_word(word);
        ge::Graph graph("values");
        graph.SetInputs({x}).SetOutputs({y});
        RUNS(session.AddGraph(40 + is_computed, graph));
        Device in(16, X), out(16);
        std::vector<ge::Tensor> outputs = {on_device(out)};
        RUNS(session.RunGraphWithStreamAsync(40 + is_computed, stream, {on_device(in)}, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        const float factor = 1 + (is_computed ? X[0] + X[1] + X[2] + X[3] : 3);
        const float expected[4] = {X[0] * factor, X[1] * factor, X[2] * factor, X[3] * factor};
        CHECK(holds(out.data, expected));
        CHECK(word_read == (is_computed ? "" : "BSH"));
    }
    auto x = data("x", std::vector<int64_t>{4});
    auto word = ge::op::Const("word").set_attr_value(text);
    auto sum = ge::op::Add("sum").set_input_x1(x).set_input_x2(word);
    ge::Graph graph("texts");
    graph.SetInputs({x}).SetOutputs({sum});
    RUNS(session.AddGraph(43, graph));
    REFUSED(session.CompileGraph(43), "the constant word has elements of type string");
}

static void in_place(ge::Session &session, aclrtStream stream)
{
    GROUP("ge custom operator: an output that is an input, and outputs in a list");
    auto x = data("x", std::vector<int64_t>{-1});
    auto bump = ge::op::Bump("bump").set_input_x(x);
    auto again = ge::op::Relu("again").set_input_x(bump, 0);
    ge::Graph graph("bump");
    graph.SetInputs({x}).SetOutputs(Ports{{again, {0}}, {bump, {1}}});
    RUNS(session.AddGraph(50, graph));
    Device in(16, X), after(16), before(16);
    std::vector<ge::Tensor> outputs = {on_device(after), on_device(before)};
    RUNS(session.RunGraphWithStreamAsync(50, stream, {on_device(in)}, outputs));
    CHECK_OK(aclrtSynchronizeStream(stream));
    const float doubled[4] = {-6, 1, 4, -2}, positive[4] = {0, 1, 4, 0};
    CHECK(holds(in.data, doubled) && holds(after.data, positive) && holds(before.data, X));
    auto one = number("one", 1);
    auto wrong = ge::op::Bump("wrong").set_input_x(one);
    ge::Graph constant("constant");
    constant.SetInputs({x}).SetOutputs(Ports{{wrong, {1}}});
    RUNS(session.AddGraph(51, constant));
    REFUSED(session.CompileGraph(51), "writes its input x in place, and that is a constant");

    auto all = data("all", std::vector<int64_t>{4});
    auto halves = ge::op::Halves("halves").set_input_x(all).create_dynamic_output_y(2);
    auto sum = ge::op::Add("sum").set_input_x1(halves, 0).set_input_x2(halves, 1);
    ge::Graph split("split");
    split.SetInputs({all}).SetOutputs({sum});
    RUNS(session.AddGraph(52, split));
    Device second_in(16, X);
    std::vector<ge::Tensor> parts = {on_device(after)};
    RUNS(session.RunGraphWithStreamAsync(52, stream, {on_device(second_in)}, parts));
    CHECK_OK(aclrtSynchronizeStream(stream));
    const float sums[2] = {-1, -0.5};
    CHECK(holds(after.data, sums, 2) && parts[0].GetTensorDesc().GetShape().GetDims() == std::vector<int64_t>{2});
}

static ge::Graph wrong_graph(size_t outputs)
{
    auto x = data("x", std::vector<int64_t>{4});
    auto wrong = ge::op::Wrong("faulty").set_input_x(x);
    ge::Graph graph("wrong");
    if (outputs == 1)
        graph.SetInputs({x}).SetOutputs(Ports{{wrong, {0}}});
    else
        graph.SetInputs({x}).SetOutputs(Ports{{wrong, {0}}, {wrong, {1}}});
    return graph;
}

static void faults(ge::Session &session, aclrtStream stream, const std::shared_ptr<Pool> &pool)
{
    GROUP("ge custom operator: its failures are the run's, with code and text; the next run works");
    RUNS(session.AddGraph(60, wrong_graph(1)));
    RUNS(session.CompileGraph(60));
    RUNS(session.LoadGraph(60, {}, stream));
    Device in(16, X);
    std::vector<gert::Tensor> inputs;
    inputs.push_back(gert_tensor(in.data, 16));
    const auto run = [&](int which) {
        fault = which;
        std::vector<gert::Tensor> outputs(1);
        const ge::Status status = session.ExecuteGraphWithStreamAsync(60, stream, inputs, outputs);
        CHECK_OK(aclrtSynchronizeStream(stream));
        CHECK(status != ge::SUCCESS || holds(outputs[0].GetAddr(), X));
        return status;
    };
    const std::string node = "graph 60 (wrong), node faulty (Wrong): ";
    REFUSED(run(1), node + "its Execute gave the code 77 (0x4d)");
    CHECK_EQ(run(1), 77);
    REFUSED(run(2), node + "its Execute threw an exception: thrown by Execute");
    CHECK_EQ(run(2), ge::FAILED);
    REFUSED(run(3), node + "its Execute threw an exception");
    REFUSED(run(4), node + "it returned without making its output 0 (y) of 2, which is read");
    REFUSED(run(5), "the code 78 (0x4e); it was refused before: there is no output 2: the node has 2");
    REFUSED(run(6), "output 0 is float [-1]: no memory holds that");
    REFUSED(run(7), "FRACTAL_NZ");
    REFUSED(run(8), "output 0 was made with room for 16 bytes, and is now float [999], 3996 bytes");
    RUNS(run(0));
    for (int at = 1; at < 3; at++) {
        pool->mallocs = 0;
        pool->fails_at = at;
        REFUSED(run(9), "the code 79");
        pool->fails_at = 0;
        pool->mallocs = 100;
    }
    CHECK(pool->live.empty());
    RUNS(run(0));
    RUNS(session.RemoveGraph(60));
    aclrtStream other = new_stream();
    RUNS(session.AddGraph(61, wrong_graph(1)));
    Device out(16);
    std::vector<ge::Tensor> outputs = {on_device(out)};
    fault = 10;
    REFUSED(session.RunGraphWithStreamAsync(61, other, {on_device(in)}, outputs), "its Execute gave the code");
    CHECK_OK(aclrtDestroyStreamForce(other));
    fault = 4;
    RUNS(session.AddGraph(62, wrong_graph(2)));
    const ge::Tensor host(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
    REFUSED(session.RunGraph(62, {host}, outputs), "output 0 (y) of 2");
    fault = 1;
    CHECK_EQ(session.RunGraph(62, {host}, outputs), 77);
    std::promise<ge::Status> finished;
    RUNS(session.RunGraphAsync(62, {host}, [&](ge::Status status, std::vector<ge::Tensor> &) { finished.set_value(status); }));
    CHECK_EQ(finished.get_future().get(), 77);
}

template <typename Op>
static ge::Graph single_node_graph(const Op &prototype)
{
    auto x = data("x", std::vector<int64_t>{4});
    auto op = prototype;
    op.set_input_x(x);
    ge::Graph graph("single");
    graph.SetInputs({x}).SetOutputs({op});
    return graph;
}

static void registrations(ge::Session &session)
{
    GROUP("ge custom operator: what cannot run is refused when the graph is compiled");
    RUNS(session.AddGraph(70, single_node_graph(ge::op::Nothing("n"))));
    REFUSED(session.CompileGraph(70), "the node n (Nothing, a custom operator): it cannot run: its creator gave no object");
    RUNS(session.AddGraph(71, single_node_graph(ge::op::Lazy("l"))));
    REFUSED(session.CompileGraph(71), "its class does not derive from ge::EagerExecuteOp");
    RUNS(session.AddGraph(72, single_node_graph(ge::op::Unknown("u"))));
    REFUSED(session.CompileGraph(72), "Unknown");
    auto x = data("x", std::vector<int64_t>{4});
    auto raise = ge::op::Raise("raise").set_input_x(x);
    ge::Graph graph("unfed");
    graph.SetInputs({x}).SetOutputs({raise});
    RUNS(session.AddGraph(73, graph));
    REFUSED(session.CompileGraph(73), "nothing feeds the input by");

    GROUP("ge custom operator: the first registration of a type stays");
    (void)error_text();
    const ge::CustomOpCreatorRegister again("Blend", []() -> std::unique_ptr<ge::BaseCustomOp> { return nullptr; });
    CHECK(error_text().find("a custom operator of type Blend is registered already: the first one stays") != std::string::npos);
    const ge::CustomOpCreatorRegister empty("Empty", nullptr);
    CHECK(error_text().find("the creator of Empty is empty") != std::string::npos);
    const ge::CustomOpCreatorRegister unnamed("", []() -> std::unique_ptr<ge::BaseCustomOp> { return nullptr; });
    CHECK(error_text().find("the type of a custom operator is empty") != std::string::npos);
    const ge::Tensor host(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
    std::vector<ge::Tensor> outputs;
    RUNS(session.AddGraph(74, blend_graph(4)));
    RUNS(session.RunGraph(74, {host}, outputs));

    GROUP("ge custom operator: saved as a model and loaded again");
    ge::GraphBuffer bytes;
    RUNS(blend_graph(-1).SaveToMem(bytes));
    ge::Graph read("read");
    RUNS(read.LoadFromMem(bytes));
    RUNS(session.AddGraph(75, read));
    RUNS(session.RunGraph(75, {host}, outputs));
    const std::vector<float> y = blend_of(std::vector<float>(X, X + 4), true);
    CHECK(memcmp(outputs[0].GetData(), y.data(), 16) == 0);
}

int main(void)
{
    begin();
    RUNS(ge::GEInitialize(Options()));
    {
        const std::map<ge::AscendString, ge::AscendString> none;
        ge::Session session(none);
        aclrtStream stream = new_stream(), stream_without_pool = new_stream();
        auto pool = std::make_shared<Pool>();
        RUNS(session.RegisterExternalAllocator(stream, pool));
        runs(session, stream, pool, false, 1);
        runs(session, stream, pool, true, 2);
        other_run_functions(session, stream_without_pool);
        values(session, stream_without_pool);
        in_place(session, stream_without_pool);
        faults(session, stream, pool);
        registrations(session);
        RUNS(session.UnregisterExternalAllocator(stream));
    }
    RUNS(ge::GEFinalize());
    CHECK_OK(aclrtResetDevice(0));
    CHECK_OK(aclFinalize());
    return END();
}
