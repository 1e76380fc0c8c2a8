/*
 * Both shapes of a tensor at run time. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_STORAGE_SHAPE_H
#define CAIRN_EXE_GRAPH_RUNTIME_STORAGE_SHAPE_H

#ifdef __cplusplus

#include "exe_graph/runtime/shape.h"

namespace gert {

/** The shape in the source framework (origin), and how the data lie in memory (storage). */
struct StorageShape {
public:
    StorageShape() : reserved_{0} {}
    StorageShape(const std::initializer_list<int64_t> &origin_shape,
                 const std::initializer_list<int64_t> &storage_shape)
        : origin_shape_(origin_shape), storage_shape_(storage_shape), reserved_{0}
    {
    }

    const Shape &GetOriginShape() const { return origin_shape_; }
    const Shape &GetShape() const { return origin_shape_; }
    const Shape &GetStorageShape() const { return storage_shape_; }
    Shape &MutableShape() { return origin_shape_; }
    Shape &MutableOriginShape() { return origin_shape_; }
    Shape &MutableStorageShape() { return storage_shape_; }

    bool operator==(const StorageShape &other) const
    {
        return origin_shape_ == other.origin_shape_ && storage_shape_ == other.storage_shape_;
    }
    bool operator!=(const StorageShape &other) const { return !(*this == other); }

private:
    Shape origin_shape_;
    Shape storage_shape_;
    uint8_t reserved_[40];
};

static_assert(std::is_standard_layout<StorageShape>::value && sizeof(StorageShape) == 536,
              "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
