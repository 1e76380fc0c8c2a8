// ge::Operator: what op classes declare.

#include "attribute.h"
#include "operator.h"
#include "text.h"

namespace ge {

using cairn::text;

static void add_input(const Operator &op, const char_t *name, CairnInput kind)
{
    if (!op.IsEmpty()) {
        CairnOperatorAddInput(OperatorBody::Of(op), text(name), kind);
    }
}

void Operator::InputRegister(const char_t *name)
{
    add_input(*this, name, CAIRN_INPUT_REQUIRED);
}

void Operator::InputRegister(const char_t *name, const char_t *)
{
    add_input(*this, name, CAIRN_INPUT_REQUIRED);
}

void Operator::OptionalInputRegister(const char_t *name)
{
    add_input(*this, name, CAIRN_INPUT_OPTIONAL);
}

void Operator::OptionalInputRegister(const char_t *name, const char_t *)
{
    add_input(*this, name, CAIRN_INPUT_OPTIONAL);
}

void Operator::OutputRegister(const char_t *name)
{
    if (!IsEmpty()) {
        CairnOperatorAddOutput(operator_impl_->handle, text(name), false);
    }
}

void Operator::OutputRegister(const char_t *name, const char_t *)
{
    OutputRegister(name);
}

void Operator::DynamicInputRegister(const char_t *name, const uint32_t num, bool)
{
    if (IsEmpty()) {
        return;
    }
    if (CairnOperatorDynamicCount(operator_impl_->handle, text(name), false) < 0) {
        CairnOperatorAddInput(operator_impl_->handle, text(name), CAIRN_INPUT_DYNAMIC);
    }
    if (num > 0) {
        (void)CairnOperatorGrowInput(operator_impl_->handle, text(name), num);
    }
}

void Operator::DynamicInputRegister(const char_t *name, const uint32_t num, const char_t *, bool is_push_back)
{
    DynamicInputRegister(name, num, is_push_back);
}

void Operator::DynamicInputRegisterByIndex(const char_t *name, const uint32_t num, size_t)
{
    DynamicInputRegister(name, num);
}

void Operator::DynamicOutputRegister(const char_t *name, const uint32_t num, bool)
{
    if (IsEmpty()) {
        return;
    }
    if (CairnOperatorDynamicCount(operator_impl_->handle, text(name), true) < 0) {
        CairnOperatorAddOutput(operator_impl_->handle, text(name), true);
    }
    if (num > 0) {
        (void)CairnOperatorGrowOutput(operator_impl_->handle, text(name), num);
    }
}

void Operator::DynamicOutputRegister(const char_t *name, const uint32_t num, const char_t *, bool is_push_back)
{
    DynamicOutputRegister(name, num, is_push_back);
}

static void add_attribute(const Operator &op, const char_t *name, cairn::Attribute value)
{
    if (!op.IsEmpty()) {
        CairnOperatorAddAttr(OperatorBody::Of(op), text(name), text(value.TypeName()), &value.borrowed());
    }
}

#define CAIRN_ATTRIBUTE(TYPE)                                         \
    void Operator::AttrRegister(const char_t *name, TYPE attr_value)  \
    {                                                                 \
        add_attribute(*this, name, cairn::Attribute(attr_value));     \
    }

CAIRN_ATTRIBUTE(const AttrValue &)
CAIRN_ATTRIBUTE(const char_t *)
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

void Operator::RequiredAttrRegister(const char_t *name)
{
    if (!IsEmpty()) {
        CairnOperatorAddAttr(operator_impl_->handle, text(name), text(""), nullptr);
    }
}

void Operator::RequiredAttrWithTypeRegister(const char_t *name, const char_t *type)
{
    if (!IsEmpty()) {
        const std::string type_name = cairn::type_name_of_class(type == nullptr ? "" : type);
        CairnOperatorAddAttr(operator_impl_->handle, text(name), text(type_name), nullptr);
    }
}

void Operator::DataTypeRegister(const char_t *, const TensorType &) {}

void Operator::DataTypeRegister(const char_t *, const ListTensorType &) {}

void Operator::DataTypeRegister(const char_t *, const Promote &) {}

void Operator::InferFuncRegister(const std::function<graphStatus(Operator &)> &func)
{
    if (!IsEmpty()) {
        operator_impl_->infer = func;
    }
}

void Operator::VerifierFuncRegister(const std::function<graphStatus(Operator &)> &func)
{
    if (!IsEmpty()) {
        operator_impl_->verify = func;
    }
}

void Operator::InferFormatFuncRegister(const std::function<graphStatus(Operator &)> &) {}

}  // namespace ge
