// ge::Operator: graphs of its own, and the functions that build them.

#include "graph.h"
#include "operator.h"
#include "text.h"

namespace ge {

void Operator::SubgraphRegister(const char_t *ir_name, bool)
{
    if (!IsEmpty() && ir_name != nullptr && operator_impl_->subgraphs.emplace(ir_name, 0).second) {
        operator_impl_->subgraph_names.emplace_back(ir_name);
        CairnOperatorAddSubgraph(operator_impl_->handle, cairn::text(ir_name));
    }
}

void Operator::SubgraphCountRegister(const char_t *ir_name, uint32_t count)
{
    if (!IsEmpty() && ir_name != nullptr) {
        SubgraphRegister(ir_name, true);
        std::vector<SubgraphBuilder> &builders = operator_impl_->subgraphs[ir_name];
        if (count > builders.size()) {
            CairnOperatorGrowSubgraph(operator_impl_->handle, cairn::text(ir_name), count - builders.size());
            builders.resize(count);
        }
    }
}

void Operator::SetSubgraphBuilder(const char_t *ir_name, uint32_t index, const SubgraphBuilder &builder)
{
    const auto found = IsEmpty() ? decltype(operator_impl_->subgraphs.end())() : operator_impl_->subgraphs.find(ir_name);
    if (IsEmpty() || found == operator_impl_->subgraphs.end() || index >= found->second.size()) {
        cairn::fail("Operator::SetSubgraphBuilder: there is no subgraph '" +
                    std::string(ir_name == nullptr ? "" : ir_name) + "' with the number " + std::to_string(index));
        return;
    }
    found->second[index] = builder;
    const Graph graph = builder ? builder() : Graph();
    if (GraphBody::Of(graph) == nullptr) {
        cairn::fail("Operator::SetSubgraphBuilder: the function of '" + std::string(ir_name) + "' builds no graph");
        return;
    }
    (void)CairnOperatorSetSubgraph(operator_impl_->handle, cairn::text(ir_name), index, GraphBody::Of(graph));
}

SubgraphBuilder Operator::GetDynamicSubgraphBuilder(const char_t *name, uint32_t index) const
{
    if (IsEmpty()) {
        return nullptr;
    }
    const auto found = operator_impl_->subgraphs.find(name);
    const bool exists = found != operator_impl_->subgraphs.end() && index < found->second.size();
    return exists ? found->second[index] : nullptr;
}

SubgraphBuilder Operator::GetSubgraphBuilder(const char_t *name) const
{
    return GetDynamicSubgraphBuilder(name, 0);
}

Graph Operator::GetDynamicSubgraph(const char_t *name, uint32_t index) const
{
    const SubgraphBuilder builder = GetDynamicSubgraphBuilder(name, index);
    return builder ? builder() : Graph();
}

Graph Operator::GetSubgraph(const char_t *name) const
{
    return GetDynamicSubgraph(name, 0);
}

size_t Operator::GetSubgraphNamesCount() const
{
    return IsEmpty() ? 0 : operator_impl_->subgraph_names.size();
}

graphStatus Operator::GetSubgraphNames(std::vector<AscendString> &names) const
{
    if (IsEmpty()) {
        return cairn::fail("Operator::GetSubgraphNames: the operator is empty");
    }
    names = operator_impl_->subgraph_names;
    return GRAPH_SUCCESS;
}

}  // namespace ge
