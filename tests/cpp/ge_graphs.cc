// links: -lge_runner
// strings: both
/* Op classes, the factory, and graphs made of them. */
#include "ge_check.h"
#include "graph/attr_value.h"
#include "nn_calculation_ops.h"
#include "ops_proto_legacy.h"
#include <algorithm>
#include <set>

namespace ge {
REG_OP(OfThisProgram)
    .INPUT(x, TensorType::ALL())
    .OPTIONAL_INPUT(bias, TensorType::ALL())
    .DYNAMIC_INPUT(rest, TensorType::ALL())
    .OUTPUT(y, TensorType({DT_FLOAT}))
    .DYNAMIC_OUTPUT(parts, TensorType::ALL())
    .ATTR(count, Int, 3)
    .ATTR(axes, ListInt, {1, 2})
    .ATTR(mode, String, "none")
    .ATTR(words, ListString, {"a", "b"})
    .ATTR(scale, Float, 0.5f)
    .ATTR(flag, Bool, true)
    .ATTR(kind, Type, DT_INT8)
    .REQUIRED_ATTR(must, ListFloat)
    .OP_END_FACTORY_REG(OfThisProgram)
}  // namespace ge

using namespace ge;

static std::set<std::string> names_of(const std::vector<GNode> &nodes)
{
    std::set<std::string> names;
    for (const GNode &node : nodes) {
        AscendString name;
        OK(node.GetName(name));
        names.insert(name.GetString());
    }
    return names;
}

static void op_class()
{
    GROUP("ge graphs: an op class has the members that its declaration makes");
    op::OfThisProgram op("mine");
    CHECK(op.GetName() == "mine" && op.GetOpType() == "OfThisProgram");
    CHECK_EQ(op.GetInputsSize(), 2);
    CHECK_EQ(op.GetOutputsSize(), 1);
    CHECK_EQ(op.get_attr_count(), 3);
    CHECK(op.get_attr_axes() == std::vector<int64_t>({1, 2}));
    CHECK(op.get_attr_mode() == "none" && op.get_attr_words() == std::vector<std::string>({"a", "b"}));
    CHECK(op.get_attr_scale() == 0.5f && op.get_attr_flag() && op.get_attr_kind() == DT_INT8);
    op.set_attr_count(4).set_attr_mode("sum").set_attr_axes({}).set_attr_flag(false);
    CHECK(op.get_attr_count() == 4 && op.get_attr_mode() == "sum" && op.get_attr_axes().empty() && !op.get_attr_flag());
    CHECK(op::OfThisProgram::name_in_x() == "x" && op::OfThisProgram::name_attr_mode() == "mode");

    GROUP("ge graphs: a required attribute must be set");
    REFUSED(op.VerifyAllAttr(), "must");
    op.set_attr_must({1.5f});
    OK(op.VerifyAllAttr());
    CHECK(op.get_attr_must() == std::vector<float>({1.5f}));

    GROUP("ge graphs: dynamic inputs and outputs are counted");
    op.create_dynamic_input_rest(2).create_dynamic_output_parts(3);
    CHECK_EQ(op.GetDynamicInputNum("rest"), 2);
    CHECK_EQ(op.GetDynamicOutputNum("parts"), 3);
    CHECK_EQ(op.GetInputsSize(), 4);
    CHECK_EQ(op.GetOutputsSize(), 4);
    OK(op.update_dynamic_input_desc_rest(1, floats({5})));
    CHECK_EQ(op.get_dynamic_input_desc_rest(1).GetShape().GetDim(0), 5);

    GROUP("ge graphs: descriptions are found by name and by index");
    OK(op.update_input_desc_x(floats({2, 3})));
    CHECK_EQ(op.GetInputDesc(0).GetShape().GetDim(1), 3);
    CHECK_EQ(op.GetInputDesc(std::string("x")).GetShape().GetDim(1), 3);
    OK(op.UpdateOutputDesc(std::string("y"), floats({4})));
    CHECK_EQ(op.get_output_desc_y().GetShape().GetDim(0), 4);
    REFUSED(op.UpdateInputDesc("nothing", floats({1})), "nothing");

    std::map<AscendString, AscendString> types;
    OK(op.GetAllIrAttrNamesAndTypes(types));
    CHECK(types[AscendString("count")] == "VT_INT" && types[AscendString("axes")] == "VT_LIST_INT");
    CHECK(types[AscendString("must")] == "VT_LIST_FLOAT" && types[AscendString("kind")] == "VT_DATA_TYPE");
}

static void attributes()
{
    GROUP("ge graphs: attributes keep value and type");
    Operator op("a", "Any");
    op.SetAttr("i", int64_t(1)).SetAttr(std::string("j"), int32_t(2)).SetAttr("f", 2.5f).SetAttr("b", true);
    op.SetAttr("s", "text").SetAttr(std::string("t"), std::string("more")).SetAttr("d", DT_BF16);
    op.SetAttr("li", std::vector<int64_t>{1, 2}).SetAttr("lb", std::vector<bool>{true, false});
    op.SetAttr("ls", std::vector<AscendString>{"x", "y"}).SetAttr("ll", std::vector<std::vector<int64_t>>{{1}, {2, 3}});
    op.SetAttr("bytes", std::vector<uint8_t>{0, 1, 0, 2});
    op.SetAttr("tensor", Tensor(floats({2}), std::vector<uint8_t>(8, 7)));
    int64_t i = 0;
    int32_t j = 0;
    float f = 0;
    bool b = false;
    std::string s;
    AscendString t;
    DataType d = DT_FLOAT;
    OK(op.GetAttr("i", i));
    OK(op.GetAttr("j", j));
    OK(op.GetAttr("f", f));
    OK(op.GetAttr("b", b));
    OK(op.GetAttr(std::string("s"), s));
    OK(op.GetAttr("t", t));
    OK(op.GetAttr("d", d));
    CHECK(i == 1 && j == 2 && f == 2.5f && b && s == "text" && t == "more" && d == DT_BF16);
    std::vector<int64_t> li;
    std::vector<bool> lb;
    std::vector<AscendString> ls;
    std::vector<std::vector<int64_t>> ll;
    std::vector<uint8_t> bytes;
    Tensor tensor;
    OK(op.GetAttr("li", li));
    OK(op.GetAttr("lb", lb));
    OK(op.GetAttr("ls", ls));
    OK(op.GetAttr("ll", ll));
    OK(op.GetAttr("bytes", bytes));
    OK(op.GetAttr("tensor", tensor));
    CHECK(li == std::vector<int64_t>({1, 2}) && lb[0] && !lb[1] && ls[1] == "y" && ll[1][1] == 3);
    CHECK(bytes == std::vector<uint8_t>({0, 1, 0, 2}) && tensor.GetSize() == 8 && tensor.GetData()[3] == 7);
    CHECK_EQ(op.GetAttr("i", f), GRAPH_FAILED);
    CHECK_EQ(op.GetAttr("none", i), GRAPH_FAILED);
}

static void tensor_attributes()
{
    GROUP("ge graphs: attributes of an input or output, by index and by name");
    op::Add add("add");
    add.SetInputAttr(0, "n", int64_t(5)).SetInputAttr("x2", "n", int32_t(6)).SetOutputAttr(0, "f", 0.5f);
    add.SetOutputAttr("y", "s", "text").SetInputAttr(1, "u", uint32_t(7)).SetInputAttr(1, "b", true);
    add.SetOutputAttr(0, "t", AscendString("more")).SetOutputAttr(0, "lf", std::vector<float>{1, 2});
    add.SetInputAttr(0, "li", std::vector<int64_t>{1, 2}).SetInputAttr(0, "lj", std::vector<int32_t>{3});
    add.SetInputAttr("x1", "lu", std::vector<uint32_t>{4}).SetInputAttr("x1", "lb", std::vector<bool>{true});
    add.SetInputAttr("x1", "ls", std::vector<AscendString>{"a", "b"});
    add.update_input_desc_x1(floats({4}));
    op::Data x = input("x", 0, {4});
    add.set_input_x1(x);
    int64_t n = 0;
    int32_t j = 0;
    uint32_t u = 0;
    bool b = false;
    float f = 0;
    AscendString s, t;
    std::vector<float> lf;
    std::vector<int64_t> li;
    std::vector<int32_t> lj;
    std::vector<uint32_t> lu;
    std::vector<bool> lb;
    std::vector<AscendString> ls;
    OK(add.GetInputAttr("x1", "n", n));
    OK(add.GetInputAttr(1, "n", j));
    OK(add.GetInputAttr("x2", "u", u));
    OK(add.GetInputAttr("x2", "b", b));
    OK(add.GetOutputAttr("y", "f", f));
    OK(add.GetOutputAttr(0, "s", s));
    OK(add.GetOutputAttr("y", "t", t));
    OK(add.GetOutputAttr("y", "lf", lf));
    OK(add.GetInputAttr("x1", "li", li));
    OK(add.GetInputAttr("x1", "lj", lj));
    OK(add.GetInputAttr(0, "lu", lu));
    OK(add.GetInputAttr(0, "lb", lb));
    OK(add.GetInputAttr(0, "ls", ls));
    CHECK(n == 5 && j == 6 && u == 7 && b && f == 0.5f && s == "text" && t == "more" && lf[1] == 2);
    CHECK(li[1] == 2 && lj[0] == 3 && lu[0] == 4 && lb[0] && ls[1] == "b");
    CHECK_EQ(add.GetInputAttr(0, "f", f), GRAPH_FAILED);
    CHECK_EQ(add.GetInputAttr(2, "n", n), GRAPH_FAILED);
    CHECK_EQ(add.GetInputAttr(-1, "n", n), GRAPH_FAILED);
    CHECK_EQ(add.GetInputAttr(0, "n", f), GRAPH_FAILED);
    CHECK_EQ(Operator().GetOutputAttr("y", "s", s), GRAPH_FAILED);
    (void)GEGetErrorMsgV2();
    add.SetInputAttr(5, "n", int64_t(1));
    check_error_text(__FILE__, __LINE__, "has no input 5");
    add.SetOutputAttr("z", "n", int64_t(1));
    check_error_text(__FILE__, __LINE__, "no such input or output");
}

static void factory()
{
    GROUP("ge graphs: the factory knows the engine's types and the program's");
    CHECK(OperatorFactory::IsExistOp("MatMulV2") && OperatorFactory::IsExistOp(std::string("OfThisProgram")));
    CHECK(!OperatorFactory::IsExistOp("NoSuchType"));
    Operator matmul = OperatorFactory::CreateOperator("m", "MatMulV2");
    CHECK(!matmul.IsEmpty() && matmul.GetName() == "m");
    OK(matmul.UpdateInputDesc("x1", floats({2, 3})));
    OK(matmul.UpdateInputDesc("bias", floats({3})));
    std::map<AscendString, AscendString> types;
    OK(matmul.GetAllIrAttrNamesAndTypes(types));
    CHECK(types[AscendString("transpose_x1")] == "VT_BOOL");
    CHECK(OperatorFactory::CreateOperator("n", "NoSuchType").IsEmpty());
    check_error_text(__FILE__, __LINE__, "NoSuchType");
    std::vector<std::string> all;
    OK(OperatorFactory::GetOpsTypeList(all));
    CHECK(all.size() > 140 && std::is_sorted(all.begin(), all.end()));
    CHECK(std::binary_search(all.begin(), all.end(), std::string("OfThisProgram")));
    std::vector<std::pair<AscendString, AscendString>> inputs, outputs, attrs;
    OK(GetRegisteredIrDef("MatMulV2", inputs, outputs, attrs));
    CHECK(inputs.size() == 4 && inputs[0].first == "x1" && inputs[0].second == "required");
    CHECK(inputs.size() == 4 && inputs[2].first == "bias" && inputs[2].second == "optional");
    CHECK(outputs.size() == 1 && outputs[0].first == "y" && outputs[0].second == "required");
    CHECK_EQ(GetRegisteredIrDef("NoSuchType", inputs, outputs, attrs), FAILED);
    (void)GEGetErrorMsgV2();
}

static void graphs()
{
    GROUP("ge graphs: a graph has the nodes that its inputs reach, and the inputs of those");
    Graph graph = add_and_multiply({1, 2, 3, 4}, 4);
    CHECK(graph.IsValid() && graph.GetName() == "add_and_multiply");
    std::set<std::string> names = names_of(graph.GetAllNodes());
    CHECK(names.count("x") && names.count("c") && names.count("sum") && names.count("product"));
    Operator found;
    OK(graph.FindOpByName("sum", found));
    CHECK(found.GetOpType() == "Add");
    REFUSED(graph.FindOpByName("nothing", found), "nothing");
    std::vector<Operator> adds;
    OK(graph.FindOpByType(std::string("Add"), adds));
    CHECK_EQ(adds.size(), 1);

    GROUP("ge graphs: nodes know what feeds them and who reads them");
    GNodePtr sum = graph.FindNodeByName("sum");
    CHECK(sum != nullptr);
    if (sum != nullptr) {
        AscendString name;
        auto source = sum->GetInDataNodesAndPortIndexs(1);
        CHECK(source.first != nullptr && source.first->GetName(name) == GRAPH_SUCCESS && name == "c");
        auto readers = sum->GetOutDataNodesAndPortIndexs(0);
        CHECK(readers.size() == 1 && readers[0].first->GetName(name) == GRAPH_SUCCESS && name == "product");
        CHECK(readers.size() == 1 && readers[0].second == 0);
        Tensor value;
        OK(sum->GetInputConstData(1, value));
        CHECK(value.GetSize() == 16 && reinterpret_cast<const float *>(value.GetData())[2] == 3);
        CHECK_EQ(sum->GetInputConstData(0, value), GRAPH_FAILED);
        (void)GEGetErrorMsgV2();
        int32_t index = -1;
        OK(sum->GetInputIndexByName("x2", index));
        CHECK_EQ(index, 1);
        int64_t mark = 5;
        OK(sum->SetAttr("_mark", mark));
        mark = 0;
        OK(sum->GetAttr("_mark", mark));
        CHECK(mark == 5 && sum->HasAttr("_mark") && !sum->HasAttr("_other"));
    }

    GROUP("ge graphs: a graph is saved and loaded; truncated bytes are refused");
    GraphBuffer bytes;
    OK(graph.SaveToMem(bytes));
    Graph loaded;
    OK(loaded.LoadFromMem(bytes));
    const std::set<std::string> loaded_names = names_of(loaded.GetAllNodes());
    CHECK(std::includes(loaded_names.begin(), loaded_names.end(), names.begin(), names.end()));
    Graph truncated("truncated");
    CHECK_EQ(truncated.LoadFromMem(bytes.GetData(), bytes.GetSize() / 2 + 1) == GRAPH_SUCCESS, false);
    CHECK(truncated.GetName() == "truncated");

    GROUP("ge texts: of several failures the text is about the last, for either reader");
    CHECK_CODE(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
    CHECK_EQ(truncated.LoadFromFile("no such file.air") == GRAPH_SUCCESS, false);
    CHECK_EQ(truncated.LoadFromSerializedModelArray(nullptr, 5), GRAPH_FAILED);
    const std::string last = GEGetErrorMsgV2().GetString();
    const char *recent = aclGetRecentErrMsg();
    CHECK(!last.empty() && last.find("no such file") == std::string::npos);
    CHECK(recent != nullptr && last == recent);
    const std::string file = "ge_graphs_" + std::to_string(getpid()) + ".air";
    OK(graph.SaveToFile(file));
    OK(loaded.LoadFromFile(file.c_str()));
    CHECK(loaded.IsValid());
    (void)unlink(file.c_str());
    REFUSED(loaded.LoadFromFile("no/such/file"), "no/such/file");

    GROUP("ge graphs: a copy is a graph of its own");
    Graph copy("copy");
    OK(copy.CopyFrom(graph));
    GNodePtr product = copy.FindNodeByName("product");
    CHECK(product != nullptr);
    if (product != nullptr)
        OK(copy.RemoveNode(*product));
    CHECK(copy.FindNodeByName("product") == nullptr && graph.FindNodeByName("product") != nullptr);

    GROUP("ge graphs: nodes and edges one by one");
    Graph by_hand("by_hand");
    GNode x = by_hand.AddNodeByOp(input("x", 0, {4}));
    GNode relu = by_hand.AddNodeByOp(op::Relu("relu"));
    OK(by_hand.AddDataEdge(x, 0, relu, 0));
    OK(by_hand.AddControlEdge(x, relu));
    CHECK_EQ(relu.GetInControlNodes().size(), 1);
    CHECK_EQ(x.GetOutDataNodesAndPortIndexs(0).size(), 1);
    OK(by_hand.RemoveEdge(x, 0, relu, 0));
    CHECK_EQ(x.GetOutDataNodesAndPortIndexs(0).size(), 0);
    GNode none;
    REFUSED(by_hand.AddDataEdge(none, 0, relu, 0), "is empty");
    AttrValue value;
    value.SetAttrValue(int64_t(3));
    OK(by_hand.SetAttr("mark", value));
    AttrValue read;
    int64_t mark = 0;
    OK(by_hand.GetAttr("mark", read));
    OK(read.GetAttrValue(mark));
    CHECK_EQ(mark, 3);
}

static void empty_objects()
{
    GROUP("ge graphs: empty operators and graphs fail with a text");
    Operator none;
    AscendString text;
    CHECK(none.IsEmpty() && none.GetInputsSize() == 0);
    REFUSED(none.GetName(text), "empty");
    op::Relu relu("relu");
    relu.set_input_x(none);
    check_error_text(__FILE__, __LINE__, "empty");
    Graph graph;
    CHECK(!graph.IsValid() && graph.GetName().empty() && graph.GetAllNodes().empty());
    REFUSED(graph.GetName(text), "empty");
    graph.SetInputs({});
    check_error_text(__FILE__, __LINE__, "empty");
}

int main()
{
    op_class();
    attributes();
    tensor_attributes();
    factory();
    graphs();
    empty_objects();
    return END();
}
