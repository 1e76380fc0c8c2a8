/*
 * Tensors at run time. Complete in this header; they cross library boundaries, so members keep their offsets. C++
 * only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_TENSOR_H
#define CAIRN_EXE_GRAPH_RUNTIME_TENSOR_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "exe_graph/runtime/storage_format.h"
#include "exe_graph/runtime/storage_shape.h"
#include "exe_graph/runtime/stride.h"
#include "exe_graph/runtime/tensor_data.h"
#include "graph/ge_error_codes.h"
#include "graph/types.h"

namespace gert {

using ConstTensorAddress = void *const;

/** kTensorV2 has strides and an offset. */
enum TensorVersion : uint8_t { kTensorV1 = 0, kTensorV2 = 1 };

/** Shapes, formats, a data type and a share of memory. It can be moved, not copied. */
class Tensor {
public:
    /** A scalar without memory; DT_FLOAT, FORMAT_ND. */
    Tensor() : version_(kTensorV1), reserved_{0}, data_type_(ge::DT_FLOAT), reserved_field_{0} {}
    Tensor(const StorageShape &storage_shape, const StorageFormat &storage_format, ge::DataType data_type)
        : storage_shape_(storage_shape), storage_format_(storage_format), version_(kTensorV1), reserved_{0},
          data_type_(data_type), reserved_field_{0}
    {
    }
    Tensor(const StorageShape &storage_shape, const StorageFormat &storage_format, const TensorPlacement placement,
           const ge::DataType data_type, TensorAddress addr)
        : Tensor(storage_shape, storage_format, placement, data_type, addr, nullptr)
    {
    }
    /** The size is what type and storage shape make. */
    Tensor(const StorageShape &storage_shape, const StorageFormat &storage_format, const TensorPlacement placement,
           const ge::DataType data_type, TensorAddress addr, TensorAddrManager manager)
        : storage_shape_(storage_shape), storage_format_(storage_format), version_(kTensorV1), reserved_{0},
          data_type_(data_type),
          tensor_data_(addr, manager, static_cast<size_t>(ge::GetSizeInBytes(GetShapeSize(), data_type)), placement),
          reserved_field_{0}
    {
    }

    /** The elements of the storage shape. */
    int64_t GetShapeSize() const { return storage_shape_.GetStorageShape().GetShapeSize(); }

    template <class T>
    const T *GetData() const
    {
        return static_cast<const T *>(GetAddr());
    }
    template <class T>
    auto GetData() -> T *
    {
        return static_cast<T *>(GetAddr());
    }
    /** Gives up what was there and takes the other's share. */
    void SetData(TensorData &&data) { tensor_data_ = std::move(data); }
    /** Where the data are, or null. */
    const void *GetAddr() const
    {
        return tensor_data_.GetPlacement() == kFollowing ? static_cast<const void *>(this + 1) : tensor_data_.GetAddr();
    }
    void *GetAddr()
    {
        return tensor_data_.GetPlacement() == kFollowing ? static_cast<void *>(this + 1) : tensor_data_.GetAddr();
    }
    /** The bytes of the memory. */
    size_t GetSize() const { return tensor_data_.GetSize(); }
    void SetSize(const size_t size) { tensor_data_.SetSize(size); }
    ge::DataType GetDataType() const { return data_type_; }
    void SetDataType(const ge::DataType data_type) { data_type_ = data_type; }

    /** A tensor followed by room for this many elements, in one array; null where that does not fit. */
    static std::unique_ptr<uint8_t[]> CreateFollowing(const int64_t shape_size, const ge::DataType dt,
                                                      size_t &total_size)
    {
        const int64_t bytes = ge::GetSizeInBytes(shape_size, dt);
        return bytes < 0 ? nullptr : CreateFollowing(dt, static_cast<size_t>(bytes), total_size);
    }
    /** The same for this many bytes. */
    static std::unique_ptr<uint8_t[]> CreateFollowing(const ge::DataType dt, const size_t tensor_size,
                                                      size_t &total_size)
    {
        if (__builtin_add_overflow(tensor_size, sizeof(Tensor), &total_size)) {
            return nullptr;
        }
        std::unique_ptr<uint8_t[]> held(new (std::nothrow) uint8_t[total_size]);
        if (held != nullptr) {
            Tensor *const tensor = new (held.get()) Tensor(StorageShape(), StorageFormat(), dt);
            tensor->tensor_data_ = TensorData(nullptr, nullptr, tensor_size, kFollowing);
        }
        return held;
    }

    const Shape &GetStorageShape() const { return storage_shape_.GetStorageShape(); }
    Shape &MutableStorageShape() { return storage_shape_.MutableStorageShape(); }
    const Shape &GetOriginShape() const { return storage_shape_.GetOriginShape(); }
    Shape &MutableOriginShape() { return storage_shape_.MutableOriginShape(); }
    const StorageShape &GetShape() const { return storage_shape_; }
    StorageShape &GetShape() { return storage_shape_; }
    ge::Format GetStorageFormat() const { return storage_format_.GetStorageFormat(); }
    void SetStorageFormat(const ge::Format storage_format) { storage_format_.SetStorageFormat(storage_format); }
    ge::Format GetOriginFormat() const { return storage_format_.GetOriginFormat(); }
    void SetOriginFormat(const ge::Format origin_format) { storage_format_.SetOriginFormat(origin_format); }
    const StorageFormat &GetFormat() const { return storage_format_; }
    StorageFormat &MutableFormat() { return storage_format_; }
    ExpandDimsType GetExpandDimsType() const { return storage_format_.GetExpandDimsType(); }
    void SetExpandDimsType(const ExpandDimsType &type) { storage_format_.SetExpandDimsType(type); }
    TensorPlacement GetPlacement() const { return tensor_data_.GetPlacement(); }
    void SetPlacement(const TensorPlacement placement) { tensor_data_.SetPlacement(placement); }
    const TensorData &GetTensorData() const { return tensor_data_; }
    TensorData &MutableTensorData() { return tensor_data_; }
    TensorVersion GetVersion() const { return version_; }

private:
    friend class TensorV2;
    friend struct TensorLayout;

    StorageShape storage_shape_;
    StorageFormat storage_format_;
    TensorVersion version_;
    uint8_t reserved_[3];
    ge::DataType data_type_;
    TensorData tensor_data_;
    uint8_t reserved_field_[40];
};

/** Where clients look for the members. */
struct TensorLayout {
    static_assert(std::is_standard_layout<Tensor>::value && sizeof(Tensor) == 752, "ABI: size and layout must not change");
    static_assert(offsetof(Tensor, storage_shape_) == 0 && offsetof(Tensor, storage_format_) == 536 &&
                      offsetof(Tensor, version_) == 632 && offsetof(Tensor, data_type_) == 636 &&
                      offsetof(Tensor, tensor_data_) == 640 && offsetof(Tensor, reserved_field_) == 712,
                  "ABI: size and layout must not change");
};

/** A tensor whose elements need not lie side by side. */
class TensorV2 {
public:
    TensorV2() : offset_(0), reserved_field_{0} { tensor_.version_ = kTensorV2; }
    TensorV2(const StorageShape &storage_shape, const StorageFormat &storage_format, ge::DataType data_type)
        : tensor_(storage_shape, storage_format, data_type), offset_(0), reserved_field_{0}
    {
        tensor_.version_ = kTensorV2;
    }
    TensorV2(const StorageShape &storage_shape, const StorageFormat &storage_format, const TensorPlacement placement,
             const ge::DataType data_type, TensorAddress addr, TensorAddrManager manager = nullptr,
             const Stride &stride = Stride(), const int64_t offset = 0)
        : tensor_(storage_shape, storage_format, placement, data_type, addr, manager), stride_(stride),
          offset_(offset), reserved_field_{0}
    {
        tensor_.version_ = kTensorV2;
    }

    /* As Tensor has them. */
    int64_t GetShapeSize() const { return tensor_.GetShapeSize(); }
    template <class T>
    const T *GetData() const
    {
        return static_cast<const T *>(GetAddr());
    }
    template <class T>
    auto GetData() -> T *
    {
        return static_cast<T *>(GetAddr());
    }
    void SetData(TensorData &&data) { tensor_.SetData(std::move(data)); }
    const void *GetAddr() const
    {
        return GetPlacement() == kFollowing ? static_cast<const void *>(this + 1) : tensor_.GetAddr();
    }
    void *GetAddr() { return GetPlacement() == kFollowing ? static_cast<void *>(this + 1) : tensor_.GetAddr(); }
    size_t GetSize() const { return tensor_.GetSize(); }
    void SetSize(const size_t size) { tensor_.SetSize(size); }
    ge::DataType GetDataType() const { return tensor_.GetDataType(); }
    void SetDataType(const ge::DataType data_type) { tensor_.SetDataType(data_type); }
    const Shape &GetStorageShape() const { return tensor_.GetStorageShape(); }
    Shape &MutableStorageShape() { return tensor_.MutableStorageShape(); }
    const Shape &GetOriginShape() const { return tensor_.GetOriginShape(); }
    Shape &MutableOriginShape() { return tensor_.MutableOriginShape(); }
    const StorageShape &GetShape() const { return tensor_.GetShape(); }
    StorageShape &GetShape() { return tensor_.GetShape(); }
    ge::Format GetStorageFormat() const { return tensor_.GetStorageFormat(); }
    void SetStorageFormat(const ge::Format storage_format) { tensor_.SetStorageFormat(storage_format); }
    ge::Format GetOriginFormat() const { return tensor_.GetOriginFormat(); }
    void SetOriginFormat(const ge::Format origin_format) { tensor_.SetOriginFormat(origin_format); }
    const StorageFormat &GetFormat() const { return tensor_.GetFormat(); }
    StorageFormat &MutableFormat() { return tensor_.MutableFormat(); }
    ExpandDimsType GetExpandDimsType() const { return tensor_.GetExpandDimsType(); }
    void SetExpandDimsType(const ExpandDimsType &type) { tensor_.SetExpandDimsType(type); }
    TensorPlacement GetPlacement() const { return tensor_.GetPlacement(); }
    void SetPlacement(const TensorPlacement placement) { tensor_.SetPlacement(placement); }
    const TensorData &GetTensorData() const { return tensor_.GetTensorData(); }
    TensorData &MutableTensorData() { return tensor_.MutableTensorData(); }
    TensorVersion GetVersion() const { return tensor_.GetVersion(); }

    /** Elements from one to the next, per dim. */
    const Stride &GetStride() const { return stride_; }
    Stride &MutableStride() { return stride_; }
    /** Elements before the first one. */
    int64_t GetOffset() const { return offset_; }
    void SetOffset(const int64_t offset) { offset_ = offset; }

private:
    Tensor tensor_;
    Stride stride_;
    int64_t offset_;
    uint8_t reserved_field_[40];
};

static_assert(std::is_standard_layout<TensorV2>::value && sizeof(TensorV2) == 1048, "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
