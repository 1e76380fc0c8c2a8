/*
 * Graphs. C++ only.
 */
#ifndef CAIRN_GRAPH_GRAPH_H
#define CAIRN_GRAPH_GRAPH_H

#ifdef __cplusplus

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/gnode.h"
#include "graph/graph_buffer.h"
#include "graph/operator.h"

namespace ge {

class AttrValue;
class Graph;
class GraphBody;

/**
 * Nodes and what connects them. Copies are the same graph; CopyFrom makes one of its own. Where a function
 * cannot say that it failed, the text is in GEGetErrorMsgV2.
 */
class Graph {
public:
    explicit Graph(const std::string &name);
    explicit Graph(const char_t *name);
    /** None: it can only be loaded or copied into. */
    Graph() = default;
    ~Graph() = default;

    /** Makes nodes of these operators and of all that follows from them by links. */
    Graph &SetInputs(const std::vector<Operator> &inputs);
    /* Sets the outputs of the graph: every output of an operator, those with these indices, or one by its name. */
    Graph &SetOutputs(const std::vector<Operator> &outputs);
    Graph &SetOutputs(const std::vector<std::pair<Operator, std::vector<size_t>>> &output_indexs);
    Graph &SetOutputs(const std::vector<std::pair<ge::Operator, std::string>> &outputs);
    Graph &SetOutputs(const std::vector<std::pair<ge::Operator, AscendString>> &outputs);
    /** Operators that are to run although nobody reads them. */
    Graph &SetTargets(const std::vector<Operator> &targets);
    /** Whether it has nodes. */
    bool IsValid() const;

    graphStatus AddOp(const ge::Operator &op);
    graphStatus FindOpByName(const std::string &name, ge::Operator &op) const;
    graphStatus FindOpByName(const char_t *name, ge::Operator &op) const;
    graphStatus FindOpByType(const std::string &type, std::vector<ge::Operator> &ops) const;
    graphStatus FindOpByType(const char_t *type, std::vector<ge::Operator> &ops) const;
    graphStatus GetAllOpName(std::vector<std::string> &op_name) const;
    graphStatus GetAllOpName(std::vector<AscendString> &names) const;

    /* Files and bytes are a serialized ge.proto.ModelDef. A load that fails leaves the graph as it was. */
    graphStatus SaveToFile(const std::string &file_name) const;
    graphStatus SaveToFile(const char_t *file_name) const;
    graphStatus LoadFromFile(const std::string &file_name);
    graphStatus LoadFromFile(const char_t *file_name);
    graphStatus LoadFromSerializedModelArray(const void *serialized_model, size_t size);
    graphStatus SaveToMem(GraphBuffer &graph_buffer) const;
    graphStatus LoadFromMem(const GraphBuffer &graph_buffer);
    graphStatus LoadFromMem(const uint8_t *data, const size_t len);

    /** Valid as long as the graph. */
    const std::string &GetName() const;
    graphStatus GetName(AscendString &name) const;
    /** Kept as the attribute `_need_iteration`; nothing here iterates. */
    void SetNeedIteration(bool need_iteration);

    /** The nodes, each after those that it reads from. */
    std::vector<GNode> GetAllNodes() const;
    std::vector<GNode> GetDirectNode() const;
    /** Null if there is none of that name. */
    GNodePtr FindNodeByName(const AscendString &node_name) const;
    graphStatus RemoveNode(GNode &node);
    graphStatus RemoveNode(GNode &node, bool contain_subgraph);
    graphStatus RemoveEdge(GNode &src_node, const int32_t src_port_index, GNode &dst_node, const int32_t dst_port_index);
    /** Makes a node of one operator; links are not followed. */
    GNode AddNodeByOp(const Operator &op);
    graphStatus AddDataEdge(GNode &src_node, const int32_t src_port_index, GNode &dst_node,
                            const int32_t dst_port_index);
    graphStatus AddControlEdge(GNode &src_node, GNode &dst_node);

    /** Copies of the graphs of nodes, at any depth; null if there is none of that name. */
    std::vector<GraphPtr> GetAllSubgraphs() const;
    GraphPtr GetSubGraph(const char *name) const;

    /** Becomes a deep copy. */
    graphStatus CopyFrom(const Graph &src_graph);
    static GraphPtr ConstructFromInputs(const std::vector<Operator> &inputs, const AscendString &name);

    graphStatus SetAttr(const AscendString &name, const AttrValue &attr_value);
    graphStatus GetAttr(const AscendString &name, AttrValue &attr_value) const;

private:
    friend class GraphBody;
    std::shared_ptr<GraphBody> impl_{nullptr};
};

}  // namespace ge

#endif

#endif
