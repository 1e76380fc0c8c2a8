/*
 * What is known of a node at run time: how declared inputs and outputs became those of the node, and their types.
 * Complete in this header. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_COMPUTE_NODE_INFO_H
#define CAIRN_EXE_GRAPH_RUNTIME_COMPUTE_NODE_INFO_H

#ifdef __cplusplus

#include <cstddef>

#include "exe_graph/runtime/storage_format.h"
#include "graph/types.h"

namespace gert {

/** Which inputs (or outputs) of a node belong to a declared one: none for an optional one that nothing feeds. */
class AnchorInstanceInfo {
public:
    AnchorInstanceInfo() = default;
    AnchorInstanceInfo(size_t start, size_t count) : start_(start), count_(count) {}

    size_t GetInstanceNum() const { return count_; }
    size_t GetInstanceStart() const { return start_; }

private:
    size_t start_ = 0;
    size_t count_ = 0;
};

/** Type and format of an input or output. */
class CompileTimeTensorDesc {
public:
    CompileTimeTensorDesc() = default;
    CompileTimeTensorDesc(ge::DataType data_type, const StorageFormat &format) : data_type_(data_type), format_(format) {}

    ge::DataType GetDataType() const { return data_type_; }
    const StorageFormat &GetFormat() const { return format_; }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }

private:
    ge::DataType data_type_ = ge::DT_UNDEFINED;
    StorageFormat format_;
};

}  // namespace gert

#endif

#endif
