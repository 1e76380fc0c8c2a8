// env: CAIRN_DEVICES=2
// links: -lge_runner -lhccl
/* Graphs with collectives in them, static and dynamic: two ranks as threads, each with a session on its device. */
#include "ge_check.h"
#include "ranks.h"
#include "ge/ge_api.h"
#include <map>
#include <vector>

using namespace ge;

/* (x + 1), reduced by sum, gathered, and its parts scattered by max; and the first rank's x for all. */
static Graph collectives(const char *group, const std::vector<int64_t> &dims)
{
    auto x = input("x", 0, dims);
    auto one = constant("one", {1});
    auto plus = op::Add("plus").set_input_x1(x).set_input_x2(one);
    auto sum = op::HcomAllReduce("sum").set_input_x(plus).set_attr_reduction("sum").set_attr_group(group);
    auto all = op::HcomAllGather("all").set_input_x(sum).set_attr_rank_size(2).set_attr_group(group);
    auto part = op::HcomReduceScatter("part").set_input_x(all).set_attr_reduction("max").set_attr_group(group).set_attr_rank_size(2);
    auto first = op::HcomBroadcast("first").create_dynamic_input_x(1).set_dynamic_input_x(0, x).create_dynamic_output_y(1);
    first.set_attr_root_rank(0).set_attr_group(group);
    auto swapped = op::HcomAllToAll("swapped").set_input_x(plus).set_attr_group(group);
    Graph graph("collectives");
    graph.SetInputs({x}).SetOutputs(std::vector<std::pair<Operator, std::vector<size_t>>>{
        {sum, {0}}, {all, {0}}, {part, {0}}, {first, {0}}, {swapped, {0}}});
    return graph;
}

/* The first rank sends its input, the second receives it, and adds its own. */
static Graph sender(const char *group)
{
    auto x = input("x", 0, {2});
    auto send = op::HcomSend("send").set_input_x(x).set_attr_group(group).set_attr_sr_tag(0).set_attr_dest_rank(1);
    auto y = op::Neg("y").set_input_x(x);
    Graph graph("sender");
    graph.SetInputs({x}).SetOutputs({y});
    graph.SetTargets({send});
    return graph;
}

static Graph receiver(const char *group)
{
    auto x = input("x", 0, {2});
    auto from = op::HcomReceive("from").set_attr_group(group).set_attr_sr_tag(0).set_attr_src_rank(0).set_attr_shape({2}).set_attr_dtype(DT_FLOAT);
    auto y = op::Add("y").set_input_x1(x).set_input_x2(from);
    Graph graph("receiver");
    graph.SetInputs({x}).SetOutputs({y});
    return graph;
}

static void expect(const char *what, const Tensor &tensor, const std::vector<float> &values)
{
    std::vector<float> have(tensor.GetSize() / sizeof(float));
    memcpy(have.data(), tensor.GetData(), tensor.GetSize());
    if (!CHECK(have == values)) {
        printf("%s:", what);
        for (float value : have)
            printf(" %g", value);
        printf("\n");
    }
}

static void run(Rank *rank)
{
    char group[128];
    CHECK_OK(HcclGetCommName(rank->comm, group));
    const std::string device = std::to_string(rank->rank);
    Session session(std::map<std::string, std::string>{{"ge.session_device_id", device}});
    OK(session.AddGraph(1, collectives(group, {2, 2})));
    OK(session.AddGraph(2, collectives(group, {-1, 2})));
    OK(session.AddGraph(3, rank->rank == 0 ? sender(group) : receiver(group)));
    const float base = rank->rank == 0 ? 0 : 10;
    const std::vector<float> x = {base, base + 1, base + 2, base + 3};
    for (uint32_t id : {1u, 2u, 1u}) {
        std::vector<Tensor> outputs;
        const Tensor in(floats({2, 2}), reinterpret_cast<const uint8_t *>(x.data()), 16);
        OK(session.RunGraph(id, {in}, outputs));
        if (!CHECK(outputs.size() == 5))
            continue;
        expect("sum", outputs[0], {12, 14, 16, 18});
        expect("all", outputs[1], {12, 14, 16, 18, 12, 14, 16, 18});
        expect("part", outputs[2], {12, 14, 16, 18});
        expect("first", outputs[3], {0, 1, 2, 3});
        const float row = rank->rank == 0 ? 1 : 3;
        expect("swapped", outputs[4], {row, row + 1, row + 10, row + 11});
    }
    std::vector<Tensor> outputs;
    const Tensor in(floats({2}), reinterpret_cast<const uint8_t *>(x.data()), 8);
    OK(session.RunGraph(3, {in}, outputs));
    if (CHECK(outputs.size() == 1))
        expect("y", outputs[0], rank->rank == 0 ? std::vector<float>{-0.0f, -1} : std::vector<float>{10, 12});
}

/* A group that nobody made is an error that names it. */
static void unknown(Rank *rank)
{
    if (rank->rank != 0)
        return;
    Session session(std::map<std::string, std::string>{{"ge.session_device_id", "0"}});
    auto x = input("x", 0, {2});
    auto sum = op::HcomAllReduce("sum").set_input_x(x).set_attr_reduction("sum").set_attr_group("nobody");
    Graph graph("unknown");
    graph.SetInputs({x}).SetOutputs({sum});
    OK(session.AddGraph(1, graph));
    const float zeros[2] = {0, 0};
    std::vector<Tensor> outputs;
    CHECK(session.RunGraph(1, {Tensor(floats({2}), reinterpret_cast<const uint8_t *>(zeros), 8)}, outputs) != SUCCESS);
    CHECK(strstr(GEGetErrorMsgV2().GetString(), "nobody") != nullptr);
}

int main()
{
    CHECK_OK(aclInit(nullptr));
    OK(GEInitialize(std::map<std::string, std::string>{}));
    GROUP("ge hcom: collectives, sends and receives as nodes of graphs on two ranks");
    ranks_run(2, nullptr, run, nullptr);
    GROUP("ge hcom: an unknown group");
    ranks_run(2, nullptr, unknown, nullptr);
    OK(GEFinalize());
    CHECK_OK(aclFinalize());
    return check_end();
}
