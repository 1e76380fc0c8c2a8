/*
 * The strides of a tensor at run time, in elements. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_STRIDE_H
#define CAIRN_EXE_GRAPH_RUNTIME_STRIDE_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace gert {

/** Up to 25 strides. */
struct Stride {
public:
    static constexpr size_t kMaxDimNum = 25;
    static constexpr int64_t kInvalidStrideValue = std::numeric_limits<int64_t>::min();

    /** None. */
    Stride() : dim_num_(0), strides_{0}, reserved_{0} {}

    /** More than 25 make none. */
    Stride(const std::initializer_list<int64_t> &args) : Stride()
    {
        if (args.size() <= kMaxDimNum) {
            for (const int64_t arg : args) {
                strides_[dim_num_++] = arg;
            }
        }
    }

    Stride(const Stride &other) : dim_num_(other.dim_num_), reserved_{0} { CopyStrides(other); }

    Stride &operator=(const Stride &other)
    {
        dim_num_ = other.dim_num_;
        CopyStrides(other);
        return *this;
    }

    bool operator==(const Stride &other) const
    {
        bool same = dim_num_ == other.dim_num_;
        for (size_t at = 0; same && at < StoredDimNum(); ++at) {
            same = strides_[at] == other.strides_[at];
        }
        return same;
    }

    bool operator!=(const Stride &other) const { return !(*this == other); }

    size_t GetDimNum() const { return dim_num_; }
    /** New strides have whatever was there before. */
    void SetDimNum(const size_t dim_num) { dim_num_ = dim_num; }
    /** kInvalidStrideValue from 25 on. */
    int64_t GetStride(const size_t idx) const { return idx < kMaxDimNum ? strides_[idx] : kInvalidStrideValue; }
    /** Not checked. */
    const int64_t &operator[](const size_t idx) const { return strides_[idx]; }
    int64_t &operator[](const size_t idx) { return strides_[idx]; }

    /** Nothing from 25 on. */
    void SetStride(size_t idx, const int64_t stride)
    {
        if (idx < kMaxDimNum) {
            strides_[idx] = stride;
        }
    }

    /** Nothing when there are 25 already. */
    Stride &AppendStride(const int64_t value)
    {
        if (dim_num_ < kMaxDimNum) {
            strides_[dim_num_++] = value;
        }
        return *this;
    }

private:
    size_t StoredDimNum() const { return dim_num_ < kMaxDimNum ? dim_num_ : kMaxDimNum; }

    void CopyStrides(const Stride &other)
    {
        for (size_t at = 0; at < other.StoredDimNum(); ++at) {
            strides_[at] = other.strides_[at];
        }
    }

    size_t dim_num_;
    int64_t strides_[kMaxDimNum];
    uint8_t reserved_[40];
};

static_assert(std::is_standard_layout<Stride>::value && sizeof(Stride) == 248, "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
