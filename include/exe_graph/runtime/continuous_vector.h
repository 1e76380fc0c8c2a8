/*
 * Lists that are attributes of a node at run time. Complete in this header. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_CONTINUOUS_VECTOR_H
#define CAIRN_EXE_GRAPH_RUNTIME_CONTINUOUS_VECTOR_H

#ifdef __cplusplus

#include <cstddef>

namespace gert {

/** Elements side by side; they belong to the node. */
template <typename T>
class TypedContinuousVector {
public:
    TypedContinuousVector() = default;
    TypedContinuousVector(const T *data, size_t size) : data_(data), size_(size) {}

    const T *GetData() const { return data_; }
    size_t GetSize() const { return size_; }
    size_t GetCapacity() const { return size_; }

private:
    const T *data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace gert

#endif

#endif
