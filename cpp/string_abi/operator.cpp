#include "graph/attr_value.h"
#include "graph/graph.h"
#include "graph/operator.h"
#include "strings.h"

namespace ge {

Operator::Operator(const std::string &type) : Operator(type.c_str()) {}

Operator::Operator(const std::string &name, const std::string &type) : Operator(name.c_str(), type.c_str()) {}

std::string Operator::GetName() const
{
    AscendString name;
    (void)GetName(name);
    return to_std_string(name);
}

std::string Operator::GetOpType() const
{
    AscendString type;
    (void)GetOpType(type);
    return to_std_string(type);
}

Operator &Operator::SetInput(const std::string &dst_name, const Operator &src_oprt)
{
    return SetInput(dst_name.c_str(), src_oprt);
}

Operator &Operator::SetInput(const std::string &dst_name, const Operator &src_oprt, const std::string &name)
{
    return SetInput(dst_name.c_str(), src_oprt, name.c_str());
}

Operator &Operator::SetInput(const std::string &dst_name, const Operator &src_oprt, uint32_t index)
{
    return SetInput(dst_name.c_str(), src_oprt, index);
}

Operator &Operator::SetInput(const std::string &dst_name, uint32_t dst_index, const Operator &src_oprt)
{
    return SetInput(dst_name.c_str(), dst_index, src_oprt);
}

Operator &Operator::SetInput(const std::string &dst_name, uint32_t dst_index, const Operator &src_oprt,
                             const std::string &name)
{
    return SetInput(dst_name.c_str(), dst_index, src_oprt, name.c_str());
}

graphStatus Operator::GetInputConstData(const std::string &dst_name, Tensor &data) const
{
    return GetInputConstData(dst_name.c_str(), data);
}

TensorDesc Operator::GetInputDesc(const std::string &name) const
{
    return GetInputDescByName(name.c_str());
}

TensorDesc Operator::GetOutputDesc(const std::string &name) const
{
    return GetOutputDescByName(name.c_str());
}

TensorDesc Operator::GetDynamicInputDesc(const std::string &name, uint32_t index) const
{
    return GetDynamicInputDesc(name.c_str(), index);
}

TensorDesc Operator::GetDynamicOutputDesc(const std::string &name, uint32_t index) const
{
    return GetDynamicOutputDesc(name.c_str(), index);
}

graphStatus Operator::TryGetInputDesc(const std::string &name, TensorDesc &tensor_desc) const
{
    return TryGetInputDesc(name.c_str(), tensor_desc);
}

graphStatus Operator::UpdateInputDesc(const std::string &name, const TensorDesc &tensor_desc)
{
    return UpdateInputDesc(name.c_str(), tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const std::string &name, const TensorDesc &tensor_desc)
{
    return UpdateOutputDesc(name.c_str(), tensor_desc);
}

graphStatus Operator::UpdateDynamicInputDesc(const std::string &name, uint32_t index, const TensorDesc &tensor_desc)
{
    return UpdateDynamicInputDesc(name.c_str(), index, tensor_desc);
}

graphStatus Operator::UpdateDynamicOutputDesc(const std::string &name, uint32_t index, const TensorDesc &tensor_desc)
{
    return UpdateDynamicOutputDesc(name.c_str(), index, tensor_desc);
}

int32_t Operator::GetDynamicInputNum(const std::string &name) const
{
    return GetDynamicInputNum(name.c_str());
}

int32_t Operator::GetDynamicOutputNum(const std::string &name) const
{
    return GetDynamicOutputNum(name.c_str());
}

const std::map<std::string, std::string> Operator::GetAllAttrNamesAndTypes() const
{
    std::map<AscendString, AscendString> types;
    (void)GetAllAttrNamesAndTypes(types);
    std::map<std::string, std::string> plain_types;
    for (const auto &type : types) {
        plain_types[to_std_string(type.first)] = to_std_string(type.second);
    }
    return plain_types;
}

#define CAIRN_ATTRIBUTE(SET, GET)                                               \
    Operator &Operator::SetAttr(const std::string &name, SET attr_value)        \
    {                                                                           \
        return SetAttr(name.c_str(), attr_value);                               \
    }                                                                           \
    graphStatus Operator::GetAttr(const std::string &name, GET attr_value) const \
    {                                                                           \
        return GetAttr(name.c_str(), attr_value);                               \
    }

CAIRN_ATTRIBUTE(int64_t, int64_t &)
CAIRN_ATTRIBUTE(int32_t, int32_t &)
CAIRN_ATTRIBUTE(uint32_t, uint32_t &)
CAIRN_ATTRIBUTE(float32_t, float32_t &)
CAIRN_ATTRIBUTE(bool, bool &)
CAIRN_ATTRIBUTE(const ge::DataType &, ge::DataType &)
CAIRN_ATTRIBUTE(const Tensor &, Tensor &)
CAIRN_ATTRIBUTE(const OpBytes &, OpBytes &)
CAIRN_ATTRIBUTE(const std::vector<int64_t> &, std::vector<int64_t> &)
CAIRN_ATTRIBUTE(const std::vector<int32_t> &, std::vector<int32_t> &)
CAIRN_ATTRIBUTE(const std::vector<uint32_t> &, std::vector<uint32_t> &)
CAIRN_ATTRIBUTE(const std::vector<float32_t> &, std::vector<float32_t> &)
CAIRN_ATTRIBUTE(const std::vector<bool> &, std::vector<bool> &)
CAIRN_ATTRIBUTE(const std::vector<ge::DataType> &, std::vector<ge::DataType> &)
CAIRN_ATTRIBUTE(const std::vector<Tensor> &, std::vector<Tensor> &)
CAIRN_ATTRIBUTE(const std::vector<std::vector<int64_t>> &, std::vector<std::vector<int64_t>> &)
CAIRN_ATTRIBUTE(AttrValue &&, AttrValue &)
#undef CAIRN_ATTRIBUTE

Operator &Operator::SetAttr(const std::string &name, std::initializer_list<int64_t> &&attr_value)
{
    return SetAttr(name.c_str(), std::vector<int64_t>(attr_value));
}

Operator &Operator::SetAttr(const std::string &name, const std::string &attr_value)
{
    return SetAttr(name.c_str(), to_ascend_string(attr_value));
}

graphStatus Operator::GetAttr(const std::string &name, std::string &attr_value) const
{
    AscendString value;
    const graphStatus status = GetAttr(name.c_str(), value);
    if (status == GRAPH_SUCCESS) {
        attr_value = to_std_string(value);
    }
    return status;
}

Operator &Operator::SetAttr(const std::string &name, const std::vector<std::string> &attr_value)
{
    return SetAttr(name.c_str(), to_ascend_string(attr_value));
}

graphStatus Operator::GetAttr(const std::string &name, std::vector<std::string> &attr_value) const
{
    std::vector<AscendString> values;
    const graphStatus status = GetAttr(name.c_str(), values);
    if (status == GRAPH_SUCCESS) {
        attr_value = to_std_string(values);
    }
    return status;
}

std::vector<std::string> Operator::GetSubgraphNames() const
{
    std::vector<AscendString> names;
    (void)GetSubgraphNames(names);
    return to_std_string(names);
}

SubgraphBuilder Operator::GetSubgraphBuilder(const std::string &name) const
{
    return GetSubgraphBuilder(name.c_str());
}

Graph Operator::GetSubgraph(const std::string &name) const
{
    return GetSubgraph(name.c_str());
}

SubgraphBuilder Operator::GetDynamicSubgraphBuilder(const std::string &name, uint32_t index) const
{
    return GetDynamicSubgraphBuilder(name.c_str(), index);
}

Graph Operator::GetDynamicSubgraph(const std::string &name, uint32_t index) const
{
    return GetDynamicSubgraph(name.c_str(), index);
}

#define CAIRN_ATTRIBUTE(TYPE)                                            \
    void Operator::AttrRegister(const std::string &name, TYPE attr_value) \
    {                                                                    \
        AttrRegister(name.c_str(), attr_value);                          \
    }

CAIRN_ATTRIBUTE(int64_t)
CAIRN_ATTRIBUTE(float32_t)
CAIRN_ATTRIBUTE(bool)
CAIRN_ATTRIBUTE(const ge::DataType &)
CAIRN_ATTRIBUTE(const Tensor &)
CAIRN_ATTRIBUTE(const OpBytes &)
CAIRN_ATTRIBUTE(const AscendString &)
CAIRN_ATTRIBUTE(const std::vector<int64_t> &)
CAIRN_ATTRIBUTE(const std::vector<float32_t> &)
CAIRN_ATTRIBUTE(const std::vector<bool> &)
CAIRN_ATTRIBUTE(const std::vector<ge::DataType> &)
CAIRN_ATTRIBUTE(const std::vector<Tensor> &)
CAIRN_ATTRIBUTE(const std::vector<AscendString> &)
CAIRN_ATTRIBUTE(const std::vector<std::vector<int64_t>> &)

void Operator::AttrRegister(const std::string &name, const std::string &attr_value)
{
    AttrRegister(name.c_str(), to_ascend_string(attr_value));
}

void Operator::AttrRegister(const std::string &name, const std::vector<std::string> &attr_value)
{
    AttrRegister(name.c_str(), to_ascend_string(attr_value));
}

void Operator::InputRegister(const std::string &name)
{
    InputRegister(name.c_str());
}

void Operator::OptionalInputRegister(const std::string &name)
{
    OptionalInputRegister(name.c_str());
}

void Operator::OutputRegister(const std::string &name)
{
    OutputRegister(name.c_str());
}

void Operator::DynamicInputRegister(const std::string &name, const uint32_t num, bool is_push_back)
{
    DynamicInputRegister(name.c_str(), num, is_push_back);
}

void Operator::DynamicInputRegisterByIndex(const std::string &name, const uint32_t num, size_t index)
{
    DynamicInputRegisterByIndex(name.c_str(), num, index);
}

void Operator::DynamicOutputRegister(const std::string &name, const uint32_t num, bool is_push_back)
{
    DynamicOutputRegister(name.c_str(), num, is_push_back);
}

void Operator::RequiredAttrRegister(const std::string &name)
{
    RequiredAttrRegister(name.c_str());
}

void Operator::SubgraphRegister(const std::string &ir_name, bool dynamic)
{
    SubgraphRegister(ir_name.c_str(), dynamic);
}

void Operator::SubgraphCountRegister(const std::string &ir_name, uint32_t count)
{
    SubgraphCountRegister(ir_name.c_str(), count);
}

void Operator::SetSubgraphBuilder(const std::string &ir_name, uint32_t index, const SubgraphBuilder &builder)
{
    SetSubgraphBuilder(ir_name.c_str(), index, builder);
}

}  // namespace ge
