// Tensors into a run and out of it.

#include "run.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "description.h"
#include "tensor.h"

namespace cairn {

void RunTensors::Add(const CairnRunTensor &tensor, std::vector<int64_t> dims)
{
    tensors_.push_back(tensor);
    dims_.push_back(std::move(dims));
    tensors_.back().dims = dims_.back().data();
    tensors_.back().rank = dims_.back().size();
}

RunTensors::RunTensors(const std::vector<ge::Tensor> &tensors, bool is_described)
{
    for (const ge::Tensor &tensor : tensors) {
        const ge::TensorDesc desc = tensor.GetTensorDesc();
        CairnRunTensor run = {};
        run.data = const_cast<uint8_t *>(tensor.GetData());
        run.bytes = tensor.GetSize();
        run.dtype = desc.GetDataType();
        run.format = desc.GetFormat();
        run.is_on_host = desc.GetPlacement() == ge::kPlacementHost;
        run.is_described = is_described;
        Add(run, desc.GetShape().GetDims());
    }
}

static std::vector<int64_t> dims_of(const gert::Shape &shape)
{
    std::vector<int64_t> dims;
    for (size_t at = 0; at < shape.GetDimNum() && at < gert::Shape::kMaxDimNum; ++at) {
        dims.push_back(shape.GetDim(at));
    }
    return dims;
}

// Some programs fill only the origin shape.
static std::vector<int64_t> dims_of(const gert::Tensor &tensor)
{
    const gert::Shape &storage = tensor.GetStorageShape();
    return dims_of(storage.IsScalar() ? tensor.GetOriginShape() : storage);
}

RunTensors::RunTensors(const std::vector<gert::Tensor> &tensors, bool is_described)
{
    for (const gert::Tensor &tensor : tensors) {
        CairnRunTensor run = {};
        run.data = const_cast<void *>(tensor.GetAddr());
        run.bytes = tensor.GetSize();
        run.dtype = tensor.GetDataType();
        run.format = tensor.GetStorageFormat();
        run.is_on_host = gert::TensorPlacementUtils::IsOnHost(tensor.GetPlacement());
        run.is_described = is_described;
        Add(run, is_described ? dims_of(tensor) : std::vector<int64_t>());
    }
}

// Writes every output of a result, and releases the result.
template <typename T>
static void write_outputs(CairnOutputs *result, std::vector<T> &outputs, void (*write)(const CairnOutput &, T &))
{
    outputs.resize(CairnOutputsCount(result));
    for (size_t at = 0; at < outputs.size(); ++at) {
        CairnOutput output = {};
        CairnOutputsGet(result, at, &output);
        write(output, outputs[at]);
    }
    CairnOutputsRelease(result);
}

static void write_graph_tensor(const CairnOutput &output, ge::Tensor &tensor)
{
    ge::TensorDesc desc = tensor.GetTensorDesc();
    desc.Update(shape_of(output.dims, output.rank), static_cast<ge::Format>(output.format),
                static_cast<ge::DataType>(output.dtype));
    desc.SetOriginShape(shape_of(output.dims, output.rank));
    desc.SetOriginFormat(static_cast<ge::Format>(output.format));
    if (output.block != nullptr) {
        CairnBlock *const block = output.block;
        desc.SetPlacement(output.is_on_host ? ge::kPlacementHost : ge::kPlacementDevice);
        if (output.data == nullptr) {
            (void)tensor.SetData(nullptr, 0, nullptr);
            CairnBlockFree(block);
        } else {
            (void)tensor.SetData(static_cast<uint8_t *>(output.data), output.bytes,
                                 [block](uint8_t *) { CairnBlockFree(block); });
        }
    }
    (void)tensor.SetTensorDesc(desc);
}

// A block that several gert::TensorData share.
struct SharedBlock {
    explicit SharedBlock(CairnBlock *owned) : block(owned) {}
    CairnBlock *const block;
    std::atomic<size_t> shares{1};
};

static ge::graphStatus manage(void *addr, gert::TensorOperateType operation, void **out)
{
    SharedBlock *const shared = static_cast<SharedBlock *>(addr);
    if (shared == nullptr) {
        return ge::GRAPH_FAILED;
    }
    switch (operation) {
        case gert::kGetTensorAddress:
            if (out == nullptr) {
                return ge::GRAPH_FAILED;
            }
            *out = CairnBlockAddress(shared->block);
            return ge::GRAPH_SUCCESS;
        case gert::kPlusShareCount:
            shared->shares.fetch_add(1);
            return ge::GRAPH_SUCCESS;
        case gert::kFreeTensor:
            if (shared->shares.fetch_sub(1) == 1) {
                CairnBlockFree(shared->block);
                delete shared;
            }
            return ge::GRAPH_SUCCESS;
        default:
            return ge::GRAPH_FAILED;
    }
}

static void write_run_tensor(const CairnOutput &output, gert::Tensor &tensor)
{
    gert::Shape shape;
    for (size_t at = 0; at < output.rank; ++at) {
        shape.AppendDim(output.dims[at]);
    }
    tensor.MutableOriginShape() = shape;
    tensor.MutableStorageShape() = shape;
    tensor.SetDataType(static_cast<ge::DataType>(output.dtype));
    tensor.SetOriginFormat(static_cast<ge::Format>(output.format));
    tensor.SetStorageFormat(static_cast<ge::Format>(output.format));
    if (output.block != nullptr) {
        const gert::TensorPlacement placement = output.is_on_host ? gert::kOnHost : gert::kOnDeviceHbm;
        tensor.SetData(gert::TensorData(new SharedBlock(output.block), manage, output.bytes, placement));
    }
}

// Outputs that are copies of one tensor become tensors of their own: each has its own result, over the memory that
// the caller gave for it.
static void separate_copies(std::vector<ge::Tensor> &outputs)
{
    std::vector<const void *> bodies;
    for (const ge::Tensor &output : outputs) {
        bodies.push_back(body_of(output));
    }
    std::vector<const void *> sorted = bodies;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) {
        return;
    }
    for (size_t at = 1; at < outputs.size(); ++at) {
        if (std::find(bodies.begin(), bodies.begin() + at, bodies[at]) == bodies.begin() + at) {
            continue;
        }
        ge::Tensor shared = outputs[at];
        ge::Tensor separate(shared.GetTensorDesc());
        if (shared.GetData() != nullptr) {
            (void)separate.SetData(shared.GetData(), shared.GetSize(), [shared](uint8_t *) {});
        }
        outputs[at] = separate;
    }
}

void take_outputs(CairnOutputs *result, std::vector<ge::Tensor> &outputs)
{
    separate_copies(outputs);
    write_outputs(result, outputs, write_graph_tensor);
}

void take_outputs(CairnOutputs *result, std::vector<gert::Tensor> &outputs)
{
    write_outputs(result, outputs, write_run_tensor);
}

}  // namespace cairn
