// links: -lge_runner
// strings: both
/* Op classes with graphs of their own: If, Case, While, PartitionedCall. */
#include "ge_check.h"

using namespace ge;

/* y = x * factor. */
static Graph scaled(const char *name, float factor)
{
    op::Data x = input("x", 0, {2});
    op::Mul product("product");
    op::Const by = constant("factor", {factor});
    product.set_input_x1(x).set_input_x2(by);
    Graph graph(name);
    graph.SetInputs({x}).SetOutputs({product});
    return graph;
}

/* A scalar input. */
static op::Data number(const char *name, int64_t index, DataType type)
{
    op::Data data(name);
    const TensorDesc desc(Shape(std::vector<int64_t>()), FORMAT_ND, type);
    data.set_attr_index(index);
    data.update_input_desc_x(desc);
    data.update_output_desc_y(desc);
    return data;
}

static Tensor of_floats(const std::vector<int64_t> &dims, const std::vector<float> &values)
{
    return Tensor(floats(dims), reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float));
}

static Tensor of_int(int32_t value)
{
    return Tensor(TensorDesc(Shape(std::vector<int64_t>()), FORMAT_ND, DT_INT32), reinterpret_cast<const uint8_t *>(&value),
                  sizeof value);
}

/* The first output of each run of a graph. */
static std::vector<std::vector<float>> run(const Graph &graph, const std::vector<std::vector<Tensor>> &runs)
{
    std::vector<std::vector<float>> results;
    OK(GEInitialize(Options()));
    {
        Session session{Options()};
        OK(session.AddGraph(1, graph));
        for (const std::vector<Tensor> &inputs : runs) {
            std::vector<Tensor> outputs;
            OK(session.RunGraph(1, inputs, outputs));
            results.emplace_back();
            if (!outputs.empty()) {
                const float *const data = reinterpret_cast<const float *>(outputs[0].GetData());
                results.back().assign(data, data + outputs[0].GetSize() / sizeof(float));
            }
        }
    }
    OK(GEFinalize());
    return results;
}

using Numbers = std::vector<float>;

static Graph branching()
{
    op::Data condition = number("condition", 0, DT_INT32);
    op::Data x = input("x", 1, {2});
    op::If branch("branch");
    branch.create_dynamic_input_input(1).create_dynamic_output_output(1);
    branch.set_input_cond(condition).set_dynamic_input_input(0, x);
    branch.set_subgraph_builder_then_branch([] { return scaled("then", 2); });
    branch.set_subgraph_builder_else_branch([] { return scaled("else", 10); });
    branch.update_dynamic_output_desc_output(0, floats({2}));
    Graph graph("branching");
    graph.SetInputs({condition, x}).SetOutputs({branch});
    return graph;
}

static void branches()
{
    GROUP("ge control: If takes the branch that its condition says");
    const Graph graph = branching();
    CHECK(run(graph, {{of_int(1), of_floats({2}, {1, 2})}, {of_int(0), of_floats({2}, {1, 2})}}) ==
          std::vector<Numbers>({{2, 4}, {10, 20}}));

    GROUP("ge control: graphs of nodes are seen, kept by a copy and by a model");
    CHECK_EQ(graph.GetAllSubgraphs().size(), 2);
    CHECK(graph.GetSubGraph("else") != nullptr && graph.GetSubGraph("nobody") == nullptr);
    GraphPtr found;
    OK(graph.FindNodeByName("branch")->GetSubgraph(1, found));
    AscendString name;
    OK(found->GetName(name));
    CHECK(name == "else" && found->FindNodeByName("product") != nullptr);
    REFUSED(graph.FindNodeByName("branch")->GetSubgraph(2, found), "2");
    CHECK(found == nullptr);
    std::vector<GraphPtr> all;
    OK(graph.FindNodeByName("branch")->GetALLSubgraphs(all));
    CHECK_EQ(all.size(), 2);
    Graph copy("copy");
    OK(copy.CopyFrom(graph));
    CHECK_EQ(copy.GetAllSubgraphs().size(), 2);
    GraphBuffer bytes;
    OK(graph.SaveToMem(bytes));
    Graph loaded("loaded");
    OK(loaded.LoadFromMem(bytes));
    CHECK(run(loaded, {{of_int(0), of_floats({2}, {1, 2})}}) == std::vector<Numbers>({{10, 20}}));

    GROUP("ge control: Case counts its branches; beyond the last it takes the last");
    op::Data index = number("index", 0, DT_INT32);
    op::Data x = input("x", 1, {2});
    op::Case choice("choice");
    choice.create_dynamic_input_input(1).create_dynamic_output_output(1).create_dynamic_subgraph_branches(3);
    choice.set_input_branch_index(index).set_dynamic_input_input(0, x);
    for (uint32_t at = 0; at < 3; at++)
        choice.set_dynamic_subgraph_builder_branches(at, [at] {
            return scaled(("branch" + std::to_string(at)).c_str(), static_cast<float>(at + 1));
        });
    choice.update_dynamic_output_desc_output(0, floats({2}));
    Graph cases("cases");
    cases.SetInputs({index, x}).SetOutputs({choice});
    CHECK(run(cases, {{of_int(0), of_floats({2}, {1, 2})},
                      {of_int(1), of_floats({2}, {1, 2})},
                      {of_int(7), of_floats({2}, {1, 2})}}) == std::vector<Numbers>({{1, 2}, {2, 4}, {3, 6}}));
}

static void loops_and_calls()
{
    GROUP("ge control: While runs its body as long as its condition holds");
    const auto condition = [] {
        op::Data x = input("x", 0, {2});
        op::Data left = input("left", 1, {1});
        op::Greater holds("holds");
        op::Const zero = constant("zero", {0});
        holds.set_input_x1(left).set_input_x2(zero);
        Graph graph("condition");
        graph.SetInputs({x, left}).SetOutputs({holds});
        return graph;
    };
    const auto body = [] {
        op::Data x = input("x", 0, {2});
        op::Data left = input("left", 1, {1});
        op::Mul twice("twice");
        op::Const two = constant("two", {2});
        op::Const one = constant("one", {1});
        twice.set_input_x1(x).set_input_x2(two);
        op::Sub less("less");
        less.set_input_x1(left).set_input_x2(one);
        Graph graph("body");
        graph.SetInputs({x, left}).SetOutputs(std::vector<Operator>({twice, less}));
        return graph;
    };
    op::Data x = input("x", 0, {2});
    op::Data count = input("count", 1, {1});
    op::While loop("loop");
    loop.create_dynamic_input_input(2).create_dynamic_output_output(2);
    loop.set_dynamic_input_input(0, x).set_dynamic_input_input(1, count);
    loop.set_subgraph_builder_cond(condition).set_subgraph_builder_body(body);
    loop.update_dynamic_output_desc_output(0, floats({2}));
    loop.update_dynamic_output_desc_output(1, floats({1}));
    Graph graph("loops");
    graph.SetInputs({x, count}).SetOutputs({loop});
    CHECK(run(graph, {{of_floats({2}, {1, 3}), of_floats({1}, {3})}, {of_floats({2}, {1, 3}), of_floats({1}, {0})}}) ==
          std::vector<Numbers>({{8, 24}, {1, 3}}));

    GROUP("ge control: PartitionedCall runs its graph, also one that the factory made");
    Operator call = OperatorFactory::CreateOperator("call", "PartitionedCall");
    CHECK_EQ(call.GetSubgraphNamesCount(), 1);
    call.DynamicInputRegister("args", 1);
    call.DynamicOutputRegister("output", 1);
    call.SetInput("args", 0, x);
    call.SetSubgraphBuilder("f", 0, [] { return scaled("function", 5); });
    OK(call.UpdateDynamicOutputDesc("output", 0, floats({2})));
    Graph calling("calling");
    calling.SetInputs({x}).SetOutputs({call});
    CHECK(run(calling, {{of_floats({2}, {1, 3})}}) == std::vector<Numbers>({{5, 15}}));
}

static void wrong_ones()
{
    GROUP("ge control: a graph that is missing or not declared is named");
    op::Data x = input("x", 0, {2});
    op::If branch("lonely");
    branch.create_dynamic_input_input(1).create_dynamic_output_output(1);
    branch.set_input_cond(x).set_dynamic_input_input(0, x);
    branch.set_subgraph_builder_then_branch([] { return scaled("then", 2); });
    Graph graph("incomplete");
    graph.SetInputs({x}).SetOutputs({branch});
    OK(GEInitialize(Options()));
    {
        Session session{Options()};
        OK(session.AddGraph(1, graph));
        REFUSED(session.CompileGraph(1), "lonely");
    }
    OK(GEFinalize());
    branch.SetSubgraphBuilder("nobody", 0, [] { return scaled("then", 2); });
    check_error_text(__FILE__, __LINE__, "'nobody'");
    branch.SetSubgraphBuilder("else_branch", 0, [] { return Graph(); });
    check_error_text(__FILE__, __LINE__, "else_branch");
}

int main()
{
    branches();
    loops_and_calls();
    wrong_ones();
    return END();
}
