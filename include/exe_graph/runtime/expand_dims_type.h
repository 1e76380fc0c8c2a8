/*
 * Which dims of a shape were put in. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_EXPAND_DIMS_TYPE_H
#define CAIRN_EXE_GRAPH_RUNTIME_EXPAND_DIMS_TYPE_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exe_graph/runtime/shape.h"
#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace gert {

/** A rule such as "0110": for each dim of the expanded shape, '1' if it was put in with size 1. */
class ExpandDimsType {
public:
    using AxisIndex = uint64_t;
    static constexpr size_t kMaxExpandSize = 56;

    /** No rule. */
    ExpandDimsType() : size_(0U), mask_(0U), reserved_{0} {}

    /** From its text; none when it is null or longer than 56. */
    explicit ExpandDimsType(const ge::char_t *const expand_dims_type) : ExpandDimsType()
    {
        const size_t length = expand_dims_type == nullptr ? 0 : std::strlen(expand_dims_type);
        if (length > kMaxExpandSize) {
            return;
        }
        size_ = length;
        for (AxisIndex at = 0; at < length; ++at) {
            if (expand_dims_type[at] == '1') {
                SetExpandIndex(at);
            }
        }
    }

    /** From a number: the length in the top 8 bits, bit i for dim i below. */
    explicit ExpandDimsType(const int64_t reshape_type_mask) : ExpandDimsType()
    {
        const uint64_t bits = static_cast<uint64_t>(reshape_type_mask);
        if ((bits >> kMaxExpandSize) <= kMaxExpandSize) {
            size_ = bits >> kMaxExpandSize;
            mask_ = bits & ((uint64_t(1) << kMaxExpandSize) - 1);
        }
    }

    bool operator==(const ExpandDimsType &other) const { return size_ == other.size_ && mask_ == other.mask_; }

    /** The number of dims of the expanded shape. */
    AxisIndex GetFullSize() const { return size_; }
    void SetExpandIndex(const AxisIndex index) { mask_ |= uint64_t(1) << index; }
    bool IsExpandIndex(const AxisIndex index) const { return ((uint64_t(1) << index) & mask_) != 0; }

    /** Writes the expanded shape; GRAPH_FAILED when the rule wants more dims than there are. */
    ge::graphStatus Expand(const Shape &shape, Shape &out_shape) const
    {
        if (shape.GetDimNum() == size_) {
            out_shape = shape;
            return ge::GRAPH_SUCCESS;
        }
        Shape expanded;
        size_t next = 0;
        for (AxisIndex at = 0; at < size_; ++at) {
            if (IsExpandIndex(at)) {
                expanded.AppendDim(1);
            } else if (next < shape.GetDimNum()) {
                expanded.AppendDim(shape.GetDim(next++));
            } else {
                return ge::GRAPH_FAILED;
            }
        }
        while (next < shape.GetDimNum()) {
            expanded.AppendDim(shape.GetDim(next++));
        }
        out_shape = expanded;
        return ge::GRAPH_SUCCESS;
    }

    /** Expands in place; a shape that does not suit the rule stays as it is. */
    ge::graphStatus Expand(Shape &shape) const
    {
        const Shape original(shape);
        return Expand(original, shape);
    }

private:
    uint64_t size_ : 8;
    uint64_t mask_ : kMaxExpandSize;
    uint8_t reserved_[40];
};

static_assert(sizeof(ExpandDimsType) == 48, "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
