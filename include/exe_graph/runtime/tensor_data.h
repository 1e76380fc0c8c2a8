/*
 * The memory of a tensor at run time. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_TENSOR_DATA_H
#define CAIRN_EXE_GRAPH_RUNTIME_TENSOR_DATA_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "graph/ge_error_codes.h"

namespace gert {

using TensorAddress = void *;
using ConstTensorAddressPtr = const void *;

enum TensorPlacement : int32_t {
    kOnDeviceHbm,
    kOnHost,
    /** On the host, right after the tensor object. */
    kFollowing,
    kOnDeviceP2p,
    kTensorPlacementEnd
};

/** Questions about a placement. */
class TensorPlacementUtils {
public:
    static bool IsOnDevice(TensorPlacement placement) { return IsOnDeviceHbm(placement) || IsOnDeviceP2p(placement); }
    static bool IsOnHost(TensorPlacement placement) { return placement == kOnHost || placement == kFollowing; }
    static bool IsOnHostFollowing(TensorPlacement placement) { return placement == kFollowing; }
    static bool IsOnHostNotFollowing(TensorPlacement placement) { return placement == kOnHost; }
    static bool IsOnDeviceHbm(TensorPlacement placement) { return placement == kOnDeviceHbm; }
    static bool IsOnDeviceP2p(TensorPlacement placement) { return placement == kOnDeviceP2p; }
};

/** What a manager is asked for: the address of the data, to give up a share, to take one more. */
enum TensorOperateType : int32_t { kGetTensorAddress, kFreeTensor, kPlusShareCount, kTensorOperateType };

using TensorAddrManager = ge::graphStatus (*)(TensorAddress addr, TensorOperateType operate_type, void **out);

/** A share of some memory. Without a manager the address is the data's, and nobody frees it. */
class TensorData {
public:
    explicit TensorData(TensorAddress addr = nullptr, const TensorAddrManager manager = nullptr)
        : TensorData(addr, manager, 0U, kTensorPlacementEnd)
    {
    }
    explicit TensorData(TensorAddress addr, const TensorAddrManager manager, size_t size, TensorPlacement placement)
        : addr_(addr), manager_(manager), size_(size), placement_(placement), reserved_0_(0U), reserved_1_{0}
    {
    }
    TensorData(const TensorData &) = delete;
    TensorData &operator=(const TensorData &) = delete;

    TensorData(TensorData &&other) noexcept : TensorData() { Take(other); }

    TensorData &operator=(TensorData &&other) noexcept
    {
        if (this != &other) {
            static_cast<void>(Free());
            Take(other);
        }
        return *this;
    }

    ~TensorData() noexcept { static_cast<void>(Free()); }

    /** Where the data are; null if there are none, or the manager fails. */
    TensorAddress GetAddr() const
    {
        if (manager_ == nullptr || addr_ == nullptr) {
            return addr_;
        }
        TensorAddress data = nullptr;
        return manager_(addr_, kGetTensorAddress, &data) == ge::GRAPH_SUCCESS ? data : nullptr;
    }

    size_t GetSize() const { return size_; }
    void SetSize(const size_t size) { size_ = size; }
    TensorPlacement GetPlacement() const { return placement_; }
    void SetPlacement(const TensorPlacement placement) { placement_ = placement; }

    /** Gives the share up; without a manager nothing happens. When the manager fails, the share stays. */
    ge::graphStatus Free()
    {
        if (manager_ == nullptr) {
            return ge::GRAPH_SUCCESS;
        }
        const ge::graphStatus status = manager_(addr_, kFreeTensor, nullptr);
        if (status == ge::GRAPH_SUCCESS) {
            addr_ = nullptr;
            manager_ = nullptr;
        }
        return status;
    }

    /** Gives up what was there and takes this over. */
    ge::graphStatus SetAddr(const ConstTensorAddressPtr addr, TensorAddrManager manager)
    {
        const ge::graphStatus status = Free();
        if (status == ge::GRAPH_SUCCESS) {
            addr_ = const_cast<TensorAddress>(addr);
            manager_ = manager;
        }
        return status;
    }

    bool IsSharedWith(const TensorData &other) const
    {
        return addr_ == other.addr_ && manager_ == other.manager_ && size_ == other.size_ &&
               placement_ == other.placement_;
    }

    /** Gives up what was there and takes a share of the other's memory. */
    ge::graphStatus ShareFrom(const TensorData &other)
    {
        if (IsSharedWith(other)) {
            return ge::GRAPH_SUCCESS;
        }
        ge::graphStatus status = Free();
        if (status != ge::GRAPH_SUCCESS) {
            return status;
        }
        if (other.manager_ != nullptr) {
            status = other.manager_(other.addr_, kPlusShareCount, nullptr);
        }
        if (status == ge::GRAPH_SUCCESS) {
            Set(other.addr_, other.manager_, other.size_, other.placement_);
        } else {
            Set(nullptr, nullptr, 0U, kTensorPlacementEnd);
        }
        return status;
    }

    /** Hands the share to the caller, who ends it through `manager`. */
    TensorAddress Release(TensorAddrManager &manager)
    {
        const TensorAddress addr = addr_;
        manager = manager_;
        Set(nullptr, nullptr, 0U, kTensorPlacementEnd);
        return addr;
    }

private:
    void Set(TensorAddress addr, TensorAddrManager manager, size_t size, TensorPlacement placement)
    {
        addr_ = addr;
        manager_ = manager;
        size_ = size;
        placement_ = placement;
    }

    void Take(TensorData &other)
    {
        Set(other.addr_, other.manager_, other.size_, other.placement_);
        reserved_0_ = other.reserved_0_;
        std::memcpy(reserved_1_, other.reserved_1_, sizeof(reserved_1_));
        other.Set(nullptr, nullptr, 0U, kTensorPlacementEnd);
    }

    TensorAddress addr_;
    TensorAddrManager manager_;
    size_t size_;
    TensorPlacement placement_;
    uint32_t reserved_0_;
    uint8_t reserved_1_[40];
};

static_assert(std::is_standard_layout<TensorData>::value && sizeof(TensorData) == 72, "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
