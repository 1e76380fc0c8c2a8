// links: -lge_runner
// strings: both
/* Variables of a session: tensors by name that outlive runs and graphs. */
#include "ge.h"
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"

using ge::SUCCESS;

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

static const int64_t MANY = 1 << 20;

static ge::op::Variable variable(const char *name, const std::vector<int64_t> &dims)
{
    ge::op::Variable op(name);
    op.update_output_desc_y(floats(dims));
    return op;
}

static ge::op::Const constant_of_four(const float *values)
{
    ge::Tensor tensor(floats({4}), reinterpret_cast<const uint8_t *>(values), 16);
    return ge::op::Const("four").set_attr_value(tensor);
}

/* count = X */
static ge::Graph init()
{
    auto target = variable("count", {4});
    auto value = constant_of_four(X);
    auto set = ge::op::Assign("set").set_input_ref(target).set_input_value(value);
    ge::Graph graph("init");
    graph.SetOutputs({set});
    return graph;
}

/* count += 1; many -= 1; y = count * x */
static ge::Graph step(int64_t n)
{
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(floats({n}));
    x.update_output_desc_y(floats({n}));
    auto one = number("one", 1);
    auto count = variable("count", {4}), many = variable("many", {MANY});
    auto increment = ge::op::AssignAdd("increment").set_input_ref(count).set_input_value(one);
    auto decrement = ge::op::AssignSub("decrement").set_input_var(many).set_input_value(one);
    auto y = ge::op::Mul("y").set_input_x1(increment).set_input_x2(x);
    ge::Graph graph("step");
    graph.SetInputs({x}).SetOutputs({y}).SetTargets({decrement});
    return graph;
}

static size_t free_bytes()
{
    size_t free = 0, total = 0;
    CHECK_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    return free;
}

static bool has_counted_to(const ge::Tensor &tensor, float steps)
{
    const float *data = reinterpret_cast<const float *>(tensor.GetData());
    if (tensor.GetSize() != 16 || tensor.GetShapeDim(0) != 4 || tensor.GetDataType() != ge::DT_FLOAT)
        return false;
    for (int at = 0; at < 4; at++)
        if (data[at] != X[at] + steps)
            return false;
    return true;
}

static ge::Tensor on_host(const float *values)
{
    return ge::Tensor(floats({4}), reinterpret_cast<const uint8_t *>(values), 16);
}

static const float ONES[4] = {1, 1, 1, 1};

/* A session that counts to 100 and ends with its variables and graphs. */
static void count(aclrtStream stream, const Device &ones, const Device &out)
{
    auto pool = std::make_shared<Pool>();
    ge::Session session(Options{});
    std::vector<ge::Tensor> results;
    RUNS(session.AddGraph(1, init()));
    RUNS(session.RunGraph(1, {}, results));
    CHECK(results.size() == 1 && has_counted_to(results[0], 0));

    RUNS(session.RegisterExternalAllocator(stream, pool));
    RUNS(session.AddGraph(2, step(4)));
    RUNS(session.AddGraph(3, step(-1)));
    size_t most_bytes = 0;
    for (int run = 0; run < 100; run++) {
        std::vector<ge::Tensor> outputs = {on_device(out)};
        RUNS(session.RunGraphWithStreamAsync(run % 2 ? 2 : 3, stream, {on_device(ones)}, outputs));
        size_t bytes = 0;
        for (const auto &block : pool->live)
            bytes += block.second;
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
    }
    CHECK(pool->mallocs > 0 && most_bytes < MANY);

    std::vector<ge::Tensor> values;
    RUNS(session.GetVariables(std::vector<ge::AscendString>{"many", "count"}, values));
    CHECK(values.size() == 2 && values[0].GetSize() == MANY * 4 && has_counted_to(values[1], 100));
    CHECK(values.size() == 2 && reinterpret_cast<const float *>(values[0].GetData())[MANY - 1] == -100);
    CHECK_OK(aclrtSynchronizeStream(stream));
    const float last[4] = {X[0] + 100, X[1] + 100, X[2] + 100, X[3] + 100};
    CHECK(holds(out.data, last));
    RUNS(session.UnregisterExternalAllocator(stream));
}

static Gate notified = GATE_CLOSED;

static void names_and_refusals(aclrtStream stream)
{
    GROUP("ge variables: names, and runs in the background");
    ge::Session session(Options{});
    std::vector<ge::Tensor> values;
    REFUSED(session.GetVariables(std::vector<std::string>{"count"}, values), "no variable count");
    RUNS(session.GetVariables(std::vector<std::string>{}, values));
    CHECK_EQ(values.size(), 0);
    RUNS(session.AddGraph(1, init()));
    RUNS(session.AddGraph(2, step(4)));
    RUNS(session.RunGraph(1, {}, values));
    for (int run = 0; run < 5; run++)
        RUNS(session.RunGraphAsync(2, {on_host(ONES)}, [](ge::Status, std::vector<ge::Tensor> &) {}));
    RUNS(session.GetVariables(std::vector<std::string>{"count"}, values));
    CHECK(values.size() == 1 && has_counted_to(values[0], 5));
    RUNS(session.GetVariables(std::vector<std::string>{}, values));
    CHECK(values.size() == 2 && has_counted_to(values[0], 5) && values[1].GetSize() == MANY * 4);
    ge::AscendString name;
    CHECK(values.size() == 2 && values[0].GetTensorDesc().GetName(name) == ge::GRAPH_SUCCESS && name == "count");
    static std::vector<ge::Tensor> read_in_callback;
    static ge::Session *callback_session;
    static ge::Status callback_status = ge::FAILED;
    callback_session = &session;
    RUNS(session.RunGraphAsync(2, {on_host(ONES)}, [](ge::Status, std::vector<ge::Tensor> &) {
        callback_status = callback_session->GetVariables(std::vector<std::string>{"count"}, read_in_callback);
        gate_open(&notified);
    }));
    gate_hold(&notified);
    CHECK(callback_status == SUCCESS && read_in_callback.size() == 1 && has_counted_to(read_in_callback[0], 6));
    read_in_callback.clear();

    GROUP("ge variables: what is refused");
    auto target = variable("count", {1});
    auto value = number("n", 1);
    auto set = ge::op::Assign("set").set_input_ref(target).set_input_value(value);
    ge::Graph other("other");
    other.SetOutputs({set});
    RUNS(session.AddGraph(3, other));
    REFUSED(session.CompileGraph(3), "variable count");
    REFUSED(session.LoadGraph(3, {}, stream), "CompileGraph");
    REFUSED(session.RunGraph(3, {}, values), "[1]");
    REFUSED(session.GetVariables(std::vector<std::string>{"count", "none"}, values), "no variable none");
    REFUSED(session.PaRemapped(0, 0, 0), "pages");
}

static uint32_t save(uint32_t, const std::map<std::string, ge::Tensor> &) { return 0; }
static uint32_t save_ascend(uint32_t, const std::map<ge::AscendString, ge::Tensor> &) { return 0; }

static void callbacks()
{
    GROUP("ge callbacks: two keys are taken");
    ge::Session session(Options{});
    RUNS(session.RegisterCallBackFunc(std::string("Summary"), save));
    RUNS(session.RegisterCallBackFunc(std::string("Save"), save));
    RUNS(session.RegisterCallBackFunc("Save", save_ascend));
    REFUSED(session.RegisterCallBackFunc(std::string("Sum"), save), "\"Sum\"");
    REFUSED(session.RegisterCallBackFunc("Other", save_ascend), "Other");
    REFUSED(session.RegisterCallBackFunc(std::string("Save"), ge::pCallBackFunc(nullptr)), "null");
    ge::GeSession second({});
    auto call = [](uint32_t, const std::map<ge::AscendString, gert::Tensor> &) { return SUCCESS; };
    RUNS(second.RegisterCallBackFunc("Summary", call));
    REFUSED(second.RegisterCallBackFunc("summary", call), "summary");
    REFUSED(second.RegisterCallBackFunc("Save", ge::RunCallback()), "null");
    REFUSED(second.RegisterCallBackFunc(nullptr, call), "no key");
}

static void ge_session(aclrtStream stream, const Device &ones, const Device &out)
{
    GROUP("ge variables: GeSession compiles them, and gives what it compiled");
    ge::GeSession session({});
    ge::ModelBufferData model;
    RUNS(session.AddGraph(1, init()));
    RUNS(session.AddGraph(2, step(-1)));
    REFUSED(session.GetCompiledModel(2, model), "not compiled");
    CHECK(model.data == nullptr);
    std::vector<gert::Tensor> results;
    RUNS(session.RunGraph(1, {}, results));
    RUNS(session.CompileGraph(2, {ge::Tensor(floats({4}))}));
    RUNS(session.GetCompiledModel(2, model));
    CHECK(model.data != nullptr && model.length > 0);

    ge::Graph read("read");
    CHECK_EQ(read.LoadFromSerializedModelArray(model.data.get(), model.length), ge::GRAPH_SUCCESS);
    for (const ge::GNode &node : read.GetAllNodes()) {
        ge::AscendString type;
        ge::TensorDesc desc;
        if (node.GetType(type) == ge::GRAPH_SUCCESS && type == "Mul")
            CHECK(node.GetOutputDesc(0, desc) == ge::GRAPH_SUCCESS && desc.GetShape().GetDims() == std::vector<int64_t>{4});
    }
    RUNS(session.AddGraph(3, read));
    for (uint32_t id = 2; id < 4; id++) {
        std::vector<gert::Tensor> inputs(1), outputs(1);
        inputs[0] = gert_tensor(ones.data, ones.bytes);
        outputs[0] = gert_tensor(out.data, out.bytes);
        RUNS(session.RunGraphWithStreamAsync(id, stream, inputs, outputs));
        CHECK_OK(aclrtSynchronizeStream(stream));
        const float steps = static_cast<float>(id) - 1;
        const float expected[4] = {X[0] + steps, X[1] + steps, X[2] + steps, X[3] + steps};
        CHECK(holds(out.data, expected));
    }
}

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    Device ones(16, ONES), out(16);
    {
        ge::Session early(Options{});
        REFUSED(early.RegisterCallBackFunc(std::string("Save"), save), "GEInitialize");
    }
    CHECK_EQ(ge::GEInitialize(Options{}), SUCCESS);

    GROUP("ge variables: an init graph, a hundred steps, and what is there then; nothing leaks");
    count(stream, ones, out);
    const size_t before = free_bytes();
    count(stream, ones, out);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(free_bytes(), before);

    names_and_refusals(stream);
    callbacks();
    ge_session(stream, ones, out);
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(free_bytes(), before);
    CHECK_EQ(ge::GEFinalize(), SUCCESS);
    CHECK_OK(aclrtDestroyStream(stream));
    return END();
}
