// links: -lge_runner
/* Removed nodes, callbacks that throw or end their thread, cycles of operators; and the texts of failures. */
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "ge.h"
#include <sys/wait.h>

static std::string error_text() { return ge::GEGetErrorMsgV2().GetString(); }

static void removed_nodes(void)
{
    GROUP("ge GNode after RemoveNode: every call fails with a text");
    ge::Graph graph = two_outputs(4);
    ge::GNode removed, other;
    for (ge::GNode &node : graph.GetAllNodes()) {
        ge::AscendString name;
        RUNS(node.GetName(name));
        if (name == "r")
            removed = node;
        if (name == "t")
            other = node;
    }
    RUNS(graph.RemoveNode(removed));
    ge::AscendString text("as it was");
    REFUSED(removed.GetName(text), "taken out");
    REFUSED(removed.GetType(text), "taken out");
    CHECK(text == "as it was");
    REFUSED(graph.RemoveNode(removed), "taken out");
    REFUSED(graph.AddControlEdge(removed, other), "taken out");
    REFUSED(graph.AddControlEdge(other, removed), "taken out");
    REFUSED(graph.AddDataEdge(removed, 0, other, 0), "do not exist");
    REFUSED(graph.AddDataEdge(other, 0, removed, 0), "do not exist");
    REFUSED(graph.RemoveEdge(other, 0, removed, 0), "taken out");
    ge::TensorDesc desc;
    REFUSED(removed.GetInputDesc(0, desc), "taken out");
    REFUSED(removed.UpdateOutputDesc(0, desc), "taken out");
    int64_t value = 1;
    REFUSED(removed.SetAttr("a", value), "taken out");
    REFUSED(removed.GetAttr("a", value), "taken out");
    std::vector<ge::GraphPtr> graphs;
    REFUSED(removed.GetALLSubgraphs(graphs), "taken out");
    int32_t index = 0;
    REFUSED(removed.GetInputIndexByName("x", index), "taken out");
    CHECK(removed.GetInputsSize() == 0 && removed.GetOutputsSize() == 0 && !removed.HasAttr("a"));
    CHECK(removed.GetInControlNodes().empty() && removed.GetOutControlNodes().empty());
    CHECK(removed.GetInDataNodesAndPortIndexs(0).first == nullptr && removed.GetOutDataNodesAndPortIndexs(0).empty());
    CHECK(other.GetInDataNodesAndPortIndexs(0).first == nullptr);
}

static void cycles(void)
{
    GROUP("ge cycles of operators are refused, by data and by control");
    auto a = ge::op::Relu("a"), b = ge::op::Relu("b"), c = ge::op::Relu("c");
    b.set_input_x(a);
    (void)error_text();
    c.set_input_x(b);
    CHECK(error_text().empty());
    a.set_input_x(c);
    CHECK(error_text().find("close the cycle a -> b -> c -> a") != std::string::npos);
    a.AddControlInput(b);
    CHECK(error_text().find("close the cycle a -> b -> a") != std::string::npos);
    a.set_input_x(a);
    CHECK(error_text().find("close the cycle a -> a") != std::string::npos);
}

static Gate notified = GATE_CLOSED;
static int callbacks_finished;

static void callbacks(ge::Session &session)
{
    GROUP("ge RunGraphAsync: a callback that throws or ends its thread stops nobody else");
    const ge::Tensor x(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
    RUNS(session.AddGraph(1, two_outputs(4)));
    for (int round = 0; round < 2; round++) {
        RUNS(session.RunGraphAsync(1, {x}, [](ge::Status, std::vector<ge::Tensor> &) { throw std::runtime_error("no"); }));
        RUNS(session.RunGraphAsync(1, {x}, [](ge::Status, std::vector<ge::Tensor> &) { throw 1; }));
        RUNS(session.RunGraphAsync(1, {x}, [](ge::Status, std::vector<ge::Tensor> &) { pthread_exit(nullptr); }));
    }
    RUNS(session.RunGraphAsync(1, {x}, [](ge::Status status, std::vector<ge::Tensor> &outputs) {
        CHECK(status == ge::SUCCESS && outputs.size() == 2 && memcmp(outputs[0].GetData(), Y, 16) == 0);
        callbacks_finished++;
        gate_hold(&notified);
    }));
    gate_wait_entered(&notified, 1);
    gate_open(&notified);
    CHECK_EQ(callbacks_finished, 1);
}

/* Checks that the stream has failed, with a text that names graph and node. */
static void check_failed_stream(aclrtStream stream, const char *graph, const char *node)
{
    CHECK(aclrtSynchronizeStream(stream) != ACL_SUCCESS);
    const char *text = aclGetRecentErrMsg();
    if (!CHECK(text != nullptr && strstr(text, graph) != nullptr && strstr(text, node) != nullptr))
        printf("  the text is: %s\n", text == nullptr ? "(none)" : text);
}

static void texts(ge::Session &session)
{
    GROUP("ge what fails in a stream names graph and node");
    const size_t bytes = 64 << 10;
    const int64_t n = bytes / 4;
    Device large(bytes), out(bytes), small(64);
    for (int kind = 0; kind < 2; kind++) {
        const uint32_t id = 20 + kind;
        aclrtStream stream = new_stream();
        RUNS(session.AddGraph(id, two_outputs(kind == 0 ? n : -1)));
        const std::string graph = "graph " + std::to_string(id) + " (two)";
        ge::Tensor x = on_device(large, {n}), y = on_device(out), z = on_device(large);
        ge::Tensor too_small(floats({n})); /* claims more bytes than its memory has */
        too_small.SetData(static_cast<uint8_t *>(small.data), bytes, [](uint8_t *) {});
        std::vector<ge::Tensor> outputs = {too_small, y};
        RUNS(session.RunGraphWithStreamAsync(id, stream, {x}, outputs));
        check_failed_stream(stream, graph.c_str(), "node y");
        CHECK_OK(aclrtDestroyStreamForce(stream));
        stream = new_stream();
        outputs = {y, ge::Tensor(on_device(out))};
        RUNS(session.RunGraphWithStreamAsync(id, stream, {too_small}, outputs));
        check_failed_stream(stream, graph.c_str(), kind == 0 ? "(node x)" : "node z");
        CHECK_OK(aclrtDestroyStreamForce(stream));
    }
    aclrtStream stream = new_stream();
    auto same = ge::op::Data("same").set_attr_index(0);
    same.update_input_desc_x(floats({-1}));
    same.update_output_desc_y(floats({-1}));
    ge::Graph identity("identity");
    identity.SetInputs({same}).SetOutputs({same});
    RUNS(session.AddGraph(30, identity));
    ge::Tensor too_small(floats({n}));
    too_small.SetData(static_cast<uint8_t *>(small.data), bytes, [](uint8_t *) {});
    std::vector<ge::Tensor> outputs = {too_small};
    RUNS(session.RunGraphWithStreamAsync(30, stream, {on_device(large, {n})}, outputs));
    check_failed_stream(stream, "graph 30 (identity)", "node same");
    CHECK_OK(aclrtDestroyStreamForce(stream));

    GROUP("ge_run_3 wrong indexes in options: the text has the graph, the option and its value");
    std::vector<ge::Tensor> none;
    stream = new_stream();
    const auto wrong = [&](uint32_t id, const char *key, const char *value) {
        RUNS(session.AddGraph(id, two_outputs(4), option(key, value)));
        (void)error_text();
        CHECK(session.RunGraphWithStreamAsync(id, stream, {on_device(large)}, none) != ge::SUCCESS);
        const std::string text = error_text();
        const std::string expected = "graph " + std::to_string(id) + " (two): " + key + "=" + value + ": ";
        if (!CHECK(text.find(expected) != std::string::npos))
            printf("  the text is: %s\n", text.c_str());
    };
    const auto malformed = [&](uint32_t id, const char *key, const char *value) {
        (void)error_text();
        CHECK(session.AddGraph(id, two_outputs(4), option(key, value)) != ge::SUCCESS);
        const std::string text = error_text();
        if (!CHECK(text.find(std::string(key) + "=" + value + ": ") != std::string::npos))
            printf("  the text is: %s\n", text.c_str());
    };
    auto pool = std::make_shared<Pool>();
    RUNS(session.RegisterExternalAllocator(stream, pool));
    wrong(40, "ge.exec.hostInputIndexes", "0;5");
    malformed(41, "ge.exec.hostInputIndexes", "one");
    wrong(42, "ge.exec.outputReuseInputMemIndexes", "0,2");
    malformed(43, "ge.exec.outputReuseInputMemIndexes", "0");
    malformed(44, "ge.exec.frozenInputIndexes", "0,1");
    wrong(45, "ge.exec.frozenInputIndexes", "3");
}

static void child(ge::Session &session)
{
    GROUP("ge calls in a forked child fail with a text that says why");
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        std::vector<ge::Tensor> outputs;
        const bool refused = session.RunGraph(1, {}, outputs) != ge::SUCCESS;
        const bool reported_why = error_text().find("fork") != std::string::npos &&
                              std::string(ge::GEGetErrorMsgV3().GetString()).find("fork") != std::string::npos;
        _exit(refused && reported_why ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void late_callbacks(void)
{
    GROUP("ge RunGraphAsync: no callback comes after the session is destroyed");
    int called = 0;
    {
        ge::Session session(Options{});
        ge::Graph graph = two_outputs(4);
        RUNS(session.AddGraph(1, graph));
        const ge::Tensor x(floats({4}), reinterpret_cast<const uint8_t *>(X), 16);
        for (int i = 0; i < 100; ++i)
            RUNS(session.RunGraphAsync(1, {x}, [&called](ge::Status, std::vector<ge::Tensor> &) { ++called; }));
    }
    CHECK_EQ(called, 100);
}

static void many_nodes(void)
{
    GROUP("ge Graph: all nodes of a large graph, and one by its name");
    ge::Graph graph("many");
    ge::Operator last = ge::op::Relu("n0");
    for (int i = 1; i < 5000; ++i) {
        auto next = ge::op::Relu(("n" + std::to_string(i)).c_str());
        next.set_input_x(last);
        last = next;
    }
    graph.SetOutputs(std::vector<ge::Operator>{last});
    CHECK(graph.GetAllNodes().size() >= 5000);
    CHECK(graph.FindNodeByName("n4999") != nullptr && graph.FindNodeByName("n5000") == nullptr);
}

int main(void)
{
    begin();
    many_nodes();
    removed_nodes();
    cycles();
    RUNS(ge::GEInitialize(Options{}));
    {
        ge::Session session(Options{});
        callbacks(session);
        texts(session);
        child(session);
    }
    late_callbacks();
    RUNS(ge::GEFinalize());
    return END();
}
