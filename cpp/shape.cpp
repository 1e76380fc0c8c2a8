// ge::Shape holds its dims itself.

#include <vector>

#include "graph/tensor.h"

namespace ge {

class ShapeBody {
public:
    std::vector<int64_t> dims;
};

Shape::Shape() : impl_(std::make_shared<ShapeBody>()) {}

Shape::Shape(const std::vector<int64_t> &dims) : impl_(std::make_shared<ShapeBody>())
{
    impl_->dims = dims;
}

size_t Shape::GetDimNum() const
{
    const std::vector<int64_t> &dims = impl_->dims;
    return dims.size() == 1 && dims[0] == UNKNOWN_DIM_NUM ? 0 : dims.size();
}

int64_t Shape::GetDim(size_t idx) const
{
    return idx < impl_->dims.size() ? impl_->dims[idx] : 0;
}

graphStatus Shape::SetDim(size_t idx, int64_t value)
{
    if (idx >= impl_->dims.size()) {
        return GRAPH_FAILED;
    }
    impl_->dims[idx] = value;
    return GRAPH_SUCCESS;
}

std::vector<int64_t> Shape::GetDims() const
{
    return impl_->dims;
}

int64_t Shape::GetShapeSize() const
{
    if (impl_->dims.empty()) {
        return 0;
    }
    for (const int64_t dim : impl_->dims) {
        if (dim == UNKNOWN_DIM || dim == UNKNOWN_DIM_NUM) {
            return -1;
        }
    }
    int64_t size = 1;
    for (const int64_t dim : impl_->dims) {
        if (__builtin_mul_overflow(size, dim, &size)) {
            return 0;
        }
    }
    return size;
}

}  // namespace ge
