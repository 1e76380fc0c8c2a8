// links: -lfmk_onnx_parser
// strings: both
/* aclgrph* and the parsers: models without a session. One library brings all of it. */
#include "ge/ge_ir_build.h"
#include "ge_check.h"
#include "onnx_model.h"
#include "parser/caffe_parser.h"
#include "parser/onnx_parser.h"
#include "parser/tensorflow_parser.h"
#include <cstdio>

using namespace ge;

#define INVALID(call, part) \
    (check_status(__FILE__, __LINE__, #call, (call), GRAPH_PARAM_INVALID), check_error_text(__FILE__, __LINE__, part))

static std::string file_text(const std::string &name)
{
    std::string text;
    FILE *const file = fopen(name.c_str(), "rb");
    for (int letter = file == nullptr ? EOF : fgetc(file); letter != EOF; letter = fgetc(file))
        text.push_back(static_cast<char>(letter));
    if (file != nullptr)
        fclose(file);
    return text;
}

static void write_file(const std::string &name, const std::string &text)
{
    FILE *const file = fopen(name.c_str(), "wb");
    CHECK(file != nullptr && fwrite(text.data(), 1, text.size(), file) == text.size());
    if (file != nullptr)
        fclose(file);
}

static std::string bytes_of(const ModelBufferData &model)
{
    return std::string(reinterpret_cast<const char *>(model.data.get()), model.length);
}

/* Runs a graph of one input on the host. */
static std::vector<float> run(const Graph &graph, const std::vector<int64_t> &dims, const std::vector<float> &values)
{
    std::vector<float> result;
    OK(GEInitialize(Options()));
    {
        Session session{Options()};
        OK(session.AddGraph(1, graph));
        std::vector<Tensor> outputs;
        const Tensor tensor(floats(dims), reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float));
        OK(session.RunGraph(1, {tensor}, outputs));
        if (!outputs.empty()) {
            const float *const data = reinterpret_cast<const float *>(outputs[0].GetData());
            result.assign(data, data + outputs[0].GetSize() / sizeof(float));
        }
    }
    OK(GEFinalize());
    return result;
}

static void parsing()
{
    const std::string model = onnx_model::relu_of_sum({2});
    GROUP("ge ir build: a model of ONNX becomes a graph that a session runs");
    Graph graph("mine");
    OK(aclgrphParseONNXFromMem(model.data(), model.size(), Options(), graph));
    AscendString name;
    OK(graph.GetName(name));
    CHECK(name == "tmpGraph");
    CHECK(graph.FindNodeByName("act") != nullptr && graph.FindNodeByName("x") != nullptr);
    CHECK(run(graph, {2}, {-3, 4}) == std::vector<float>({0, 5}));

    GROUP("ge ir build: a file, a name, other outputs and sizes");
    write_file("ge_ir_build.onnx", onnx_model::relu_of_sum({-1}));
    Graph named;
    OK(aclgrphParseONNX("ge_ir_build.onnx",
                        {{"output", "chosen"}, {"ge.outputNodeName", "sum:0"}, {"input_shape", "x:3"}}, named));
    OK(named.GetName(name));
    CHECK(name == "chosen");
    CHECK(run(named, {3}, {-3, 4, 0}) == std::vector<float>({-2, 5, 1}));

    GROUP("ge ir build: what cannot be parsed is named, and leaves the graph as it was");
    REFUSED(aclgrphParseONNX("no/such.onnx", Options(), graph), "no/such.onnx");
    INVALID(aclgrphParseONNX(nullptr, Options(), graph), "null");
    INVALID(aclgrphParseONNXFromMem(model.data(), 0, Options(), graph), "no bytes");
    REFUSED(aclgrphParseONNXFromMem("nonsense", 8, Options(), graph), "E10041");
    const std::string unknown = onnx_model::relu_of_sum({2}, "Frobnicate");
    REFUSED(aclgrphParseONNXFromMem(unknown.data(), unknown.size(), Options(), graph), "Frobnicate");
    INVALID(aclgrphParseONNXFromMem(model.data(), model.size(), {{"made.up", "1"}}, graph), "made.up=1");
    INVALID(aclgrphParseONNXFromMem(model.data(), model.size(), {{"ge.INPUT_NODES_SET_FP16", "x"}}, graph),
            "ge.INPUT_NODES_SET_FP16=x");
    CHECK(graph.FindNodeByName("act") != nullptr);
    REFUSED(aclgrphParseCaffe("net.prototxt", "net.caffemodel", graph), "Caffe");
    REFUSED(aclgrphParseCaffe("net.prototxt", "net.caffemodel", Options(), graph), "net.prototxt");
    REFUSED(aclgrphParseTensorFlow("net.pb", graph), "TensorFlow");
    REFUSED(aclgrphParseTensorFlow("net.pb", Options(), graph), "net.pb");
}

static void building()
{
    const std::string onnx = onnx_model::relu_of_sum({-1, 3});
    Graph graph("mine");
    OK(aclgrphParseONNXFromMem(onnx.data(), onnx.size(), Options(), graph));
    ModelBufferData model = {nullptr, 0};

    GROUP("ge ir build: a build comes after aclgrphBuildInitialize");
    REFUSED(aclgrphBuildModel(graph, Options(), model), "aclgrphBuildInitialize");
    CHECK(model.data == nullptr);
    Options global = {{ir_option::SOC_VERSION, "Ascend310P3"}, {"made.up", "1"}};
    OK(aclgrphBuildInitialize(global));
    CHECK(strstr(GEGetWarningMsgV2().GetString(), "made.up=1") != nullptr);
    OK(aclgrphBuildInitialize(std::map<std::string, std::string>{{"ge.socVersion", "Ascend310P3"}}));
    Options wrong = {{ir_option::PRECISION_MODE, "fp7"}};
    INVALID(aclgrphBuildInitialize(wrong), "ge.exec.precision_mode=fp7");

    GROUP("ge ir build: a graph becomes the bytes of a model file");
    OK(aclgrphBuildModel(graph, Options{{ir_option::INPUT_SHAPE, "x:2,3"}}, model));
    const std::string fixed = bytes_of(model);
    CHECK(fixed.size() > 256 && fixed.compare(0, 4, "IMOD") == 0);
    OK(aclgrphBuildModel(graph, std::map<std::string, std::string>{{"input_shape", "x:-1,3"}, {"ge.dynamicBatchSize", "1,4"}},
                         model));
    CHECK(bytes_of(model) != fixed);
    OK(aclgrphBuildModel(graph, Options{{"input_shape", "x:1~8,3"}, {"ge.outputDatatype", "FP16"}}, model));
    CHECK_EQ(bytes_of(model)[193], 1);

    GROUP("ge ir build: options that do not fit are named by their keys");
    INVALID(aclgrphBuildModel(graph, Options{{"input_shape", "z:1,3"}}, model), "input_shape=z:1,3");
    INVALID(aclgrphBuildModel(graph, Options{{"input_shape", "x:-1,3"}, {"ge.dynamicBatchSize", "4"}}, model),
            "ge.dynamicBatchSize=4");
    INVALID(aclgrphBuildModel(graph, Options{{"ge.insertOpFile", "no/aipp.cfg"}}, model), "ge.insertOpFile=no/aipp.cfg");
    INVALID(aclgrphBuildModel(graph, Options{{"ge.externalWeight", "3"}}, model), "ge.externalWeight=3");
    INVALID(aclgrphBuildModel(graph, Options{{"ge.outputNodeName", "nobody:0"}}, model), "ge.outputNodeName=nobody:0");
    INVALID(aclgrphBuildModel(Graph(), Options(), model), "empty");

    GROUP("ge ir build: a model is saved with .om after its name");
    remove("ge_ir_build.om");
    OK(aclgrphSaveModel("ge_ir_build", model));
    CHECK(file_text("ge_ir_build.om") == bytes_of(model));
    OK(aclgrphSaveModel(std::string("ge_ir_build_named"), model));
    CHECK(file_text("ge_ir_build_named.om") == bytes_of(model));
    INVALID(aclgrphSaveModel(static_cast<const char *>(nullptr), model), "name");
    INVALID(aclgrphSaveModel("ge_ir_build", ModelBufferData{nullptr, 8}), "no bytes");
    REFUSED(aclgrphSaveModel("no/such/folder/net", model), "no/such/folder/net.om");
    ModelBufferData odd = {std::shared_ptr<uint8_t>(new uint8_t[8](), std::default_delete<uint8_t[]>()), 8};
    REFUSED(aclgrphSaveModel("ge_ir_build_odd", odd), "8 bytes");

    GROUP("ge ir build: the weights of a model that is saved go beside it");
    std::string table;
    for (int at = 0; at < 512; at++)
        table += std::string("\0\0\x80\x3f", 4);
    const std::string heavy =
        onnx_model::number(1, 8) +
        onnx_model::bytes(7, onnx_model::node("sum", "Add", {"x", "w"}, "y") + onnx_model::bytes(2, "heavy") +
                                 onnx_model::bytes(5, onnx_model::number(1, 512) + onnx_model::number(2, 1) +
                                                          onnx_model::bytes(8, "w") + onnx_model::bytes(9, table)) +
                                 onnx_model::value_info(11, "x", {512}) + onnx_model::value_info(12, "y", {512})) +
        onnx_model::bytes(8, onnx_model::number(2, 17));
    ge::aclmdlModel *heavy_model = nullptr;
    ModelBufferData whole = {nullptr, 0}, again = {nullptr, 0};
    OK(aclgrphBuildModelFromData(heavy.data(), heavy.size(), {{"ge.externalWeight", "2"}}, &heavy_model));
    OK(aclgrphSaveModelToBuffer(whole, heavy_model));
    OK(aclgrphSaveModel("ge_ir_build_heavy", heavy_model));
    OK(aclgrphDestroyModel(heavy_model));
    CHECK(file_text("weight/ge_ir_build_heavy_weight_combined") == table);
    CHECK(file_text("ge_ir_build_heavy.om").size() + table.size() <= whole.length + 1024);
    OK(aclgrphBuildModelFromFile("ge_ir_build_heavy.om", Options(), &heavy_model));
    OK(aclgrphSaveModelToBuffer(again, heavy_model));
    CHECK(bytes_of(again).find(table) != std::string::npos);
    OK(aclgrphDestroyModel(heavy_model));

    GROUP("ge ir build: models as objects");
    ge::aclmdlModel *object = nullptr;
    OK(aclgrphBuildModelFromData(onnx.data(), onnx.size(), {{"input_shape", "x:2,3"}}, &object));
    ModelBufferData copy = {nullptr, 0};
    OK(aclgrphSaveModelToBuffer(copy, object));
    CHECK(bytes_of(copy).compare(0, 4, "IMOD") == 0);
    OK(aclgrphSaveModel("ge_ir_build_object", object));
    CHECK(file_text("ge_ir_build_object.om") == bytes_of(copy));
    OK(aclgrphDestroyModel(object));
    OK(aclgrphBuildModelFromFile("ge_ir_build_object.om", Options(), &object));
    OK(aclgrphSaveModelToBuffer(copy, object));
    CHECK(file_text("ge_ir_build_object.om") == bytes_of(copy));
    OK(aclgrphDestroyModel(object));
    REFUSED(aclgrphBuildModelFromFile("no/such.om", Options(), &object), "no/such.om");
    INVALID(aclgrphBuildModelFromData(nullptr, 8, Options(), &object), "no bytes");
    INVALID(aclgrphDestroyModel(nullptr), "null");

    GROUP("ge ir build: bundles are refused by name");
    INVALID(aclgrphBundleBuildModel({{graph, Options()}}, copy), "more than one");
    REFUSED(aclgrphBundleBuildModel({{graph, Options()}, {graph, Options()}}, copy), "aclgrphBundleBuildModel");
    REFUSED(aclgrphBundleSaveModel("ge_ir_build", model), "aclgrphBundleSaveModel");
    aclgrphBuildFinalize();
    REFUSED(aclgrphBuildModel(graph, Options(), model), "aclgrphBuildInitialize");
    aclgrphBuildFinalize();
    CHECK(strstr(GEGetWarningMsgV2().GetString(), "aclgrphBuildFinalize") != nullptr);
}

static void graphs()
{
    const std::string onnx = onnx_model::relu_of_sum({2});
    Graph graph("mine");
    OK(aclgrphParseONNXFromMem(onnx.data(), onnx.size(), Options(), graph));

    GROUP("ge ir build: the version of the interface");
    int32_t version[3] = {-1, -1, -1};
    OK(aclgrphGetIRVersion(&version[0], &version[1], &version[2]));
    CHECK(version[0] == 1 && version[1] == 0 && version[2] == 0);
    REFUSED(aclgrphGetIRVersion(nullptr, &version[1], &version[2]), "null");

    GROUP("ge ir build: a graph is dumped as text");
    OK(aclgrphDumpGraph(graph, "./dumped", 8));
    const std::string text = file_text("./ge_proto_dumped.txt");
    CHECK(text.find("type: \"Relu\"") != std::string::npos && text.find("DT_FLOAT") != std::string::npos);
    INVALID(aclgrphDumpGraph(graph, "./dumped", 7), "length");
    INVALID(aclgrphDumpGraph(graph, "/no/such/dump", 13), "/no/such/");

    GROUP("ge ir build: a graph of one operator");
    Graph single;
    OK(aclgrphGenerateForOp("Relu", {floats({2})}, {floats({2})}, single));
    CHECK(run(single, {2}, {-3, 4}) == std::vector<float>({0, 4}));
    REFUSED(aclgrphGenerateForOp("NoSuchOperator", {floats({2})}, {floats({2})}, single), "NoSuchOperator");
    REFUSED(aclgrphGenerateForOp("Relu", {floats({2})}, {}, single), "1 outputs");
    std::vector<Graph> several;
    REFUSED(aclgrphGenerateForOp("ops.json", several), "ops.json");

    GROUP("ge ir build: attributes of the nodes that a file names");
    write_file("ge_ir_build.cfg", "act\n OpType::Add \n\n");
    OK(aclgrphSetOpAttr(graph, ATTR_TYPE_KEEP_DTYPE, "ge_ir_build.cfg"));
    for (const char *const name : {"act", "sum"}) {
        int64_t kept = 0;
        OK(graph.FindNodeByName(name)->GetAttr("_keep_dtype", kept));
        CHECK_EQ(kept, 1);
    }
    write_file("ge_ir_build.cfg", "nobody\n");
    INVALID(aclgrphSetOpAttr(graph, ATTR_TYPE_KEEP_DTYPE, "ge_ir_build.cfg"), "'nobody'");
    INVALID(aclgrphSetOpAttr(graph, ATTR_TYPE_KEEP_DTYPE, "no/such.cfg"), "no/such.cfg");
    REFUSED(aclgrphSetOpAttr(graph, ATTR_TYPE_WEIGHT_COMPRESS, "ge_ir_build.cfg"), "compressing");

    GROUP("ge ir build: graphs that refresh weights are refused by name");
    WeightRefreshableGraphs refreshable;
    INVALID(aclgrphConvertToWeightRefreshableGraphs(graph, {}, refreshable), "no constant");
    INVALID(aclgrphConvertToWeightRefreshableGraphs(graph, {"act"}, refreshable), "'act'");
    INVALID(aclgrphConvertToWeightRefreshableGraphs(graph, {"one", "one"}, refreshable), "twice");
    REFUSED(aclgrphConvertToWeightRefreshableGraphs(graph, {"one"}, refreshable), "bundles");
}

int main()
{
    parsing();
    building();
    graphs();
    return END();
}
