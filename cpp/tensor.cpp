// ge::Tensor holds its description, and its data with what frees them.

#include "graph/tensor.h"

#include <cstring>
#include <new>
#include <utility>

#include "tensor.h"
#include "text.h"

namespace ge {

class TensorBody {
public:
    static const void *Of(const Tensor &tensor) { return tensor.impl.get(); }

    TensorDesc desc;
    uint8_t *data = nullptr;
    size_t size = 0;
    Tensor::DeleteFunc free;

    TensorBody() = default;
    TensorBody(const TensorBody &) = delete;
    TensorBody &operator=(const TensorBody &) = delete;
    ~TensorBody() { Drop(); }

    void Drop() { Replace(nullptr, 0, nullptr); }

    // The old data are freed last: their deleter may look at the tensor.
    void Replace(uint8_t *new_data, size_t bytes, Tensor::DeleteFunc new_free)
    {
        uint8_t *const old = std::exchange(data, new_data);
        const Tensor::DeleteFunc free_old = std::exchange(free, std::move(new_free));
        size = bytes;
        if (old != nullptr && free_old) {
            free_old(old);
        }
    }

    // Takes the bytes over as its data.
    void Store(std::vector<uint8_t> bytes)
    {
        if (bytes.empty()) {
            Drop();
            return;
        }
        auto storage = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
        uint8_t *const begin = storage->data();
        const size_t count = storage->size();
        Replace(begin, count, [storage](uint8_t *) {});
    }
};

// A head for each text, then the texts, each with a NUL.
static std::vector<uint8_t> texts_as_bytes(const AscendString *texts, size_t count)
{
    size_t total = count * sizeof(StringHead);
    for (size_t at = 0; at < count; ++at) {
        total += texts[at].GetLength() + 1;
    }
    std::vector<uint8_t> bytes(total, 0);
    size_t next = count * sizeof(StringHead);
    for (size_t at = 0; at < count; ++at) {
        const StringHead head = {static_cast<int64_t>(next), static_cast<int64_t>(texts[at].GetLength())};
        std::memcpy(bytes.data() + at * sizeof(StringHead), &head, sizeof head);
        std::memcpy(bytes.data() + next, texts[at].GetString(), texts[at].GetLength());
        next += texts[at].GetLength() + 1;
    }
    return bytes;
}

Tensor::Tensor() : impl(std::make_shared<TensorBody>()) {}

Tensor::Tensor(const TensorDesc &tensor_desc) : Tensor()
{
    impl->desc = tensor_desc;
}

Tensor::Tensor(const TensorDesc &tensor_desc, const std::vector<uint8_t> &data) : Tensor(tensor_desc)
{
    impl->Store(data);
}

Tensor::Tensor(const TensorDesc &tensor_desc, const uint8_t *data, size_t size) : Tensor(tensor_desc)
{
    (void)SetData(data, size);
}

Tensor::Tensor(TensorDesc &&tensor_desc, std::vector<uint8_t> &&data) : Tensor()
{
    impl->desc = std::move(tensor_desc);
    impl->Store(std::move(data));
}

TensorDesc Tensor::GetTensorDesc() const
{
    return impl->desc;
}

graphStatus Tensor::SetTensorDesc(const TensorDesc &tensor_desc)
{
    impl->desc = tensor_desc;
    return GRAPH_SUCCESS;
}

const uint8_t *Tensor::GetData() const
{
    return impl->data;
}

uint8_t *Tensor::GetData()
{
    return impl->data;
}

size_t Tensor::GetSize() const
{
    return impl->size;
}

std::unique_ptr<uint8_t[], Tensor::DeleteFunc> Tensor::ResetData()
{
    uint8_t *const data = std::exchange(impl->data, nullptr);
    Tensor::DeleteFunc free = std::exchange(impl->free, nullptr);
    impl->size = 0;
    return std::unique_ptr<uint8_t[], Tensor::DeleteFunc>(data, std::move(free));
}

graphStatus Tensor::SetData(std::vector<uint8_t> &&data)
{
    impl->Store(std::move(data));
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(const std::vector<uint8_t> &data)
{
    impl->Store(data);
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(const uint8_t *data, size_t size)
{
    if (data == nullptr && size != 0) {
        return cairn::fail("Tensor::SetData: " + std::to_string(size) + " bytes at null: pass the data, or size 0");
    }
    impl->Store(std::vector<uint8_t>(data, data + size));
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(const char_t *data)
{
    if (data == nullptr) {
        return cairn::fail("Tensor::SetData: the text is null");
    }
    const AscendString text(data);
    impl->Store(texts_as_bytes(&text, 1));
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(const std::vector<AscendString> &datas)
{
    if (datas.empty()) {
        return cairn::fail("Tensor::SetData: the list of texts is empty: pass at least one");
    }
    impl->Store(texts_as_bytes(datas.data(), datas.size()));
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(uint8_t *data, size_t size, const Tensor::DeleteFunc &deleter_func)
{
    if (data == nullptr && size != 0) {
        return cairn::fail("Tensor::SetData: " + std::to_string(size) + " bytes at null: pass the data, or size 0");
    }
    if (data != nullptr && !deleter_func) {
        return cairn::fail("Tensor::SetData: data to take over need a function that frees them; one that does "
                           "nothing leaves them with the caller");
    }
    impl->Replace(data, size, deleter_func);
    return GRAPH_SUCCESS;
}

graphStatus Tensor::ResetData(uint8_t *data, size_t size, const Tensor::DeleteFunc &deleter_func)
{
    return SetData(data, size, deleter_func);
}

graphStatus Tensor::IsValid()
{
    const DataType dtype = impl->desc.GetDataType();
    if (dtype == DT_STRING) {
        return GRAPH_SUCCESS;
    }
    const Shape shape = impl->desc.GetShape();
    const int64_t elements = shape.GetDims().empty() ? 1 : shape.GetShapeSize();
    const int64_t expected = GetSizeInBytes(elements, dtype);
    if (expected < 0 || static_cast<size_t>(expected) != impl->size) {
        return cairn::fail("Tensor::IsValid: the tensor has " + std::to_string(impl->size) +
                           " bytes; type and shape make " + std::to_string(expected));
    }
    return GRAPH_SUCCESS;
}

static graphStatus no_such_dim(const char *function, size_t idx, size_t count)
{
    return cairn::fail(std::string("Tensor::") + function + ": there is no dim " + std::to_string(idx) + " of " +
                       std::to_string(count) + ": set their number first");
}

graphStatus Tensor::SetOriginShapeDimNum(const size_t dim_num)
{
    std::vector<int64_t> dims = impl->desc.GetOriginShape().GetDims();
    dims.resize(dim_num, 0);
    impl->desc.SetOriginShape(Shape(dims));
    return GRAPH_SUCCESS;
}

size_t Tensor::GetOriginShapeDimNum() const
{
    return impl->desc.GetOriginShape().GetDims().size();
}

graphStatus Tensor::SetOriginShapeDim(const size_t idx, const int64_t dim_value)
{
    Shape shape = impl->desc.GetOriginShape();
    if (shape.SetDim(idx, dim_value) != GRAPH_SUCCESS) {
        return no_such_dim("SetOriginShapeDim", idx, shape.GetDims().size());
    }
    impl->desc.SetOriginShape(shape);
    return GRAPH_SUCCESS;
}

int64_t Tensor::GetOriginShapeDim(const size_t idx) const
{
    return impl->desc.GetOriginShape().GetDim(idx);
}

graphStatus Tensor::SetOriginFormat(const ge::Format &format)
{
    impl->desc.SetOriginFormat(format);
    return GRAPH_SUCCESS;
}

ge::Format Tensor::GetOriginFormat() const
{
    return impl->desc.GetOriginFormat();
}

graphStatus Tensor::SetShapeDimNum(const size_t dim_num)
{
    std::vector<int64_t> dims = impl->desc.GetShape().GetDims();
    dims.resize(dim_num, 0);
    impl->desc.SetShape(Shape(dims));
    return GRAPH_SUCCESS;
}

size_t Tensor::GetShapeDimNum() const
{
    return impl->desc.GetShape().GetDims().size();
}

graphStatus Tensor::SetShapeDim(const size_t idx, const int64_t dim_value)
{
    Shape shape = impl->desc.GetShape();
    if (shape.SetDim(idx, dim_value) != GRAPH_SUCCESS) {
        return no_such_dim("SetShapeDim", idx, shape.GetDims().size());
    }
    impl->desc.SetShape(shape);
    return GRAPH_SUCCESS;
}

int64_t Tensor::GetShapeDim(const size_t idx) const
{
    return impl->desc.GetShape().GetDim(idx);
}

graphStatus Tensor::SetFormat(const ge::Format &format)
{
    impl->desc.SetFormat(format);
    return GRAPH_SUCCESS;
}

ge::Format Tensor::GetFormat() const
{
    return impl->desc.GetFormat();
}

graphStatus Tensor::SetDataType(const ge::DataType &dtype)
{
    impl->desc.SetDataType(dtype);
    return GRAPH_SUCCESS;
}

ge::DataType Tensor::GetDataType() const
{
    return impl->desc.GetDataType();
}

graphStatus Tensor::SetPlacement(const ge::Placement &placement)
{
    impl->desc.SetPlacement(placement);
    return GRAPH_SUCCESS;
}

ge::Placement Tensor::GetPlacement() const
{
    return impl->desc.GetPlacement();
}

graphStatus Tensor::SetExpandDimsRule(const AscendString &expand_dims_rule)
{
    impl->desc.SetExpandDimsRule(expand_dims_rule);
    return GRAPH_SUCCESS;
}

graphStatus Tensor::GetExpandDimsRule(AscendString &expand_dims_rule) const
{
    return impl->desc.GetExpandDimsRule(expand_dims_rule);
}

Tensor Tensor::Clone() const
{
    Tensor copy(impl->desc);
    (void)copy.SetData(static_cast<const uint8_t *>(impl->data), impl->size);
    return copy;
}

}  // namespace ge

namespace cairn {

const void *body_of(const ge::Tensor &tensor)
{
    return ge::TensorBody::Of(tensor);
}

}  // namespace cairn
