// ge::TensorDesc holds its description itself.

#include <cstring>
#include <utility>

#include "graph/tensor.h"

namespace ge {

class TensorDescBody {
public:
    std::vector<int64_t> dims;
    std::vector<int64_t> origin_dims;
    std::vector<std::pair<int64_t, int64_t>> range;
    Format format = FORMAT_ND;
    Format origin_format = FORMAT_ND;
    DataType dtype = DT_FLOAT;
    Placement placement = kPlacementHost;
    int64_t size = 0;
    int64_t real_dim_count = 0;
    uint32_t reused_input = 0;
    AscendString name = AscendString("");
    AscendString expand_dims_rule = AscendString("");
    std::shared_ptr<std::vector<uint8_t>> const_data;
};

TensorDesc::TensorDesc() : impl(std::make_shared<TensorDescBody>()) {}

TensorDesc::TensorDesc(Shape shape, Format format, DataType dt) : TensorDesc()
{
    Update(shape, format, dt);
}

TensorDesc::TensorDesc(const TensorDesc &desc) : impl(std::make_shared<TensorDescBody>(*desc.impl)) {}

// What is moved from stays a description.
TensorDesc::TensorDesc(TensorDesc &&desc) : impl(std::make_shared<TensorDescBody>(std::move(*desc.impl))) {}

TensorDesc &TensorDesc::operator=(const TensorDesc &desc)
{
    *impl = *desc.impl;
    return *this;
}

TensorDesc &TensorDesc::operator=(TensorDesc &&desc)
{
    std::swap(impl, desc.impl);
    return *this;
}

void TensorDesc::Update(const Shape &shape, Format format, DataType dt)
{
    impl->dims = shape.GetDims();
    impl->format = format;
    impl->dtype = dt;
}

Shape TensorDesc::GetShape() const
{
    return Shape(impl->dims);
}

void TensorDesc::SetShape(const Shape &shape)
{
    impl->dims = shape.GetDims();
}

graphStatus TensorDesc::SetUnknownDimNumShape()
{
    impl->dims.assign(1, UNKNOWN_DIM_NUM);
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::SetShapeRange(const std::vector<std::pair<int64_t, int64_t>> &range)
{
    impl->range = range;
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::GetShapeRange(std::vector<std::pair<int64_t, int64_t>> &range) const
{
    range = impl->range;
    return GRAPH_SUCCESS;
}

Format TensorDesc::GetFormat() const
{
    return impl->format;
}

void TensorDesc::SetFormat(Format format)
{
    impl->format = format;
}

Shape TensorDesc::GetOriginShape() const
{
    return Shape(impl->origin_dims);
}

void TensorDesc::SetOriginShape(const Shape &origin_shape)
{
    impl->origin_dims = origin_shape.GetDims();
}

Format TensorDesc::GetOriginFormat() const
{
    return impl->origin_format;
}

void TensorDesc::SetOriginFormat(Format origin_format)
{
    impl->origin_format = origin_format;
}

DataType TensorDesc::GetDataType() const
{
    return impl->dtype;
}

void TensorDesc::SetDataType(DataType dt)
{
    impl->dtype = dt;
}

graphStatus TensorDesc::GetName(AscendString &name)
{
    name = impl->name;
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::GetName(AscendString &name) const
{
    name = impl->name;
    return GRAPH_SUCCESS;
}

void TensorDesc::SetName(const char_t *name)
{
    if (name != nullptr) {
        impl->name = AscendString(name);
    }
}

void TensorDesc::SetSize(int64_t size)
{
    impl->size = size;
}

int64_t TensorDesc::GetSize() const
{
    return impl->size;
}

int64_t TensorDesc::GetRealDimCnt() const
{
    return impl->real_dim_count;
}

void TensorDesc::SetRealDimCnt(const int64_t real_dim_cnt)
{
    impl->real_dim_count = real_dim_cnt;
}

void TensorDesc::SetPlacement(Placement placement)
{
    impl->placement = placement;
}

Placement TensorDesc::GetPlacement() const
{
    return impl->placement;
}

void TensorDesc::SetConstData(std::unique_ptr<uint8_t[]> const_data_buffer, const size_t &const_data_len)
{
    if (const_data_buffer == nullptr) {
        impl->const_data.reset();
        return;
    }
    const uint8_t *const begin = const_data_buffer.get();
    impl->const_data = std::make_shared<std::vector<uint8_t>>(begin, begin + const_data_len);
}

bool TensorDesc::GetConstData(uint8_t **const_data_buffer, size_t &const_data_len) const
{
    if (impl->const_data == nullptr || const_data_buffer == nullptr) {
        return false;
    }
    *const_data_buffer = impl->const_data->data();
    const_data_len = impl->const_data->size();
    return true;
}

void TensorDesc::SetExpandDimsRule(const AscendString &expand_dims_rule)
{
    impl->expand_dims_rule = expand_dims_rule;
}

graphStatus TensorDesc::GetExpandDimsRule(AscendString &expand_dims_rule) const
{
    expand_dims_rule = impl->expand_dims_rule;
    return GRAPH_SUCCESS;
}

void TensorDesc::SetReuseInputIndex(const uint32_t idx)
{
    impl->reused_input = idx;
}

}  // namespace ge
