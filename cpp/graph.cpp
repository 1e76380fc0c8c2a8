// ge::Graph over the engine's graphs.

#include "graph.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "attribute.h"
#include "operator.h"
#include "text.h"

namespace ge {

using cairn::fail;
using cairn::text;

Graph::Graph(const char_t *name) : impl_(std::make_shared<GraphBody>(CairnGraphNew(text(name)))) {}

static graphStatus fail_empty(const char *function)
{
    return fail(std::string("Graph::") + function + ": the graph is empty: give it a name, or load it first");
}

// Handles of operators; false, with an error message set, if one is empty.
static bool handles(const char *function, const std::vector<Operator> &ops, std::vector<CairnOperator *> &found)
{
    for (const Operator &op : ops) {
        found.push_back(OperatorBody::Of(op));
        if (found.back() == nullptr) {
            fail(std::string("Graph::") + function + ": operator " + std::to_string(found.size() - 1) + " is empty");
            return false;
        }
    }
    return true;
}

Graph &Graph::SetInputs(const std::vector<Operator> &inputs)
{
    std::vector<CairnOperator *> ops;
    if (impl_ == nullptr) {
        fail_empty("SetInputs");
    } else if (handles("SetInputs", inputs, ops)) {
        (void)CairnGraphSetInputs(impl_->handle, ops.data(), ops.size());
    }
    return *this;
}

static void set_outputs(CairnGraph *graph, const std::vector<Operator> &outputs, const std::vector<int64_t> &indices)
{
    std::vector<CairnOperator *> ops;
    if (graph == nullptr) {
        fail_empty("SetOutputs");
    } else if (handles("SetOutputs", outputs, ops)) {
        (void)CairnGraphSetOutputs(graph, ops.data(), indices.data(), ops.size());
    }
}

Graph &Graph::SetOutputs(const std::vector<Operator> &outputs)
{
    set_outputs(GraphBody::Of(*this), outputs, std::vector<int64_t>(outputs.size(), -1));
    return *this;
}

Graph &Graph::SetOutputs(const std::vector<std::pair<Operator, std::vector<size_t>>> &output_indexs)
{
    std::vector<Operator> ops;
    std::vector<int64_t> indices;
    for (const auto &output : output_indexs) {
        if (output.second.empty()) {
            ops.push_back(output.first);
            indices.push_back(-1);
        }
        for (const size_t at : output.second) {
            ops.push_back(output.first);
            indices.push_back(static_cast<int64_t>(at));
        }
    }
    set_outputs(GraphBody::Of(*this), ops, indices);
    return *this;
}

Graph &Graph::SetOutputs(const std::vector<std::pair<ge::Operator, AscendString>> &outputs)
{
    std::vector<Operator> ops;
    std::vector<int64_t> indices;
    for (const auto &output : outputs) {
        CairnOperator *const op = OperatorBody::Of(output.first);
        const bool is_named = output.second.GetLength() > 0;
        const int64_t index = op == nullptr || !is_named ? -1 : CairnOperatorPortIndex(op, text(output.second), true);
        if (is_named && index < 0) {
            fail(std::string("Graph::SetOutputs: there is no output '") + output.second.GetString() + "'");
            return *this;
        }
        ops.push_back(output.first);
        indices.push_back(index);
    }
    set_outputs(GraphBody::Of(*this), ops, indices);
    return *this;
}

Graph &Graph::SetTargets(const std::vector<Operator> &targets)
{
    std::vector<CairnOperator *> ops;
    if (impl_ == nullptr) {
        fail_empty("SetTargets");
    } else if (handles("SetTargets", targets, ops)) {
        (void)CairnGraphSetTargets(impl_->handle, ops.data(), ops.size());
    }
    return *this;
}

bool Graph::IsValid() const
{
    return impl_ != nullptr && CairnGraphValid(impl_->handle);
}

graphStatus Graph::AddOp(const ge::Operator &op)
{
    if (impl_ == nullptr || op.IsEmpty()) {
        return impl_ == nullptr ? fail_empty("AddOp") : fail("Graph::AddOp: the operator is empty");
    }
    return CairnGraphAddOp(impl_->handle, OperatorBody::Of(op));
}

graphStatus Graph::FindOpByName(const char_t *name, ge::Operator &op) const
{
    if (impl_ == nullptr) {
        return fail_empty("FindOpByName");
    }
    op = OperatorBody::Adopt(CairnGraphFindOp(impl_->handle, text(name)));
    return op.IsEmpty() ? fail("Graph::FindOpByName: there is no '" + std::string(name == nullptr ? "" : name) + "'")
                        : GRAPH_SUCCESS;
}

graphStatus Graph::FindOpByType(const char_t *type, std::vector<ge::Operator> &ops) const
{
    std::vector<AscendString> names;
    if (GetAllOpName(names) != GRAPH_SUCCESS) {
        return GRAPH_FAILED;
    }
    ops.clear();
    for (const AscendString &name : names) {
        Operator op = OperatorBody::Adopt(CairnGraphFindOp(impl_->handle, text(name)));
        AscendString found;
        if (!op.IsEmpty() && op.GetOpType(found) == GRAPH_SUCCESS && found == type) {
            ops.push_back(op);
        }
    }
    return GRAPH_SUCCESS;
}

graphStatus Graph::GetAllOpName(std::vector<AscendString> &names) const
{
    if (impl_ == nullptr) {
        return fail_empty("GetAllOpName");
    }
    names.clear();
    CairnGraphOpNames(impl_->handle, &names, cairn::append_text);
    return GRAPH_SUCCESS;
}

static graphStatus file_failed(const char *function, const char *name)
{
    return fail(std::string("Graph::") + function + ": '" + (name == nullptr ? "" : name) + "': " + std::strerror(errno));
}

graphStatus Graph::SaveToFile(const char_t *file_name) const
{
    GraphBuffer bytes;
    if (SaveToMem(bytes) != GRAPH_SUCCESS) {
        return GRAPH_FAILED;
    }
    std::FILE *const file = file_name == nullptr ? nullptr : std::fopen(file_name, "wb");
    if (file == nullptr) {
        return file_failed("SaveToFile", file_name);
    }
    const bool written = std::fwrite(bytes.GetData(), 1, bytes.GetSize(), file) == bytes.GetSize();
    const int closed = std::fclose(file);
    return written && closed == 0 ? GRAPH_SUCCESS : file_failed("SaveToFile", file_name);
}

graphStatus Graph::LoadFromFile(const char_t *file_name)
{
    std::FILE *const file = file_name == nullptr ? nullptr : std::fopen(file_name, "rb");
    if (file == nullptr) {
        return file_failed("LoadFromFile", file_name);
    }
    std::vector<uint8_t> bytes;
    std::vector<uint8_t> buffer(size_t(1) << 16);
    for (size_t read = 1; read > 0;) {
        read = std::fread(buffer.data(), 1, buffer.size(), file);
        bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(read));
    }
    const bool has_failed = std::ferror(file) != 0;
    (void)std::fclose(file);
    return has_failed ? file_failed("LoadFromFile", file_name) : LoadFromMem(bytes.data(), bytes.size());
}

graphStatus Graph::LoadFromSerializedModelArray(const void *serialized_model, size_t size)
{
    if (serialized_model == nullptr || size == 0) {
        return fail("Graph::LoadFromSerializedModelArray: there are no bytes");
    }
    auto loaded = std::make_shared<GraphBody>(CairnGraphNew(text("")));
    const graphStatus status = CairnGraphRead(loaded->handle, serialized_model, size);
    if (status == GRAPH_SUCCESS) {
        impl_ = loaded;
    }
    return status;
}

graphStatus Graph::SaveToMem(GraphBuffer &graph_buffer) const
{
    if (impl_ == nullptr) {
        return fail_empty("SaveToMem");
    }
    auto bytes = std::make_unique<std::vector<uint8_t>>();
    const auto callback = [](void *context, CairnText shown) {
        static_cast<std::vector<uint8_t> *>(context)->assign(shown.data, shown.data + shown.size);
    };
    const graphStatus status = CairnGraphWrite(impl_->handle, bytes.get(), callback);
    if (status == GRAPH_SUCCESS) {
        graph_buffer.buffer_ = std::move(bytes);
    }
    return status;
}

graphStatus Graph::LoadFromMem(const GraphBuffer &graph_buffer)
{
    return LoadFromSerializedModelArray(graph_buffer.GetData(), graph_buffer.GetSize());
}

graphStatus Graph::LoadFromMem(const uint8_t *data, const size_t len)
{
    return LoadFromSerializedModelArray(data, len);
}

graphStatus Graph::GetName(AscendString &name) const
{
    if (impl_ == nullptr) {
        return fail_empty("GetName");
    }
    CairnGraphName(impl_->handle, &name, cairn::store_text);
    return GRAPH_SUCCESS;
}

void Graph::SetNeedIteration(bool need_iteration)
{
    AttrValue value;
    (void)value.SetAttrValue(need_iteration);
    (void)SetAttr("_need_iteration", value);
}

std::vector<GNode> Graph::GetAllNodes() const
{
    std::vector<GNode> nodes;
    if (impl_ != nullptr) {
        CairnGraphNodes(impl_->handle, &nodes, [](void *context, CairnNode *node) {
            static_cast<std::vector<GNode> *>(context)->push_back(NodeBody::Adopt(node));
        });
    }
    return nodes;
}

std::vector<GNode> Graph::GetDirectNode() const
{
    return GetAllNodes();
}

GNodePtr Graph::FindNodeByName(const AscendString &node_name) const
{
    for (const GNode &node : GetAllNodes()) {
        AscendString name;
        if (node.GetName(name) == GRAPH_SUCCESS && name == node_name) {
            return std::make_shared<GNode>(node);
        }
    }
    return nullptr;
}

// Whether graph and nodes exist; sets an error message if one is not.
static bool nodes_exist(const char *function, const std::shared_ptr<GraphBody> &graph, const GNode &one, const GNode &other)
{
    if (graph == nullptr) {
        fail_empty(function);
    } else if (NodeBody::Of(one) == nullptr || NodeBody::Of(other) == nullptr) {
        fail(std::string("Graph::") + function + ": the node is empty (default-constructed): take nodes from GetAllNodes or AddNodeByOp");
    } else {
        return true;
    }
    return false;
}

graphStatus Graph::RemoveNode(GNode &node)
{
    return nodes_exist("RemoveNode", impl_, node, node) ? CairnGraphRemoveNode(impl_->handle, NodeBody::Of(node))
                                                  : GRAPH_FAILED;
}

graphStatus Graph::RemoveNode(GNode &node, bool)
{
    return RemoveNode(node);
}

graphStatus Graph::RemoveEdge(GNode &src_node, const int32_t src_port_index, GNode &dst_node,
                              const int32_t dst_port_index)
{
    return nodes_exist("RemoveEdge", impl_, src_node, dst_node)
               ? CairnGraphRemoveEdge(impl_->handle, NodeBody::Of(src_node), src_port_index, NodeBody::Of(dst_node),
                                      dst_port_index)
               : GRAPH_FAILED;
}

GNode Graph::AddNodeByOp(const Operator &op)
{
    if (impl_ == nullptr || op.IsEmpty()) {
        impl_ == nullptr ? fail_empty("AddNodeByOp") : fail("Graph::AddNodeByOp: the operator is empty");
        return GNode();
    }
    return NodeBody::Adopt(CairnGraphAddNode(impl_->handle, OperatorBody::Of(op)));
}

graphStatus Graph::AddDataEdge(GNode &src_node, const int32_t src_port_index, GNode &dst_node,
                               const int32_t dst_port_index)
{
    return nodes_exist("AddDataEdge", impl_, src_node, dst_node)
               ? CairnGraphAddEdge(impl_->handle, NodeBody::Of(src_node), src_port_index, NodeBody::Of(dst_node),
                                   dst_port_index)
               : GRAPH_FAILED;
}

graphStatus Graph::AddControlEdge(GNode &src_node, GNode &dst_node)
{
    return nodes_exist("AddControlEdge", impl_, src_node, dst_node)
               ? CairnGraphAddControl(impl_->handle, NodeBody::Of(src_node), NodeBody::Of(dst_node))
               : GRAPH_FAILED;
}

GraphPtr GraphBody::AdoptShared(CairnGraph *owned)
{
    if (owned == nullptr) {
        return nullptr;
    }
    auto graph = std::make_shared<Graph>();
    graph->impl_ = std::make_shared<GraphBody>(owned);
    return graph;
}

std::vector<GraphPtr> Graph::GetAllSubgraphs() const
{
    std::vector<GraphPtr> graphs;
    if (impl_ != nullptr) {
        for (size_t at = 0; GraphPtr graph = GraphBody::AdoptShared(CairnGraphSubgraph(impl_->handle, at)); ++at) {
            graphs.push_back(graph);
        }
    }
    return graphs;
}

GraphPtr Graph::GetSubGraph(const char *name) const
{
    for (const GraphPtr &graph : GetAllSubgraphs()) {
        AscendString found;
        if (name != nullptr && graph->GetName(found) == GRAPH_SUCCESS && found == name) {
            return graph;
        }
    }
    return nullptr;
}

graphStatus Graph::CopyFrom(const Graph &src_graph)
{
    CairnGraph *const from = GraphBody::Of(src_graph);
    if (from == nullptr) {
        return fail("Graph::CopyFrom: the graph to copy is empty");
    }
    AscendString name("");
    if (impl_ != nullptr) {
        (void)GetName(name);
    }
    auto copy = std::make_shared<GraphBody>(CairnGraphNew(text(name)));
    const graphStatus status = CairnGraphCopy(copy->handle, from);
    if (status == GRAPH_SUCCESS) {
        impl_ = copy;
    }
    return status;
}

GraphPtr Graph::ConstructFromInputs(const std::vector<Operator> &inputs, const AscendString &name)
{
    auto graph = std::make_shared<Graph>(name.GetString());
    graph->SetInputs(inputs);
    return graph->IsValid() ? graph : nullptr;
}

graphStatus Graph::SetAttr(const AscendString &name, const AttrValue &attr_value)
{
    if (impl_ == nullptr) {
        return fail_empty("SetAttr");
    }
    cairn::Attribute value(attr_value);
    return CairnGraphSetAttr(impl_->handle, text(name), &value.borrowed());
}

graphStatus Graph::GetAttr(const AscendString &name, AttrValue &attr_value) const
{
    cairn::Attribute value;
    const bool found = impl_ != nullptr && CairnGraphAttr(impl_->handle, text(name), &value, cairn::store_attribute);
    return found && value.Get(attr_value) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

GraphBuffer::GraphBuffer() = default;

GraphBuffer::~GraphBuffer() = default;

const uint8_t *GraphBuffer::GetData() const
{
    return buffer_ == nullptr ? nullptr : buffer_->data();
}

size_t GraphBuffer::GetSize() const
{
    return buffer_ == nullptr ? 0 : buffer_->size();
}

}  // namespace ge
