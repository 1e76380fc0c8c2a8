// breaks: pool-freed-while-pending
// links: -lge_runner
/* Outputs of one call that share a tensor, an address or a value. */
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "ge.h"

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

/* y = relu(x), twice. */
static ge::Graph twice(int64_t n)
{
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(floats({n}));
    x.update_output_desc_y(floats({n}));
    auto y = ge::op::Relu("y").set_input_x(x);
    ge::Graph graph("twice");
    graph.SetInputs({x}).SetOutputs(std::vector<std::pair<ge::Operator, std::vector<size_t>>>{{y, {0}}, {y, {0}}});
    return graph;
}

static const float R[4] = {0.0f, 0.5f, 2.0f, 0.0f};

static Options refreshable(bool value) { return option("ge.featureBaseRefreshable", value ? "1" : "0"); }

static ge::Tensor tensor_over(const Device &memory, ge::Tensor *) { return on_device(memory); }
static gert::Tensor tensor_over(const Device &memory, gert::Tensor *) { return gert_tensor(memory.data, memory.bytes); }

static const void *data(const ge::Tensor &tensor) { return tensor.GetData(); }
static const void *data(const gert::Tensor &tensor) { return tensor.GetAddr(); }

/* One or two tensors over device memory; no memory, no tensors. */
template <typename T>
static std::vector<T> tensors_over(const Device *first, const Device *second = nullptr)
{
    std::vector<T> tensors(first == nullptr ? 0 : second == nullptr ? 1 : 2);
    if (first != nullptr)
        tensors[0] = tensor_over(*first, static_cast<T *>(nullptr));
    if (second != nullptr)
        tensors[1] = tensor_over(*second, static_cast<T *>(nullptr));
    return tensors;
}

struct Fixture {
    aclrtStream stream = new_stream();
    std::shared_ptr<Pool> pool = std::make_shared<Pool>();
    Device x{16, X}, out{16}, second_out{16};
};

/* Runs with outputs that share memory or a value, in a session whose tensors are of type T. */
template <typename T, typename Session>
static void shared(Fixture &fixture, Session &session, uint32_t id, int64_t n, bool is_refreshable)
{
    const std::vector<T> inputs = tensors_over<T>(&fixture.x);
    RUNS(session.AddGraph(id, twice(n), refreshable(is_refreshable)));
    RUNS(session.AddGraph(id + 1, two_outputs(n), refreshable(is_refreshable)));
    for (int run = 0; run < 2; run++) {
        std::vector<T> results;
        RUNS(session.RunGraphWithStreamAsync(id, fixture.stream, inputs, results));
        CHECK_OK(aclrtSynchronizeStream(fixture.stream));
        CHECK(results.size() == 2 && holds(data(results[0]), R) && holds(data(results[1]), R));
        CHECK(results.size() == 2 && data(results[0]) != data(results[1]));
        CHECK(fixture.pool->Holds(data(results[0])) && fixture.pool->Holds(data(results[1])));
    }
    std::vector<T> one_memory = tensors_over<T>(&fixture.out, &fixture.out);
    RUNS(session.RunGraphWithStreamAsync(id, fixture.stream, inputs, one_memory));
    CHECK_OK(aclrtSynchronizeStream(fixture.stream));
    CHECK(holds(fixture.out.data, R));

    /* The last output is what the memory holds; writing the first one does not change what the last is computed from. */
    one_memory = tensors_over<T>(&fixture.out, &fixture.out);
    RUNS(session.RunGraphWithStreamAsync(id + 1, fixture.stream, inputs, one_memory));
    CHECK_OK(aclrtSynchronizeStream(fixture.stream));
    CHECK(holds(fixture.out.data, Z) && data(one_memory[0]) == fixture.out.data);

    std::vector<T> separate = tensors_over<T>(&fixture.out, &fixture.second_out);
    RUNS(session.RunGraphWithStreamAsync(id + 1, fixture.stream, inputs, separate));
    CHECK_OK(aclrtSynchronizeStream(fixture.stream));
    CHECK(holds(fixture.out.data, Y) && holds(fixture.second_out.data, Z));
}

/* Copies of one ge::Tensor. */
static void copies(Fixture &fixture, ge::Session &session, uint32_t id)
{
    for (int run = 0; run < 2; run++) {
        std::vector<ge::Tensor> outputs(2, ge::Tensor());
        RUNS(session.RunGraphWithStreamAsync(id, fixture.stream, {on_device(fixture.x)}, outputs));
        CHECK_OK(aclrtSynchronizeStream(fixture.stream));
        CHECK(holds(outputs[0].GetData(), Y) && holds(outputs[1].GetData(), Z));
        CHECK(fixture.pool->Holds(outputs[0].GetData()) && fixture.pool->Holds(outputs[1].GetData()));
        const int frees = fixture.pool->frees;
        outputs.clear();
        CHECK_EQ(fixture.pool->frees, frees + 2);
    }
    int freed = 0;
    {
        ge::Tensor tensor(floats({4}));
        tensor.SetData(static_cast<uint8_t *>(fixture.out.data), 16, [&freed](uint8_t *) { freed++; });
        std::vector<ge::Tensor> outputs(2, tensor);
        RUNS(session.RunGraphWithStreamAsync(id, fixture.stream, {on_device(fixture.x)}, outputs));
        CHECK_OK(aclrtSynchronizeStream(fixture.stream));
        CHECK(holds(outputs[0].GetData(), Z) && outputs[1].GetData() == outputs[0].GetData());
        tensor = ge::Tensor();
        outputs.erase(outputs.begin());
        CHECK_EQ(freed, 0);
    }
    CHECK_EQ(freed, 1);
}

int main(void)
{
    begin();
    Fixture fixture;
    RUNS(ge::GEInitialize(Options{}));
    {
        GROUP("ge_run_4 ge_run_11 Session: outputs that share a value, an address, a tensor");
        ge::Session session(Options{});
        RUNS(session.RegisterExternalAllocator(fixture.stream, fixture.pool));
        for (int kind = 0; kind < 3; kind++) {
            shared<ge::Tensor>(fixture, session, 10 * kind, kind == 2 ? -1 : 4, kind == 1);
            copies(fixture, session, 10 * kind + 1);
        }
        std::vector<ge::Tensor> on_host;
        RUNS(session.AddGraph(90, twice(4)));
        const ge::Tensor x(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
        RUNS(session.RunGraph(90, {x}, on_host));
        CHECK(on_host.size() == 2 && memcmp(on_host[0].GetData(), R, 16) == 0);
        CHECK(on_host.size() == 2 && memcmp(on_host[1].GetData(), R, 16) == 0);
    }
    CHECK(fixture.pool->mallocs > 0 && fixture.pool->live.empty());
    CHECK_EQ(fixture.pool->mallocs, fixture.pool->frees);
    {
        GROUP("ge_run_4 ge_run_11 GeSession: the same");
        ge::GeSession session({});
        RUNS(session.RegisterExternalAllocator(fixture.stream, fixture.pool));
        for (int kind = 0; kind < 3; kind++)
            shared<gert::Tensor>(fixture, session, 10 * kind, kind == 2 ? -1 : 4, kind == 1);
    }
    CHECK(fixture.pool->live.empty());
    CHECK_EQ(fixture.pool->mallocs, fixture.pool->frees);
    RUNS(ge::GEFinalize());
    return END();
}
