// ge::Operator: attributes of its inputs and outputs.

#include <string>

#include "attribute.h"
#include "operator.h"
#include "text.h"

namespace ge {

using cairn::fail;
using cairn::text;

// An input or output as a program names it.
struct PortReference {
    const Operator &op;
    bool is_output;
    int64_t index;

    PortReference(const Operator &of, bool output, int32_t number) : op(of), is_output(output), index(number) {}
    PortReference(const Operator &of, bool output, const char_t *name)
        : op(of), is_output(output),
          index(of.IsEmpty() || name == nullptr ? -1 : CairnOperatorPortIndex(OperatorBody::Of(of), text(name), output))
    {
    }
    bool IsValid(const char_t *attribute) const { return !op.IsEmpty() && index >= 0 && attribute != nullptr; }
};

static void set(const PortReference &port, const char_t *name, cairn::Attribute value)
{
    if (!port.IsValid(name)) {
        fail(std::string(port.is_output ? "Operator::SetOutputAttr" : "Operator::SetInputAttr") +
             (port.op.IsEmpty() ? ": the operator is empty"
              : name == nullptr ? ": the name of the attribute is null"
                                : ": the operator has no such input or output"));
        return;
    }
    (void)CairnOperatorSetPortAttr(OperatorBody::Of(port.op), static_cast<size_t>(port.index), port.is_output,
                                    text(name), &value.borrowed());
}

template <typename T>
static graphStatus get(const PortReference &port, const char_t *name, T &value)
{
    cairn::Attribute found;
    const bool exists = port.IsValid(name) &&
                       CairnOperatorPortAttr(OperatorBody::Of(port.op), static_cast<size_t>(port.index),
                                              port.is_output, text(name), &found, cairn::store_attribute);
    return exists && found.Get(value) ? GRAPH_SUCCESS : GRAPH_FAILED;
}

#define CAIRN_SET(WHERE, SET)                                                                     \
    Operator &Operator::SetInputAttr(WHERE, const char_t *name, SET attr_value)                   \
    {                                                                                             \
        set(PortReference(*this, false, port), name, cairn::Attribute(attr_value));                       \
        return *this;                                                                             \
    }                                                                                             \
    Operator &Operator::SetOutputAttr(WHERE, const char_t *name, SET attr_value)                  \
    {                                                                                             \
        set(PortReference(*this, true, port), name, cairn::Attribute(attr_value));                        \
        return *this;                                                                             \
    }

#define CAIRN_GET(WHERE, GET)                                                                     \
    graphStatus Operator::GetInputAttr(WHERE, const char_t *name, GET attr_value) const           \
    {                                                                                             \
        return get(PortReference(*this, false, port), name, attr_value);                                  \
    }                                                                                             \
    graphStatus Operator::GetOutputAttr(WHERE, const char_t *name, GET attr_value) const          \
    {                                                                                             \
        return get(PortReference(*this, true, port), name, attr_value);                                   \
    }

#define CAIRN_TENSOR_ATTRIBUTE(SET, GET)  \
    CAIRN_SET(const int32_t port, SET)   \
    CAIRN_SET(const char_t *port, SET)   \
    CAIRN_GET(const int32_t port, GET)   \
    CAIRN_GET(const char_t *port, GET)

CAIRN_SET(const int32_t port, const char_t *)
CAIRN_SET(const char_t *port, const char_t *)
CAIRN_TENSOR_ATTRIBUTE(const AscendString &, AscendString &)
CAIRN_TENSOR_ATTRIBUTE(int64_t, int64_t &)
CAIRN_TENSOR_ATTRIBUTE(int32_t, int32_t &)
CAIRN_TENSOR_ATTRIBUTE(uint32_t, uint32_t &)
CAIRN_TENSOR_ATTRIBUTE(bool, bool &)
CAIRN_TENSOR_ATTRIBUTE(float32_t, float32_t &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<AscendString> &, std::vector<AscendString> &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<int64_t> &, std::vector<int64_t> &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<int32_t> &, std::vector<int32_t> &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<uint32_t> &, std::vector<uint32_t> &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<bool> &, std::vector<bool> &)
CAIRN_TENSOR_ATTRIBUTE(const std::vector<float32_t> &, std::vector<float32_t> &)

}  // namespace ge
