// ge::Operator: names, links and descriptions.

#include "operator.h"

#include <atomic>
#include <string>

#include "attribute.h"
#include "description.h"
#include "text.h"

namespace ge {

using cairn::fail;
using cairn::text;

Operator OperatorBody::Adopt(CairnOperator *owned)
{
    Operator op;
    if (owned != nullptr) {
        op.operator_impl_ = std::make_shared<OperatorBody>(owned);
    }
    return op;
}

static std::shared_ptr<OperatorBody> make_impl(CairnText name, CairnText type)
{
    return std::make_shared<OperatorBody>(CairnOperatorNew(name, type));
}

static AscendString default_name(const char_t *type)
{
    static std::atomic<uint32_t> next{0};
    return AscendString((std::string(type == nullptr ? "" : type) + "_" + std::to_string(next++)).c_str());
}

Operator::Operator(const char_t *type) : operator_impl_(make_impl(text(default_name(type)), text(type))) {}

Operator::Operator(const char_t *name, const char_t *type) : operator_impl_(make_impl(text(name), text(type))) {}

Operator::Operator(const AscendString &name, const AscendString &type) : operator_impl_(make_impl(text(name), text(type))) {}

bool Operator::IsEmpty() const
{
    return operator_impl_ == nullptr;
}

static graphStatus fail_empty(const char *function)
{
    return fail(std::string("Operator::") + function + ": the operator is empty");
}

graphStatus Operator::GetName(AscendString &name) const
{
    if (IsEmpty()) {
        return fail_empty("GetName");
    }
    CairnOperatorName(operator_impl_->handle, &name, cairn::store_text);
    return GRAPH_SUCCESS;
}

graphStatus Operator::GetOpType(AscendString &type) const
{
    if (IsEmpty()) {
        return fail_empty("GetOpType");
    }
    CairnOperatorType(operator_impl_->handle, &type, cairn::store_text);
    return GRAPH_SUCCESS;
}

static std::string name_and_type(const Operator &op)
{
    AscendString name("(empty)"), type("");
    if (!op.IsEmpty()) {
        (void)op.GetName(name);
        (void)op.GetOpType(type);
    }
    return std::string(name.GetString()) + " (" + type.GetString() + ")";
}

// The index of an input or output by name; negative, with an error message set, if there is none.
static int64_t port_index(const Operator &op, const char *name, bool is_output)
{
    CairnOperator *const handle = OperatorBody::Of(op);
    const int64_t found = handle == nullptr ? -1 : CairnOperatorPortIndex(handle, text(name), is_output);
    if (found < 0) {
        fail("operator " + name_and_type(op) + " has no " + (is_output ? "output '" : "input '") +
             (name == nullptr ? "" : name) + "'");
    }
    return found;
}

static std::string dynamic_port_name(const char *name, uint32_t index)
{
    return (name == nullptr ? std::string() : std::string(name)) + std::to_string(index);
}

static void link(const Operator &to, int64_t input, const Operator &from, int64_t output)
{
    CairnOperator *const source = OperatorBody::Of(from);
    if (input < 0 || output < 0) {
        return;
    }
    if (source == nullptr) {
        fail("operator " + name_and_type(to) + ": the source operator is empty");
        return;
    }
    (void)CairnOperatorLink(OperatorBody::Of(to), static_cast<size_t>(input), source, static_cast<size_t>(output));
}

Operator &Operator::SetInput(const char_t *dst_name, const Operator &src_oprt)
{
    return SetInput(dst_name, src_oprt, 0U);
}

Operator &Operator::SetInput(const char_t *dst_name, const Operator &src_oprt, const char_t *name)
{
    link(*this, port_index(*this, dst_name, false), src_oprt, port_index(src_oprt, name, true));
    return *this;
}

Operator &Operator::SetInput(const char_t *dst_name, const Operator &src_oprt, uint32_t index)
{
    link(*this, port_index(*this, dst_name, false), src_oprt, index);
    return *this;
}

Operator &Operator::SetInput(uint32_t dst_index, const Operator &src_oprt, uint32_t src_index)
{
    if (IsEmpty()) {
        fail_empty("SetInput");
    } else {
        link(*this, dst_index, src_oprt, src_index);
    }
    return *this;
}

Operator &Operator::SetInput(const char_t *dst_name, uint32_t dst_index, const Operator &src_oprt, const char_t *name)
{
    return SetInput(dynamic_port_name(dst_name, dst_index).c_str(), src_oprt, name);
}

Operator &Operator::SetInput(const char_t *dst_name, uint32_t dst_index, const Operator &src_oprt)
{
    return SetInput(dynamic_port_name(dst_name, dst_index).c_str(), src_oprt, 0U);
}

Operator &Operator::AddControlInput(const Operator &src_oprt)
{
    CairnOperator *const before = OperatorBody::Of(src_oprt);
    if (IsEmpty() || before == nullptr) {
        fail_empty("AddControlInput");
    } else {
        (void)CairnOperatorFollow(operator_impl_->handle, before);
    }
    return *this;
}

graphStatus Operator::GetInputConstData(const char_t *dst_name, Tensor &data) const
{
    const int64_t input = port_index(*this, dst_name, false);
    if (input < 0) {
        return GRAPH_FAILED;
    }
    size_t output = 0;
    const Operator source =
        OperatorBody::Adopt(CairnOperatorSource(operator_impl_->handle, static_cast<size_t>(input), &output));
    AscendString type;
    if (!source.IsEmpty()) {
        (void)source.GetOpType(type);
    }
    if (type != "Const" && type != "Constant") {
        return fail("operator " + name_and_type(*this) + ": no Const feeds the input '" + dst_name + "'");
    }
    return source.GetAttr("value", data);
}

static TensorDesc desc_at(const Operator &op, int64_t at, bool is_output)
{
    TensorDesc desc;
    if (at >= 0 && !op.IsEmpty()) {
        (void)CairnOperatorDesc(OperatorBody::Of(op), static_cast<size_t>(at), is_output, &desc, cairn::store_desc);
    }
    return desc;
}

static graphStatus update_at(const Operator &op, int64_t at, bool is_output, const TensorDesc &desc)
{
    if (at < 0 || op.IsEmpty()) {
        return at < 0 ? GRAPH_FAILED : fail_empty(is_output ? "UpdateOutputDesc" : "UpdateInputDesc");
    }
    cairn::Description description(desc);
    return CairnOperatorSetDesc(OperatorBody::Of(op), static_cast<size_t>(at), is_output, &description.borrowed());
}

TensorDesc Operator::GetInputDescByName(const char_t *name) const
{
    return desc_at(*this, port_index(*this, name, false), false);
}

TensorDesc Operator::GetInputDesc(uint32_t index) const
{
    return desc_at(*this, index, false);
}

TensorDesc Operator::GetOutputDescByName(const char_t *name) const
{
    return desc_at(*this, port_index(*this, name, true), true);
}

TensorDesc Operator::GetOutputDesc(uint32_t index) const
{
    return desc_at(*this, index, true);
}

TensorDesc Operator::GetDynamicInputDesc(const char_t *name, uint32_t index) const
{
    return GetInputDescByName(dynamic_port_name(name, index).c_str());
}

TensorDesc Operator::GetDynamicOutputDesc(const char_t *name, uint32_t index) const
{
    return GetOutputDescByName(dynamic_port_name(name, index).c_str());
}

graphStatus Operator::TryGetInputDesc(const char_t *name, TensorDesc &tensor_desc) const
{
    const int64_t at = port_index(*this, name, false);
    const bool found = at >= 0 && CairnOperatorDesc(operator_impl_->handle, static_cast<size_t>(at), false,
                                                    &tensor_desc, cairn::store_desc);
    return found ? GRAPH_SUCCESS : GRAPH_FAILED;
}

graphStatus Operator::UpdateInputDesc(const char_t *name, const TensorDesc &tensor_desc)
{
    return update_at(*this, port_index(*this, name, false), false, tensor_desc);
}

graphStatus Operator::UpdateInputDesc(const uint32_t index, const TensorDesc &tensor_desc)
{
    return update_at(*this, index, false, tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const char_t *name, const TensorDesc &tensor_desc)
{
    return update_at(*this, port_index(*this, name, true), true, tensor_desc);
}

graphStatus Operator::UpdateOutputDesc(const uint32_t index, const TensorDesc &tensor_desc)
{
    return update_at(*this, index, true, tensor_desc);
}

graphStatus Operator::UpdateDynamicInputDesc(const char_t *name, uint32_t index, const TensorDesc &tensor_desc)
{
    return UpdateInputDesc(dynamic_port_name(name, index).c_str(), tensor_desc);
}

graphStatus Operator::UpdateDynamicOutputDesc(const char_t *name, uint32_t index, const TensorDesc &tensor_desc)
{
    return UpdateOutputDesc(dynamic_port_name(name, index).c_str(), tensor_desc);
}

static int32_t dynamic_port_count(const Operator &op, const char_t *name, bool is_output)
{
    const int64_t count = op.IsEmpty() ? 0 : CairnOperatorDynamicCount(OperatorBody::Of(op), text(name), is_output);
    return count < 0 ? 0 : static_cast<int32_t>(count);
}

int32_t Operator::GetDynamicInputNum(const char_t *name) const
{
    return dynamic_port_count(*this, name, false);
}

int32_t Operator::GetDynamicOutputNum(const char_t *name) const
{
    return dynamic_port_count(*this, name, true);
}

size_t Operator::GetInputsSize() const
{
    return IsEmpty() ? 0 : CairnOperatorInputs(operator_impl_->handle);
}

size_t Operator::GetOutputsSize() const
{
    return IsEmpty() ? 0 : CairnOperatorOutputs(operator_impl_->handle);
}

graphStatus Operator::InferShapeAndType()
{
    if (IsEmpty()) {
        return fail_empty("InferShapeAndType");
    }
    AscendString type;
    (void)GetOpType(type);
    const std::function<graphStatus(Operator &)> user_function =
        operator_impl_->infer ? operator_impl_->infer : registered_inference(type);
    return user_function ? user_function(*this) : CairnOperatorInfer(operator_impl_->handle);
}

void Operator::SetInferenceContext(const InferenceContextPtr &inference_context)
{
    if (!IsEmpty()) {
        operator_impl_->context = inference_context;
    }
}

InferenceContextPtr Operator::GetInferenceContext() const
{
    return IsEmpty() ? nullptr : operator_impl_->context;
}

graphStatus Operator::VerifyAllAttr(bool disable_common_verifier)
{
    if (IsEmpty()) {
        return fail_empty("VerifyAllAttr");
    }
    AscendString type;
    (void)GetOpType(type);
    const std::function<graphStatus(Operator &)> user_function =
        operator_impl_->verify ? operator_impl_->verify : registered_verification(type);
    if (user_function && user_function(*this) != GRAPH_SUCCESS) {
        return GRAPH_FAILED;
    }
    return disable_common_verifier ? GRAPH_SUCCESS : VerifyAll();
}

graphStatus Operator::VerifyAll()
{
    std::map<AscendString, AscendString> declared;
    if (GetAllIrAttrNamesAndTypes(declared) != GRAPH_SUCCESS) {
        return GRAPH_FAILED;
    }
    for (const auto &attribute : declared) {
        const auto ignore_value = [](void *, const CairnValue *) {};
        if (!CairnOperatorAttr(operator_impl_->handle, text(attribute.first), nullptr, ignore_value)) {
            return fail("operator " + name_and_type(*this) + ": the attribute '" + attribute.first.GetString() +
                        "' must be set");
        }
    }
    return GRAPH_SUCCESS;
}

void Operator::BreakConnect() const {}

}  // namespace ge
