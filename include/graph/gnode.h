/*
 * Nodes of a graph. C++ only.
 */
#ifndef CAIRN_GRAPH_GNODE_H
#define CAIRN_GRAPH_GNODE_H

#ifdef __cplusplus

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace ge {

class AttrValue;
class GNode;
class Graph;
class NodeBody;

using GNodePtr = std::shared_ptr<GNode>;
using GraphPtr = std::shared_ptr<Graph>;
using ConstGraphPtr = std::shared_ptr<const Graph>;
using OpBytes = std::vector<uint8_t>;

/** A node of a graph, or none. Copies are the same node; a node keeps its graph. */
class GNode {
public:
    /** No node: every function fails or gives nothing. */
    GNode();
    ~GNode() = default;

    graphStatus GetType(AscendString &type) const;
    graphStatus GetName(AscendString &name) const;

    /** What feeds an input, and by which of its outputs; null if nothing does. */
    std::pair<GNodePtr, int32_t> GetInDataNodesAndPortIndexs(const int32_t index) const;
    /** Who reads an output, and by which of their inputs. */
    std::vector<std::pair<GNodePtr, int32_t>> GetOutDataNodesAndPortIndexs(const int32_t index) const;
    /** The nodes that must run before and after this one. */
    std::vector<GNodePtr> GetInControlNodes() const;
    std::vector<GNodePtr> GetOutControlNodes() const;
    /** The value of an input that a Const feeds. */
    graphStatus GetInputConstData(const int32_t index, Tensor &data) const;

    graphStatus GetInputIndexByName(const AscendString &name, int32_t &index);
    graphStatus GetOutputIndexByName(const AscendString &name, int32_t &index);
    graphStatus GetDynamicInputIndexesByName(const AscendString &name, std::vector<int32_t> &indexes);
    graphStatus GetDynamicOutputIndexesByName(const AscendString &name, std::vector<int32_t> &indexes);
    size_t GetInputsSize() const;
    size_t GetOutputsSize() const;

    graphStatus GetInputDesc(const int32_t index, TensorDesc &tensor_desc) const;
    graphStatus UpdateInputDesc(const int32_t index, const TensorDesc &tensor_desc);
    graphStatus GetOutputDesc(const int32_t index, TensorDesc &tensor_desc) const;
    graphStatus UpdateOutputDesc(const int32_t index, const TensorDesc &tensor_desc);

    /* Attributes; GetAttr fails where the type is another one. */
#define CAIRN_ATTRIBUTE(TYPE)                                                \
    graphStatus GetAttr(const AscendString &name, TYPE &attr_value) const;   \
    graphStatus SetAttr(const AscendString &name, TYPE &attr_value) const;
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
#undef CAIRN_ATTRIBUTE
    bool HasAttr(const AscendString &name);

    /** Copies of the node's own graphs; GRAPH_FAILED if there is none with that number. */
    graphStatus GetSubgraph(uint32_t index, GraphPtr &graph) const;
    graphStatus GetALLSubgraphs(std::vector<GraphPtr> &graph_list) const;

private:
    friend class NodeBody;
    std::shared_ptr<NodeBody> impl_;
};

}  // namespace ge

#endif

#endif
