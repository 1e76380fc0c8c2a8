// aclgrph*: graphs dumped, made of one operator, and changed.

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <set>

#include "ge/ge_ir_build.h"
#include "graph.h"
#include "graph/operator_factory.h"
#include "ir_build.h"

namespace ge {

using cairn::fail;
using cairn::invalid;

graphStatus aclgrphDumpGraph(const ge::Graph &graph, const char_t *file, const size_t len)
{
    if (GraphBody::Of(graph) == nullptr || file == nullptr || len == 0 || len >= PATH_MAX || len != std::strlen(file)) {
        return invalid("aclgrphDumpGraph: the graph is empty, or the length is not that of the path");
    }
    const std::string path(file, len);
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
    std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name.empty()) {
        AscendString graph_name;
        (void)graph.GetName(graph_name);
        name = graph_name.GetLength() == 0 ? "graph" : graph_name.GetString();
    }
    std::string text;
    const CairnStatus status = CairnGraphText(GraphBody::Of(graph), &text, cairn::store_bytes);
    if (status != 0) {
        return cairn::graph_status(status);
    }
    const std::string dumped = folder + "ge_proto_" + name + ".txt";
    std::FILE *const out = std::fopen(dumped.c_str(), "wb");
    if (out == nullptr) {
        return invalid("aclgrphDumpGraph: '" + dumped + "': " + std::strerror(errno));
    }
    const bool is_written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    return std::fclose(out) == 0 && is_written ? GRAPH_SUCCESS
                                               : fail("aclgrphDumpGraph: '" + dumped + "': " + std::strerror(errno));
}

// An operator of a type, with as many inputs and outputs as there are descriptions; empty, with an error message set, if
// the type has others.
static Operator operator_with(const AscendString &type, const std::vector<TensorDesc> &inputs,
                              const std::vector<TensorDesc> &outputs)
{
    Operator op = OperatorFactory::CreateOperator(type.GetString(), type.GetString());
    if (op.IsEmpty()) {
        fail(std::string("aclgrphGenerateForOp: there is no operator '") + type.GetString() + "'");
        return op;
    }
    const size_t in = op.GetInputsSize();
    const size_t out = op.GetOutputsSize();
    if (inputs.size() > in || outputs.size() != out) {
        fail(std::string("aclgrphGenerateForOp: ") + type.GetString() + " has " + std::to_string(in) + " inputs and " +
             std::to_string(out) + " outputs, not " + std::to_string(inputs.size()) + " and " +
             std::to_string(outputs.size()));
        return Operator();
    }
    return op;
}

graphStatus aclgrphGenerateForOp(const AscendString &op_type, const std::vector<TensorDesc> &inputs,
                                 const std::vector<TensorDesc> &outputs, Graph &graph)
{
    Operator op = operator_with(op_type, inputs, outputs);
    if (op.IsEmpty()) {
        return GRAPH_FAILED;
    }
    std::vector<Operator> data;
    for (size_t at = 0; at < inputs.size(); ++at) {
        const std::string name = "data_" + std::to_string(at);
        Operator one = OperatorFactory::CreateOperator(name.c_str(), "Data");
        (void)one.SetAttr("index", static_cast<int64_t>(at));
        (void)one.UpdateInputDesc(0U, inputs[at]);
        (void)one.UpdateOutputDesc(0U, inputs[at]);
        (void)op.SetInput(static_cast<uint32_t>(at), one, 0U);
        (void)op.UpdateInputDesc(static_cast<uint32_t>(at), inputs[at]);
        data.push_back(one);
    }
    for (size_t at = 0; at < outputs.size(); ++at) {
        (void)op.UpdateOutputDesc(static_cast<uint32_t>(at), outputs[at]);
    }
    graph = Graph((std::string(op_type.GetString()) + "_graph").c_str());
    graph.SetInputs(data).SetOutputs({op});
    return graph.IsValid() ? GRAPH_SUCCESS : GRAPH_FAILED;
}

graphStatus aclgrphGenerateForOp(const AscendString &json_path, std::vector<Graph> &)
{
    return fail(std::string("aclgrphGenerateForOp: '") + json_path.GetString() +
                "': files of single operators are not supported: name the operator and its descriptions");
}

// The lines of a file, without spaces around them and without empty ones.
static std::set<std::string> lines_of(const std::vector<char> &bytes)
{
    std::set<std::string> lines;
    std::string line;
    const auto end_line = [&] {
        const size_t first = line.find_first_not_of(" \t\r");
        if (first != std::string::npos) {
            lines.insert(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
        }
        line.clear();
    };
    for (const char one : bytes) {
        if (one == '\n') {
            end_line();
        } else {
            line.push_back(one);
        }
    }
    end_line();
    return lines;
}

graphStatus aclgrphSetOpAttr(Graph &graph, aclgrphAttrType attr_type, const char_t *cfg_path)
{
    if (GraphBody::Of(graph) == nullptr || cfg_path == nullptr) {
        return invalid("aclgrphSetOpAttr: the graph is empty, or the name of the file is null");
    }
    if (attr_type != ATTR_TYPE_KEEP_DTYPE) {
        return fail("aclgrphSetOpAttr: attribute type " + std::to_string(static_cast<int>(attr_type)) +
                    ": compressing weights is not supported");
    }
    std::vector<char> bytes;
    if (!cairn::read_file(cfg_path, bytes)) {
        return invalid(std::string("aclgrphSetOpAttr: '") + cfg_path + "': " + std::strerror(errno));
    }
    std::set<std::string> names = lines_of(bytes);
    const std::set<std::string> all = names;
    for (GNode &node : graph.GetAllNodes()) {
        AscendString name;
        AscendString type;
        (void)node.GetName(name);
        (void)node.GetType(type);
        const std::string by_type = std::string("OpType::") + type.GetString();
        if (all.count(name.GetString()) + all.count(by_type) > 0) {
            int64_t kept = 1;
            (void)node.SetAttr("_keep_dtype", kept);
            names.erase(name.GetString());
            names.erase(by_type);
        }
    }
    return names.empty() ? GRAPH_SUCCESS
                         : invalid(std::string("aclgrphSetOpAttr: '") + cfg_path + "': the graph has no node '" +
                                   *names.begin() + "'");
}

graphStatus aclgrphConvertToWeightRefreshableGraphs(const ge::Graph &origin_graph,
                                                    const std::vector<AscendString> &const_names,
                                                    WeightRefreshableGraphs &)
{
    const char *const function = "aclgrphConvertToWeightRefreshableGraphs";
    if (GraphBody::Of(origin_graph) == nullptr || const_names.empty()) {
        return invalid(std::string(function) + ": the graph is empty, or no constant is named");
    }
    std::set<std::string> names;
    for (const AscendString &name : const_names) {
        const GNodePtr node = origin_graph.FindNodeByName(name);
        AscendString type;
        const bool is_const = node != nullptr && node->GetType(type) == GRAPH_SUCCESS &&
                              (type == "Const" || type == "Constant");
        if (!is_const || !names.insert(name.GetString()).second) {
            return invalid(std::string(function) + ": '" + name.GetString() + "' is " +
                           (is_const ? "named twice" : "no constant of the graph"));
        }
    }
    return fail(std::string(function) +
                ": graphs that refresh weights are for bundles of models, which are not supported: keep weights that "
                "change in variables of a session");
}

}  // namespace ge
