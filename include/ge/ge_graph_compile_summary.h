/*
 * What a compiled graph is and needs. C++ only.
 */
#ifndef CAIRN_GE_GE_GRAPH_COMPILE_SUMMARY_H
#define CAIRN_GE_GE_GRAPH_COMPILE_SUMMARY_H

#ifdef __cplusplus

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ge/ge_api_types.h"
#include "ge/ge_error_codes.h"
#include "ge/ge_external_weight_desc.h"
#include "ge/ge_feature_memory.h"
#include "graph/ascend_string.h"
#include "graph/tensor.h"

namespace ge {

/** A snapshot: it stays as it is when the graph is removed. FAILED for what the graph does not have. */
class CompiledGraphSummary {
public:
    class Builder;
    class SummaryData;

    ~CompiledGraphSummary();
    CompiledGraphSummary &operator=(const CompiledGraphSummary &) & = delete;
    CompiledGraphSummary(const CompiledGraphSummary &) = delete;

    /** Whether every shape is known before the run. */
    bool IsStatic() const;
    /* Bytes: of constants; of everything between inputs and outputs; its fixed and its refreshable part. */
    Status GetConstMemorySize(size_t &size) const;
    Status GetFeatureMemorySize(size_t &size) const;
    Status GetFixedFeatureMemorySize(size_t &size) const;
    Status GetRefreshableFeatureMemorySize(size_t &size) const;
    /** Each part of the feature memory that is not empty. */
    std::vector<FeatureMemoryPtr> GetAllFeatureMemoryTypeSize() const;
    /** Whether the base of the feature memory may change after the load. */
    Status GetFeatureMemoryBaseRefreshable(bool &v) const;
    Status GetStreamNum(size_t &num) const;
    Status GetEventNum(size_t &num) const;
    Status GetOutputShapes(std::vector<ge::Shape> &shapes) const;
    Status GetOutputDtypes(std::vector<ge::DataType> &dtypes) const;
    /** Pairs of an input and an output that are the same memory. */
    Status GetIOIndexesWithSameAddr(std::vector<std::pair<uint32_t, uint32_t>> &io_indexes) const;
    /** FAILED: inputs are not sharded here. */
    Status GetInputShardMethod(
        std::map<std::string, std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>>> &deployment) const;
    /** No paths: weights are in the graph. */
    Status GetExternalWeightPaths(std::vector<ExternalWeightDescPtr> &paths) const;

private:
    CompiledGraphSummary() = default;
    std::shared_ptr<SummaryData> data_{nullptr};
};

using CompiledGraphSummaryPtr = std::shared_ptr<CompiledGraphSummary>;

extern "C" {

/* Of the streams of a graph: by the graph's name, a list with one entry per stream. A graph runs on the one stream
 * that it is given. */
ge::Status GEStreamAllocationSummaryGetStringInfos(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<AscendString>> &graph_to_string_infos);
ge::Status GEStreamAllocationSummaryGetLogicalStreamIds(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<int64_t>> &graph_to_logical_stream_ids);
ge::Status GEStreamAllocationSummaryGetUsrStreamLabels(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<AscendString>> &graph_to_user_stream_labels);
ge::Status GEStreamAllocationSummaryGetIsAssignedByStreamPass(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<bool>> &graph_to_is_assigned_by_stream_pass);
ge::Status GEStreamAllocationSummaryGetAttachedStreamIds(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<std::vector<int64_t>>> &graph_to_attached_stream_ids);
ge::Status GEStreamAllocationSummaryGetPhysicalStreamNums(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<size_t>> &graph_to_physical_stream_nums);
ge::Status GEStreamAllocationSummaryGetHcclFollowedStreamNums(
    const ge::CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<int64_t>> &graph_to_hccl_followed_stream_nums);

}  // extern "C"

}  // namespace ge

#endif

#endif
