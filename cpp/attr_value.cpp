// ge::AttrValue holds its value itself.

#include "graph/attr_value.h"

#include "attribute.h"

namespace ge {

AttrValue::AttrValue() : impl(std::make_shared<AttrValueBody>()) {}

template <typename T>
static graphStatus get(const AttrValue &from, T &value)
{
    return from.impl->value.Get(value) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

graphStatus AttrValue::GetValue(AscendString &val)
{
    return get(*this, val);
}

graphStatus AttrValue::GetValue(AttrValue::INT &val) const
{
    return get(*this, val);
}

graphStatus AttrValue::GetValue(AttrValue::FLOAT &val) const
{
    return get(*this, val);
}

#define CAIRN_ATTRIBUTE(TYPE)                                         \
    graphStatus AttrValue::SetAttrValue(const TYPE &attr_value) const \
    {                                                                 \
        impl->value = cairn::Attribute(attr_value);                   \
        return GRAPH_SUCCESS;                                         \
    }                                                                 \
    graphStatus AttrValue::GetAttrValue(TYPE &attr_value) const { return get(*this, attr_value); }

CAIRN_ATTRIBUTE(int64_t)
CAIRN_ATTRIBUTE(float32_t)
CAIRN_ATTRIBUTE(AscendString)
CAIRN_ATTRIBUTE(bool)
CAIRN_ATTRIBUTE(Tensor)
CAIRN_ATTRIBUTE(std::vector<int64_t>)
CAIRN_ATTRIBUTE(std::vector<float32_t>)
CAIRN_ATTRIBUTE(std::vector<AscendString>)
CAIRN_ATTRIBUTE(std::vector<bool>)
CAIRN_ATTRIBUTE(std::vector<Tensor>)
CAIRN_ATTRIBUTE(std::vector<std::vector<int64_t>>)
CAIRN_ATTRIBUTE(std::vector<ge::DataType>)
CAIRN_ATTRIBUTE(ge::DataType)

}  // namespace ge
