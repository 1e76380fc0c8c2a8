// ge::Operator: attributes.

#include "attribute.h"
#include "operator.h"
#include "text.h"

namespace ge {

using cairn::text;

static void set(const Operator &op, const char_t *name, cairn::Attribute value)
{
    CairnOperator *const handle = OperatorBody::Of(op);
    if (handle == nullptr || name == nullptr) {
        cairn::fail(name == nullptr ? "Operator::SetAttr: the name is null" : "Operator::SetAttr: the operator is empty");
        return;
    }
    (void)CairnOperatorSetAttr(handle, text(name), &value.borrowed());
}

template <typename T>
static graphStatus get(const Operator &op, const char_t *name, T &value)
{
    CairnOperator *const handle = OperatorBody::Of(op);
    cairn::Attribute found;
    const bool exists =
        handle != nullptr && name != nullptr && CairnOperatorAttr(handle, text(name), &found, cairn::store_attribute);
    return exists && found.Get(value) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

#define CAIRN_ATTRIBUTE(SET, GET)                                                                                   \
    Operator &Operator::SetAttr(const char_t *name, SET attr_value)                                                 \
    {                                                                                                               \
        set(*this, name, cairn::Attribute(attr_value));                                                             \
        return *this;                                                                                               \
    }                                                                                                               \
    graphStatus Operator::GetAttr(const char_t *name, GET attr_value) const { return get(*this, name, attr_value); }

CAIRN_ATTRIBUTE(int64_t, int64_t &)
CAIRN_ATTRIBUTE(int32_t, int32_t &)
CAIRN_ATTRIBUTE(uint32_t, uint32_t &)
CAIRN_ATTRIBUTE(float32_t, float32_t &)
CAIRN_ATTRIBUTE(bool, bool &)
CAIRN_ATTRIBUTE(const ge::DataType &, ge::DataType &)
CAIRN_ATTRIBUTE(const AscendString &, AscendString &)
CAIRN_ATTRIBUTE(const Tensor &, Tensor &)
CAIRN_ATTRIBUTE(const OpBytes &, OpBytes &)
CAIRN_ATTRIBUTE(const std::vector<int64_t> &, std::vector<int64_t> &)
CAIRN_ATTRIBUTE(const std::vector<int32_t> &, std::vector<int32_t> &)
CAIRN_ATTRIBUTE(const std::vector<uint32_t> &, std::vector<uint32_t> &)
CAIRN_ATTRIBUTE(const std::vector<float32_t> &, std::vector<float32_t> &)
CAIRN_ATTRIBUTE(const std::vector<bool> &, std::vector<bool> &)
CAIRN_ATTRIBUTE(const std::vector<ge::DataType> &, std::vector<ge::DataType> &)
CAIRN_ATTRIBUTE(const std::vector<AscendString> &, std::vector<AscendString> &)
CAIRN_ATTRIBUTE(const std::vector<Tensor> &, std::vector<Tensor> &)
CAIRN_ATTRIBUTE(const std::vector<std::vector<int64_t>> &, std::vector<std::vector<int64_t>> &)
CAIRN_ATTRIBUTE(const AttrValue &, AttrValue &)

Operator &Operator::SetAttr(const char_t *name, AttrValue &&attr_value)
{
    return SetAttr(name, static_cast<const AttrValue &>(attr_value));
}

Operator &Operator::SetAttr(const char_t *name, const char_t *attr_value)
{
    set(*this, name, cairn::Attribute(attr_value));
    return *this;
}

Operator &Operator::SetAttr(const char_t *name, std::initializer_list<int64_t> &&attr_value)
{
    return SetAttr(name, std::vector<int64_t>(attr_value));
}

// Stores names and types, which the engine shows in turn.
static graphStatus store_pairs(const Operator &op, void (*show)(const CairnOperator *, void *, CairnTextCallback),
                         std::map<AscendString, AscendString> &types)
{
    CairnOperator *const handle = OperatorBody::Of(op);
    if (handle == nullptr) {
        return cairn::fail("the operator is empty: it has no attributes");
    }
    std::vector<AscendString> texts;
    show(handle, &texts, cairn::append_text);
    types.clear();
    for (size_t at = 0; at + 1 < texts.size(); at += 2) {
        types[texts[at]] = texts[at + 1];
    }
    return GRAPH_SUCCESS;
}

graphStatus Operator::GetAllAttrNamesAndTypes(std::map<AscendString, AscendString> &attr_name_types) const
{
    return store_pairs(*this, CairnOperatorAttrs, attr_name_types);
}

graphStatus Operator::GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString> &attr_name_types) const
{
    return store_pairs(*this, CairnOperatorIrAttrs, attr_name_types);
}

}  // namespace ge
