// gert::EagerOpExecutionContext: what a custom operator reads of its node, and the memory that it takes.

#include "execution_context.h"

#include <algorithm>

#include "attribute.h"

namespace gert {

// A callback that stores what the engine shows.
static void store_value(void *context, const CairnValue *from)
{
    RuntimeAttrsBody::Value &value = *static_cast<RuntimeAttrsBody::Value *>(context);
    value.kind = from->kind;
    value.is_list = from->is_list;
    if (from->is_list) {
        const cairn::Attribute list(*from);
        std::vector<bool> flags;
        switch (from->count == 0 ? static_cast<uint32_t>(CAIRN_KIND_NONE) : from->kind) {
            case CAIRN_KIND_BOOL:
                (void)list.Get(flags);
                value.flags.reset(new bool[flags.size()]);
                std::copy(flags.begin(), flags.end(), value.flags.get());
                value.flag_list = TypedContinuousVector<bool>(value.flags.get(), flags.size());
                value.pointer = &value.flag_list;
                break;
            case CAIRN_KIND_FLOAT:
                (void)list.Get(value.reals);
                value.real_list = TypedContinuousVector<float>(value.reals.data(), value.reals.size());
                value.pointer = &value.real_list;
                break;
            case CAIRN_KIND_INT:
            case CAIRN_KIND_DATA_TYPE:
                value.integers.assign(from->ints, from->ints + from->count);
                value.integer_list = TypedContinuousVector<int64_t>(value.integers.data(), value.integers.size());
                value.pointer = &value.integer_list;
                break;
            case CAIRN_KIND_NONE:
                value.kind = CAIRN_KIND_NONE;
                value.pointer = &value.integer_list;
                break;
            default:
                break;
        }
        return;
    }
    switch (from->kind) {
        case CAIRN_KIND_BOOL:
            value.flag = from->ints[0] != 0;
            value.pointer = &value.flag;
            break;
        case CAIRN_KIND_INT:
        case CAIRN_KIND_DATA_TYPE:
            value.integer = from->ints[0];
            value.pointer = &value.integer;
            break;
        case CAIRN_KIND_FLOAT:
            value.real = from->floats[0];
            value.pointer = &value.real;
            break;
        case CAIRN_KIND_STRING:
            value.text.assign(from->texts[0].data == nullptr ? "" : from->texts[0].data, from->texts[0].size);
            value.pointer = value.text.c_str();
            break;
        default:
            break;
    }
}

RuntimeAttrsBody::RuntimeAttrsBody(const CairnCall *call, size_t count) : values(count)
{
    for (size_t at = 0; at < count; ++at) {
        (void)CairnCallAttr(call, at, &values[at], store_value);
    }
}

static const RuntimeAttrsBody::Value *find(const RuntimeAttrsBody &body, size_t index)
{
    return index < body.values.size() ? &body.values[index] : nullptr;
}

// The member, if it is what the value points to; an empty list is one of every type.
template <typename T>
static const T *typed(const RuntimeAttrsBody &body, size_t index, T RuntimeAttrsBody::Value::*member, bool is_list = false)
{
    const RuntimeAttrsBody::Value *const value = find(body, index);
    if (value == nullptr) {
        return nullptr;
    }
    const bool is_empty = is_list && value->is_list && value->kind == CAIRN_KIND_NONE;
    return is_empty || value->pointer == &(value->*member) ? &(value->*member) : nullptr;
}

size_t RuntimeAttrs::GetAttrNum() const
{
    return body_->values.size();
}

const int64_t *RuntimeAttrs::GetInt(size_t index) const
{
    return typed(*body_, index, &RuntimeAttrsBody::Value::integer);
}

const float *RuntimeAttrs::GetFloat(size_t index) const
{
    return typed(*body_, index, &RuntimeAttrsBody::Value::real);
}

const bool *RuntimeAttrs::GetBool(size_t index) const
{
    return typed(*body_, index, &RuntimeAttrsBody::Value::flag);
}

const char *RuntimeAttrs::GetStr(size_t index) const
{
    const RuntimeAttrsBody::Value *const value = find(*body_, index);
    return value != nullptr && value->kind == CAIRN_KIND_STRING && !value->is_list ? value->text.c_str() : nullptr;
}

const TypedContinuousVector<int64_t> *RuntimeAttrs::GetListInt(size_t index) const
{
    return typed(*body_, index, &RuntimeAttrsBody::Value::integer_list, true);
}

const TypedContinuousVector<float> *RuntimeAttrs::GetListFloat(size_t index) const
{
    return typed(*body_, index, &RuntimeAttrsBody::Value::real_list, true);
}

const void *RuntimeAttrs::GetPointer(size_t index) const
{
    const RuntimeAttrsBody::Value *const value = find(*body_, index);
    return value == nullptr ? nullptr : value->pointer;
}

// Tensors of the engine as a custom operator gets them.
static std::vector<Tensor> tensors(const CairnRunTensor *all, size_t count)
{
    std::vector<Tensor> converted;
    converted.reserve(count);
    for (const CairnRunTensor *one = all; one != all + count; ++one) {
        Shape shape;
        for (size_t at = 0; at < one->rank; ++at) {
            shape.AppendDim(one->dims[at]);
        }
        StorageShape storage_shape;
        storage_shape.MutableOriginShape() = shape;
        storage_shape.MutableStorageShape() = shape;
        const ge::Format format = static_cast<ge::Format>(one->format);
        converted.emplace_back(storage_shape, StorageFormat(format, format, ExpandDimsType()), static_cast<ge::DataType>(one->dtype));
        const TensorPlacement placement = one->data == nullptr ? kTensorPlacementEnd : kOnDeviceHbm;
        converted.back().SetData(TensorData(one->data, nullptr, one->bytes, placement));
    }
    return converted;
}

static std::vector<CompileTimeTensorDesc> descs(const std::vector<Tensor> &tensors)
{
    std::vector<CompileTimeTensorDesc> converted;
    for (const Tensor &tensor : tensors) {
        converted.emplace_back(tensor.GetDataType(), tensor.GetFormat());
    }
    return converted;
}

// Where the tensors of each declared input or output begin, and how many there are.
static std::vector<AnchorInstanceInfo> anchor_infos(const size_t *counts, size_t count)
{
    std::vector<AnchorInstanceInfo> instances;
    size_t start = 0;
    for (size_t at = 0; at < count; start += counts[at++]) {
        instances.emplace_back(start, counts[at]);
    }
    return instances;
}

ExecutionContextBody::ExecutionContextBody(CairnCall *engine_call, const CairnCallInfo &info)
    : call(engine_call), node(info.node.data, info.node.size), type(info.type.data, info.type.size), stream(info.stream),
      inputs(tensors(info.inputs, info.input_count)), outputs(tensors(info.outputs, info.output_count)),
      input_descs(descs(inputs)), output_descs(descs(outputs)),
      declared_inputs(anchor_infos(info.input_counts, info.declared_inputs)),
      declared_outputs(anchor_infos(info.output_counts, info.declared_outputs)), values_(engine_call, info.attr_count),
      attributes_(values_), context_(*this)
{
}

template <typename T>
static const T *element_or_null(const std::vector<T> &all, size_t index)
{
    return index < all.size() ? &all[index] : nullptr;
}

const char *ExtendedKernelContext::GetNodeName() const
{
    return body_->node.c_str();
}

const char *ExtendedKernelContext::GetNodeType() const
{
    return body_->type.c_str();
}

size_t ExtendedKernelContext::GetComputeNodeInputNum() const
{
    return body_->inputs.size();
}

size_t ExtendedKernelContext::GetComputeNodeOutputNum() const
{
    return body_->outputs.size();
}

const CompileTimeTensorDesc *ExtendedKernelContext::GetInputDesc(size_t index) const
{
    return element_or_null(body_->input_descs, index);
}

const CompileTimeTensorDesc *ExtendedKernelContext::GetOutputDesc(size_t index) const
{
    return element_or_null(body_->output_descs, index);
}

const AnchorInstanceInfo *ExtendedKernelContext::GetIrInputInstanceInfo(size_t ir_index) const
{
    return element_or_null(body_->declared_inputs, ir_index);
}

const AnchorInstanceInfo *ExtendedKernelContext::GetIrOutputInstanceInfo(size_t ir_index) const
{
    return element_or_null(body_->declared_outputs, ir_index);
}

const RuntimeAttrs *ExtendedKernelContext::GetAttrs() const
{
    return &body_->Attributes();
}

rtStream EagerOpExecutionContext::GetStream() const
{
    return body_->stream;
}

const Tensor *EagerOpExecutionContext::GetInputTensor(size_t index) const
{
    return element_or_null(body_->inputs, index);
}

const Tensor *EagerOpExecutionContext::GetDynamicInputTensor(size_t ir_index, size_t relative_index) const
{
    const AnchorInstanceInfo *const declared = GetIrInputInstanceInfo(ir_index);
    if (declared == nullptr || relative_index >= declared->GetInstanceNum()) {
        return nullptr;
    }
    return GetInputTensor(declared->GetInstanceStart() + relative_index);
}

const Tensor *EagerOpExecutionContext::GetOutputTensor(size_t index) const
{
    return element_or_null(body_->outputs, index);
}

Tensor *EagerOpExecutionContext::MallocOutputTensor(size_t index, const StorageShape &shape, const StorageFormat &format,
                                                    ge::DataType dtype)
{
    const Shape &storage = shape.GetStorageShape();
    std::vector<int64_t> dims;
    for (size_t dim = 0; dim < storage.GetDimNum() && dim < Shape::kMaxDimNum; ++dim) {
        dims.push_back(storage.GetDim(dim));
    }
    CairnRunTensor requested = {};
    requested.dtype = dtype;
    requested.format = format.GetStorageFormat();
    requested.is_described = true;
    requested.dims = dims.data();
    requested.rank = dims.size();
    void *address = nullptr;
    if (CairnCallMakeOutput(body_->call, index, &requested, &address) != ge::GRAPH_SUCCESS || index >= body_->outputs.size()) {
        return nullptr;
    }
    Tensor &output = body_->outputs[index];
    output.GetShape() = shape;
    output.MutableFormat() = format;
    output.SetDataType(dtype);
    const int64_t bytes = ge::GetSizeInBytes(output.GetShapeSize(), dtype);
    output.SetData(TensorData(address, nullptr, bytes < 0 ? 0 : static_cast<size_t>(bytes), kOnDeviceHbm));
    return &output;
}

Tensor *EagerOpExecutionContext::MakeOutputRefInput(size_t output_index, size_t input_index) const
{
    if (CairnCallReferOutput(body_->call, output_index, input_index) != ge::GRAPH_SUCCESS) {
        return nullptr;
    }
    const Tensor &input = body_->inputs[input_index];
    Tensor &output = body_->outputs[output_index];
    output.GetShape() = input.GetShape();
    output.MutableFormat() = input.GetFormat();
    output.SetDataType(input.GetDataType());
    (void)output.MutableTensorData().ShareFrom(input.GetTensorData());
    return &output;
}

void *EagerOpExecutionContext::MallocWorkSpace(size_t size)
{
    void *address = nullptr;
    (void)CairnCallWorkspace(body_->call, size, &address);
    return address;
}

}  // namespace gert
