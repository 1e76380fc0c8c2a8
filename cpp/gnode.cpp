// ge::GNode over the engine's nodes.

#include "graph/gnode.h"

#include <string>

#include "attribute.h"
#include "description.h"
#include "graph.h"
#include "text.h"

namespace ge {

using cairn::fail;
using cairn::text;

GNode NodeBody::Adopt(CairnNode *owned)
{
    GNode node;
    if (owned != nullptr) {
        node.impl_ = std::make_shared<NodeBody>(owned);
    }
    return node;
}

GNodePtr NodeBody::AdoptShared(CairnNode *owned)
{
    return owned == nullptr ? nullptr : std::make_shared<GNode>(Adopt(owned));
}

GNode::GNode() = default;

static graphStatus no_node(const char *function)
{
    return fail(std::string("GNode::") + function + ": the node is empty (default-constructed)");
}

graphStatus GNode::GetType(AscendString &type) const
{
    if (impl_ == nullptr) {
        return no_node("GetType");
    }
    return CairnNodeType(impl_->handle, &type, cairn::store_text) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

graphStatus GNode::GetName(AscendString &name) const
{
    if (impl_ == nullptr) {
        return no_node("GetName");
    }
    return CairnNodeName(impl_->handle, &name, cairn::store_text) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

std::pair<GNodePtr, int32_t> GNode::GetInDataNodesAndPortIndexs(const int32_t index) const
{
    size_t output = 0;
    CairnNode *const source =
        impl_ == nullptr || index < 0 ? nullptr : CairnNodeSource(impl_->handle, static_cast<size_t>(index), &output);
    return {NodeBody::AdoptShared(source), source == nullptr ? -1 : static_cast<int32_t>(output)};
}

std::vector<std::pair<GNodePtr, int32_t>> GNode::GetOutDataNodesAndPortIndexs(const int32_t index) const
{
    std::vector<std::pair<GNodePtr, int32_t>> readers;
    for (size_t at = 0; impl_ != nullptr && index >= 0; ++at) {
        size_t input = 0;
        CairnNode *const reader = CairnNodeReader(impl_->handle, static_cast<size_t>(index), at, &input);
        if (reader == nullptr) {
            break;
        }
        readers.emplace_back(NodeBody::AdoptShared(reader), static_cast<int32_t>(input));
    }
    return readers;
}

static std::vector<GNodePtr> control_neighbours(CairnNode *node, bool is_output)
{
    std::vector<GNodePtr> nodes;
    for (size_t at = 0; node != nullptr; ++at) {
        CairnNode *const other = CairnNodeControl(node, is_output, at);
        if (other == nullptr) {
            break;
        }
        nodes.push_back(NodeBody::AdoptShared(other));
    }
    return nodes;
}

std::vector<GNodePtr> GNode::GetInControlNodes() const
{
    return control_neighbours(NodeBody::Of(*this), false);
}

std::vector<GNodePtr> GNode::GetOutControlNodes() const
{
    return control_neighbours(NodeBody::Of(*this), true);
}

graphStatus GNode::GetInputConstData(const int32_t index, Tensor &data) const
{
    const GNodePtr source = GetInDataNodesAndPortIndexs(index).first;
    AscendString type;
    if (source != nullptr) {
        (void)source->GetType(type);
    }
    if (type != "Const" && type != "Constant") {
        return fail("GNode::GetInputConstData: no Const feeds the input " + std::to_string(index));
    }
    return source->GetAttr("value", data);
}

static graphStatus port_index(CairnNode *node, const std::string &name, bool is_output, int32_t &index)
{
    const int64_t found = node == nullptr ? -1 : CairnNodePortIndex(node, text(name), is_output);
    if (found >= 0) {
        index = static_cast<int32_t>(found);
    }
    return found >= 0 ? GRAPH_SUCCESS : GRAPH_FAILED;
}

static graphStatus port_indices(CairnNode *node, const AscendString &name, bool is_output, std::vector<int32_t> &indexes)
{
    indexes.clear();
    int32_t found = 0;
    while (port_index(node, name.GetString() + std::to_string(indexes.size()), is_output, found) == GRAPH_SUCCESS) {
        indexes.push_back(found);
    }
    return indexes.empty() ? GRAPH_FAILED : GRAPH_SUCCESS;
}

graphStatus GNode::GetInputIndexByName(const AscendString &name, int32_t &index)
{
    return port_index(NodeBody::Of(*this), name.GetString(), false, index);
}

graphStatus GNode::GetOutputIndexByName(const AscendString &name, int32_t &index)
{
    return port_index(NodeBody::Of(*this), name.GetString(), true, index);
}

graphStatus GNode::GetDynamicInputIndexesByName(const AscendString &name, std::vector<int32_t> &indexes)
{
    return port_indices(NodeBody::Of(*this), name, false, indexes);
}

graphStatus GNode::GetDynamicOutputIndexesByName(const AscendString &name, std::vector<int32_t> &indexes)
{
    return port_indices(NodeBody::Of(*this), name, true, indexes);
}

size_t GNode::GetInputsSize() const
{
    return impl_ == nullptr ? 0 : CairnNodeInputs(impl_->handle);
}

size_t GNode::GetOutputsSize() const
{
    return impl_ == nullptr ? 0 : CairnNodeOutputs(impl_->handle);
}

static graphStatus get_desc(CairnNode *node, int32_t index, bool is_output, TensorDesc &desc)
{
    if (node == nullptr) {
        return no_node(is_output ? "GetOutputDesc" : "GetInputDesc");
    }
    if (index < 0) {
        return fail(std::string("the node has no ") + (is_output ? "output " : "input ") + std::to_string(index));
    }
    const bool found = CairnNodeDesc(node, static_cast<size_t>(index), is_output, &desc, cairn::store_desc);
    return found ? GRAPH_SUCCESS : GRAPH_FAILED;
}

static graphStatus set_desc(CairnNode *node, int32_t index, bool is_output, const TensorDesc &desc)
{
    if (node == nullptr) {
        return no_node(is_output ? "UpdateOutputDesc" : "UpdateInputDesc");
    }
    if (index < 0) {
        return fail(std::string("the node has no ") + (is_output ? "output " : "input ") + std::to_string(index));
    }
    cairn::Description description(desc);
    return CairnNodeSetDesc(node, static_cast<size_t>(index), is_output, &description.borrowed());
}

graphStatus GNode::GetInputDesc(const int32_t index, TensorDesc &tensor_desc) const
{
    return get_desc(NodeBody::Of(*this), index, false, tensor_desc);
}

graphStatus GNode::UpdateInputDesc(const int32_t index, const TensorDesc &tensor_desc)
{
    return set_desc(NodeBody::Of(*this), index, false, tensor_desc);
}

graphStatus GNode::GetOutputDesc(const int32_t index, TensorDesc &tensor_desc) const
{
    return get_desc(NodeBody::Of(*this), index, true, tensor_desc);
}

graphStatus GNode::UpdateOutputDesc(const int32_t index, const TensorDesc &tensor_desc)
{
    return set_desc(NodeBody::Of(*this), index, true, tensor_desc);
}

static bool find(CairnNode *node, const AscendString &name, cairn::Attribute &found)
{
    return node != nullptr && CairnNodeAttr(node, text(name), &found, cairn::store_attribute);
}

static graphStatus set(CairnNode *node, const AscendString &name, cairn::Attribute value)
{
    return node == nullptr ? no_node("SetAttr") : CairnNodeSetAttr(node, text(name), &value.borrowed());
}

#define CAIRN_ATTRIBUTE(TYPE)                                                                              \
    graphStatus GNode::GetAttr(const AscendString &name, TYPE &attr_value) const                           \
    {                                                                                                      \
        cairn::Attribute found;                                                                            \
        return find(NodeBody::Of(*this), name, found) && found.Get(attr_value) ? GRAPH_SUCCESS : GRAPH_FAILED; \
    }                                                                                                      \
    graphStatus GNode::SetAttr(const AscendString &name, TYPE &attr_value) const                           \
    {                                                                                                      \
        return set(NodeBody::Of(*this), name, cairn::Attribute(attr_value));                               \
    }

CAIRN_ATTRIBUTE(int64_t)
CAIRN_ATTRIBUTE(int32_t)
CAIRN_ATTRIBUTE(uint32_t)
CAIRN_ATTRIBUTE(float32_t)
CAIRN_ATTRIBUTE(AscendString)
CAIRN_ATTRIBUTE(bool)
CAIRN_ATTRIBUTE(Tensor)
CAIRN_ATTRIBUTE(std::vector<int64_t>)
CAIRN_ATTRIBUTE(std::vector<int32_t>)
CAIRN_ATTRIBUTE(std::vector<uint32_t>)
CAIRN_ATTRIBUTE(std::vector<float32_t>)
CAIRN_ATTRIBUTE(std::vector<AscendString>)
CAIRN_ATTRIBUTE(std::vector<bool>)
CAIRN_ATTRIBUTE(std::vector<Tensor>)
CAIRN_ATTRIBUTE(OpBytes)
CAIRN_ATTRIBUTE(std::vector<std::vector<int64_t>>)
CAIRN_ATTRIBUTE(std::vector<ge::DataType>)
CAIRN_ATTRIBUTE(ge::DataType)
CAIRN_ATTRIBUTE(AttrValue)

bool GNode::HasAttr(const AscendString &name)
{
    cairn::Attribute found;
    return find(NodeBody::Of(*this), name, found);
}

graphStatus GNode::GetSubgraph(uint32_t index, GraphPtr &graph) const
{
    graph = impl_ == nullptr ? nullptr : GraphBody::AdoptShared(CairnNodeSubgraph(impl_->handle, index));
    return graph != nullptr ? GRAPH_SUCCESS
                            : fail("GNode::GetSubgraph: the node has no subgraph " + std::to_string(index));
}

graphStatus GNode::GetALLSubgraphs(std::vector<GraphPtr> &graph_list) const
{
    graph_list.clear();
    AscendString name;
    const graphStatus status = impl_ == nullptr ? no_node("GetALLSubgraphs") : GetName(name);
    if (status == GRAPH_SUCCESS) {
        for (size_t at = 0; GraphPtr graph = GraphBody::AdoptShared(CairnNodeSubgraph(impl_->handle, at)); ++at) {
            graph_list.push_back(graph);
        }
    }
    return status;
}

}  // namespace ge
