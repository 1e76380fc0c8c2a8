// links: -lge_runner
/* Nodes that are gone, callbacks that do not return, operators in a circle; and what failures say. */
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "ge.h"
#include <sys/wait.h>

static std::string said() { return ge::GEGetErrorMsgV2().GetString(); }

static void removed_nodes(void)
{
    GROUP("ge GNode after RemoveNode: every call fails with a text");
    ge::Graph graph = two_outputs(4);
    ge::GNode gone, other;
    for (ge::GNode &node : graph.GetAllNodes()) {
        ge::AscendString name;
        RUNS(node.GetName(name));
        if (name == "r")
            gone = node;
        if (name == "t")
            other = node;
    }
    RUNS(graph.RemoveNode(gone));
    ge::AscendString text("as it was");
    REFUSED(gone.GetName(text), "taken out");
    REFUSED(gone.GetType(text), "taken out");
    CHECK(text == "as it was");
    REFUSED(graph.RemoveNode(gone), "taken out");
    REFUSED(graph.AddControlEdge(gone, other), "taken out");
    REFUSED(graph.AddControlEdge(other, gone), "taken out");
    REFUSED(graph.AddDataEdge(gone, 0, other, 0), "do not exist");
    REFUSED(graph.AddDataEdge(other, 0, gone, 0), "do not exist");
    REFUSED(graph.RemoveEdge(other, 0, gone, 0), "taken out");
    ge::TensorDesc desc;
    REFUSED(gone.GetInputDesc(0, desc), "taken out");
    REFUSED(gone.UpdateOutputDesc(0, desc), "taken out");
    int64_t value = 1;
    REFUSED(gone.SetAttr("a", value), "taken out");
    REFUSED(gone.GetAttr("a", value), "taken out");
    std::vector<ge::GraphPtr> graphs;
    REFUSED(gone.GetALLSubgraphs(graphs), "taken out");
    int32_t index = 0;
    REFUSED(gone.GetInputIndexByName("x", index), "taken out");
    CHECK(gone.GetInputsSize() == 0 && gone.GetOutputsSize() == 0 && !gone.HasAttr("a"));
    CHECK(gone.GetInControlNodes().empty() && gone.GetOutControlNodes().empty());
    CHECK(gone.GetInDataNodesAndPortIndexs(0).first == nullptr && gone.GetOutDataNodesAndPortIndexs(0).empty());
    CHECK(other.GetInDataNodesAndPortIndexs(0).first == nullptr);
}

static void circles(void)
{
    GROUP("ge operators in a circle are refused, by data and by control");
    auto a = ge::op::Relu("a"), b = ge::op::Relu("b"), c = ge::op::Relu("c");
    b.set_input_x(a);
    (void)said();
    c.set_input_x(b);
    CHECK(said().empty());
    a.set_input_x(c);
    CHECK(said().find("close the cycle a -> b -> c -> a") != std::string::npos);
    a.AddControlInput(b);
    CHECK(said().find("close the cycle a -> b -> a") != std::string::npos);
    a.set_input_x(a);
    CHECK(said().find("close the cycle a -> a") != std::string::npos);
}

static Gate notified = GATE_CLOSED;
static int ends;

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
        ends++;
        gate_hold(&notified);
    }));
    gate_wait_entered(&notified, 1);
    gate_open(&notified);
    CHECK_EQ(ends, 1);
}

/* The stream has failed, and says which graph and node. */
static void failed(aclrtStream stream, const char *graph, const char *node)
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
    Device whole(bytes), out(bytes), small(64);
    for (int kind = 0; kind < 2; kind++) {
        const uint32_t id = 20 + kind;
        aclrtStream stream = new_stream();
        RUNS(session.AddGraph(id, two_outputs(kind == 0 ? n : -1)));
        const std::string graph = "graph " + std::to_string(id) + " (two)";
        ge::Tensor x = on_device(whole, {n}), y = on_device(out), z = on_device(whole);
        ge::Tensor lie(floats({n}));
        lie.SetData(static_cast<uint8_t *>(small.data), bytes, [](uint8_t *) {});
        std::vector<ge::Tensor> outputs = {lie, y};
        RUNS(session.RunGraphWithStreamAsync(id, stream, {x}, outputs));
        failed(stream, graph.c_str(), "node y");
        CHECK_OK(aclrtDestroyStreamForce(stream));
        stream = new_stream();
        outputs = {y, ge::Tensor(on_device(out))};
        RUNS(session.RunGraphWithStreamAsync(id, stream, {lie}, outputs));
        failed(stream, graph.c_str(), kind == 0 ? "(node x)" : "node z");
        CHECK_OK(aclrtDestroyStreamForce(stream));
    }
    aclrtStream stream = new_stream();
    auto same = ge::op::Data("same").set_attr_index(0);
    same.update_input_desc_x(floats({-1}));
    same.update_output_desc_y(floats({-1}));
    ge::Graph through("through");
    through.SetInputs({same}).SetOutputs({same});
    RUNS(session.AddGraph(30, through));
    ge::Tensor lie(floats({n}));
    lie.SetData(static_cast<uint8_t *>(small.data), bytes, [](uint8_t *) {});
    std::vector<ge::Tensor> outputs = {lie};
    RUNS(session.RunGraphWithStreamAsync(30, stream, {on_device(whole, {n})}, outputs));
    failed(stream, "graph 30 (through)", "node same");
    CHECK_OK(aclrtDestroyStreamForce(stream));

    GROUP("ge_run_3 options that name places say which graph, and how they were given");
    std::vector<ge::Tensor> none;
    stream = new_stream();
    const auto wrong = [&](uint32_t id, const char *key, const char *value) {
        RUNS(session.AddGraph(id, two_outputs(4), option(key, value)));
        (void)said();
        CHECK(session.RunGraphWithStreamAsync(id, stream, {on_device(whole)}, none) != ge::SUCCESS);
        const std::string text = said();
        const std::string expected = "graph " + std::to_string(id) + " (two): " + key + "=" + value + ": ";
        if (!CHECK(text.find(expected) != std::string::npos))
            printf("  the text is: %s\n", text.c_str());
    };
    const auto malformed = [&](uint32_t id, const char *key, const char *value) {
        (void)said();
        CHECK(session.AddGraph(id, two_outputs(4), option(key, value)) != ge::SUCCESS);
        const std::string text = said();
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
    GROUP("ge a forked child is notified why nothing works");
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        std::vector<ge::Tensor> outputs;
        const bool refused = session.RunGraph(1, {}, outputs) != ge::SUCCESS;
        const bool reported_why = said().find("fork") != std::string::npos &&
                              std::string(ge::GEGetErrorMsgV3().GetString()).find("fork") != std::string::npos;
        _exit(refused && reported_why ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void late_callbacks(void)
{
    GROUP("ge RunGraphAsync: no callback comes after the session is gone");
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
    circles();
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
