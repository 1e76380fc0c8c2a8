/*
 * The shape of a tensor at run time. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_SHAPE_H
#define CAIRN_EXE_GRAPH_RUNTIME_SHAPE_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace gert {

/** Up to 25 dims. */
struct Shape {
public:
    static constexpr size_t kMaxDimNum = 25;
    static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

    /** A scalar. */
    Shape() : dim_num_(0), dims_{0}, reserved_{0} {}

    /** More than 25 dims make a scalar. */
    Shape(const std::initializer_list<int64_t> &args) : Shape()
    {
        if (args.size() <= kMaxDimNum) {
            for (const int64_t arg : args) {
                dims_[dim_num_++] = arg;
            }
        }
    }

    Shape(const Shape &other) : dim_num_(other.dim_num_), reserved_{0} { CopyDims(other); }

    Shape &operator=(const Shape &other)
    {
        dim_num_ = other.dim_num_;
        CopyDims(other);
        return *this;
    }

    bool operator==(const Shape &other) const
    {
        bool same = dim_num_ == other.dim_num_;
        for (size_t at = 0; same && at < StoredDimNum(); ++at) {
            same = dims_[at] == other.dims_[at];
        }
        return same;
    }

    bool operator!=(const Shape &other) const { return !(*this == other); }

    /** The number of elements, 1 for a scalar; kInvalidDimValue where it does not fit. */
    int64_t GetShapeSize() const
    {
        int64_t size = 1;
        for (size_t at = 0; at < StoredDimNum(); ++at) {
            if (__builtin_mul_overflow(size, dims_[at], &size)) {
                return kInvalidDimValue;
            }
        }
        return size;
    }

    bool IsScalar() const { return dim_num_ == 0; }
    void SetScalar() { dim_num_ = 0; }
    size_t GetDimNum() const { return dim_num_; }
    /** New dims have whatever was there before. */
    void SetDimNum(const size_t dim_num) { dim_num_ = dim_num; }
    /** kInvalidDimValue from 25 on. */
    int64_t GetDim(const size_t idx) const { return idx < kMaxDimNum ? dims_[idx] : kInvalidDimValue; }
    /** Not checked. */
    const int64_t &operator[](const size_t idx) const { return dims_[idx]; }
    int64_t &operator[](const size_t idx) { return dims_[idx]; }

    /** Nothing from 25 on. */
    void SetDim(size_t idx, const int64_t dim_value)
    {
        if (idx < kMaxDimNum) {
            dims_[idx] = dim_value;
        }
    }

    /** Nothing when there are 25 already. */
    Shape &AppendDim(const int64_t value)
    {
        if (dim_num_ < kMaxDimNum) {
            dims_[dim_num_++] = value;
        }
        return *this;
    }

private:
    size_t StoredDimNum() const { return dim_num_ < kMaxDimNum ? dim_num_ : kMaxDimNum; }

    void CopyDims(const Shape &other)
    {
        for (size_t at = 0; at < other.StoredDimNum(); ++at) {
            dims_[at] = other.dims_[at];
        }
    }

    size_t dim_num_;
    int64_t dims_[kMaxDimNum];
    uint8_t reserved_[40];
};

static_assert(std::is_standard_layout<Shape>::value && sizeof(Shape) == 248, "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
