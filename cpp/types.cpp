// Sizes of data types, and the sets of types that operators declare.

#include "graph/types.h"

#include <limits>
#include <utility>

namespace ge {

int64_t GetSizeInBytes(int64_t element_count, DataType data_type)
{
    const int size = GetSizeByDataType(data_type);
    if (element_count < 0 || size < 0) {
        return -1;
    }
    int64_t total = 0;
    if (size < kDataTypeSizeBitOffset) {
        return __builtin_mul_overflow(element_count, static_cast<int64_t>(size), &total) ? -1 : total;
    }
    const int64_t bits = size - kDataTypeSizeBitOffset;
    if (__builtin_mul_overflow(element_count, bits, &total) || __builtin_add_overflow(total, int64_t(7), &total)) {
        return -1;
    }
    return total / 8;
}

class TensorTypeBody {
public:
    std::vector<DataType> types;
};

TensorType::TensorType(DataType dt) : TensorType({dt}) {}

TensorType::TensorType(const std::initializer_list<DataType> &initial_types)
    : tensor_type_impl_(std::make_shared<TensorTypeBody>())
{
    tensor_type_impl_->types = initial_types;
}

Promote::Promote(const std::initializer_list<const char *> &syms)
    : data_(std::make_shared<std::vector<const char *>>(syms))
{
}

Promote::Promote(Promote &&other) noexcept : data_(std::move(other.data_)) {}

Promote &Promote::operator=(Promote &&other) noexcept
{
    data_ = std::move(other.data_);
    return *this;
}

std::vector<const char *> Promote::Syms() const
{
    return data_ == nullptr ? std::vector<const char *>() : *static_cast<std::vector<const char *> *>(data_.get());
}

}  // namespace ge
