/*
 * Both formats of a tensor at run time. Complete in this header; it crosses library boundaries, so members keep
 * their offsets. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_STORAGE_FORMAT_H
#define CAIRN_EXE_GRAPH_RUNTIME_STORAGE_FORMAT_H

#ifdef __cplusplus

#include "exe_graph/runtime/expand_dims_type.h"
#include "graph/types.h"

namespace gert {

/** The format in the source framework (origin), and how the data lie in memory (storage). */
struct StorageFormat {
public:
    /** FORMAT_ND twice. */
    StorageFormat() : origin_format_(ge::FORMAT_ND), storage_format_(ge::FORMAT_ND), reserved_{0} {}
    StorageFormat(const ge::Format origin_format, const ge::Format storage_format,
                  const ExpandDimsType &expand_dims_type)
        : origin_format_(origin_format), storage_format_(storage_format), expand_dims_type_(expand_dims_type),
          reserved_{0}
    {
    }

    ge::Format GetOriginFormat() const { return origin_format_; }
    void SetOriginFormat(const ge::Format origin_format) { origin_format_ = origin_format; }
    ge::Format GetStorageFormat() const { return storage_format_; }
    void SetStorageFormat(const ge::Format storage_format) { storage_format_ = storage_format; }
    ExpandDimsType GetExpandDimsType() const { return expand_dims_type_; }
    void SetExpandDimsType(const ExpandDimsType &expand_dims_type) { expand_dims_type_ = expand_dims_type; }
    ExpandDimsType &MutableExpandDimsType() { return expand_dims_type_; }

    bool operator==(const StorageFormat &other) const
    {
        return origin_format_ == other.origin_format_ && storage_format_ == other.storage_format_ &&
               expand_dims_type_ == other.expand_dims_type_;
    }
    bool operator!=(const StorageFormat &other) const { return !(*this == other); }

private:
    ge::Format origin_format_;
    ge::Format storage_format_;
    ExpandDimsType expand_dims_type_;
    uint8_t reserved_[40];
};

static_assert(std::is_standard_layout<StorageFormat>::value && sizeof(StorageFormat) == 96,
              "ABI: size and layout must not change");

}  // namespace gert

#endif

#endif
