// ge::CompiledGraphSummary and ge::FeatureMemory.

#include "summary.h"

#include <string>

#include "description.h"
#include "text.h"

namespace ge {

class FeatureMemory::FeatureMemoryData {
public:
    MemoryType type;
    size_t size;
    bool is_fixed;
};

FeatureMemory::~FeatureMemory() = default;

FeatureMemoryPtr FeatureMemory::Builder::Build(MemoryType type, size_t size, bool is_fixed)
{
    FeatureMemoryPtr memory(new FeatureMemory());
    memory->data_ = std::make_shared<FeatureMemoryData>(FeatureMemoryData{type, size, is_fixed});
    return memory;
}

MemoryType FeatureMemory::GetType() const
{
    return data_->type;
}

size_t FeatureMemory::GetSize() const
{
    return data_->size;
}

bool FeatureMemory::IsFixed() const
{
    return data_->is_fixed;
}

class CompiledGraphSummary::SummaryData {
public:
    SummaryData(CairnSummary *owned, uint32_t id) : handle(owned), graph_id(id) {}
    ~SummaryData() { CairnSummaryRelease(handle); }
    SummaryData(const SummaryData &) = delete;
    SummaryData &operator=(const SummaryData &) = delete;

    CairnSummary *const handle;
    const uint32_t graph_id;

    Status Size(CairnSize which, const char *function, size_t &size) const
    {
        if (CairnSummarySize(handle, which, &size)) {
            return SUCCESS;
        }
        return cairn::fail(std::string("CompiledGraphSummary::") + function + ": graph " + std::to_string(graph_id) +
                           " is dynamic; this value is not known before it runs");
    }
};

CompiledGraphSummary::~CompiledGraphSummary() = default;

CompiledGraphSummaryPtr CompiledGraphSummary::Builder::Build(CairnSummary *owned, uint32_t graph_id)
{
    if (owned == nullptr) {
        return nullptr;
    }
    CompiledGraphSummaryPtr summary(new CompiledGraphSummary());
    summary->data_ = std::make_shared<SummaryData>(owned, graph_id);
    return summary;
}

uint32_t CompiledGraphSummary::Builder::GraphOf(const CompiledGraphSummary &summary)
{
    return summary.data_->graph_id;
}

bool CompiledGraphSummary::IsStatic() const
{
    return CairnSummaryStatic(data_->handle);
}

Status CompiledGraphSummary::GetConstMemorySize(size_t &size) const
{
    return data_->Size(CAIRN_SIZE_CONST, "GetConstMemorySize", size);
}

Status CompiledGraphSummary::GetFeatureMemorySize(size_t &size) const
{
    return data_->Size(CAIRN_SIZE_FEATURE, "GetFeatureMemorySize", size);
}

Status CompiledGraphSummary::GetFixedFeatureMemorySize(size_t &size) const
{
    return data_->Size(CAIRN_SIZE_FIXED, "GetFixedFeatureMemorySize", size);
}

Status CompiledGraphSummary::GetRefreshableFeatureMemorySize(size_t &size) const
{
    return data_->Size(CAIRN_SIZE_REFRESHABLE, "GetRefreshableFeatureMemorySize", size);
}

std::vector<FeatureMemoryPtr> CompiledGraphSummary::GetAllFeatureMemoryTypeSize() const
{
    std::vector<FeatureMemoryPtr> parts;
    const std::pair<CairnSize, bool> kinds[] = {{CAIRN_SIZE_FIXED, true}, {CAIRN_SIZE_REFRESHABLE, false}};
    for (const auto &kind : kinds) {
        size_t size = 0;
        if (CairnSummarySize(data_->handle, kind.first, &size) && size > 0) {
            parts.push_back(FeatureMemory::Builder::Build(MemoryType::MEMORY_TYPE_DEFAULT, size, kind.second));
        }
    }
    return parts;
}

Status CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool &v) const
{
    v = CairnSummaryRefreshable(data_->handle);
    return SUCCESS;
}

Status CompiledGraphSummary::GetStreamNum(size_t &num) const
{
    return data_->Size(CAIRN_SIZE_STREAMS, "GetStreamNum", num);
}

Status CompiledGraphSummary::GetEventNum(size_t &num) const
{
    return data_->Size(CAIRN_SIZE_EVENTS, "GetEventNum", num);
}

static std::vector<TensorDesc> outputs(const CairnSummary *summary)
{
    std::vector<TensorDesc> descs(CairnSummaryOutputs(summary));
    for (size_t at = 0; at < descs.size(); ++at) {
        CairnSummaryOutput(summary, at, &descs[at], cairn::store_desc);
    }
    return descs;
}

Status CompiledGraphSummary::GetOutputShapes(std::vector<ge::Shape> &shapes) const
{
    shapes.clear();
    for (const TensorDesc &desc : outputs(data_->handle)) {
        shapes.push_back(desc.GetShape());
    }
    return SUCCESS;
}

Status CompiledGraphSummary::GetOutputDtypes(std::vector<ge::DataType> &dtypes) const
{
    dtypes.clear();
    for (const TensorDesc &desc : outputs(data_->handle)) {
        dtypes.push_back(desc.GetDataType());
    }
    return SUCCESS;
}

Status CompiledGraphSummary::GetIOIndexesWithSameAddr(std::vector<std::pair<uint32_t, uint32_t>> &io_indexes) const
{
    const int64_t *pairs = nullptr;
    const size_t count = CairnSummaryShared(data_->handle, &pairs);
    io_indexes.clear();
    for (size_t at = 0; at < count; ++at) {
        io_indexes.emplace_back(static_cast<uint32_t>(pairs[2 * at]), static_cast<uint32_t>(pairs[2 * at + 1]));
    }
    return SUCCESS;
}

Status CompiledGraphSummary::GetExternalWeightPaths(std::vector<ExternalWeightDescPtr> &paths) const
{
    paths.clear();
    return SUCCESS;
}

// Sets the value of the one stream that a graph has: it runs on the stream that it is given.
template <typename T>
static Status set_for_graph(const CompiledGraphSummary &summary, std::map<AscendString, std::vector<T>> &by_graph,
                            const T &value)
{
    const std::string name = "graph_" + std::to_string(CompiledGraphSummary::Builder::GraphOf(summary));
    by_graph[AscendString(name.c_str())].assign(1, value);
    return SUCCESS;
}

extern "C" {

Status GEStreamAllocationSummaryGetStringInfos(const CompiledGraphSummary &compiled_graph_summary,
                                               std::map<AscendString, std::vector<AscendString>> &graph_to_string_infos)
{
    return set_for_graph(compiled_graph_summary, graph_to_string_infos,
                         AscendString("logic_stream_id: 0, user_stream_label: , is_assigned_by_user_stream_pass: false, "
                                      "attached_stream_ids: , physical_model_stream_num: 1, "
                                      "hccl_followed_stream_num: 0."));
}

Status GEStreamAllocationSummaryGetLogicalStreamIds(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<int64_t>> &graph_to_logical_stream_ids)
{
    return set_for_graph(compiled_graph_summary, graph_to_logical_stream_ids, int64_t(0));
}

Status GEStreamAllocationSummaryGetUsrStreamLabels(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<AscendString>> &graph_to_user_stream_labels)
{
    return set_for_graph(compiled_graph_summary, graph_to_user_stream_labels, AscendString(""));
}

Status GEStreamAllocationSummaryGetIsAssignedByStreamPass(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<bool>> &graph_to_is_assigned_by_stream_pass)
{
    return set_for_graph(compiled_graph_summary, graph_to_is_assigned_by_stream_pass, false);
}

Status GEStreamAllocationSummaryGetAttachedStreamIds(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<std::vector<int64_t>>> &graph_to_attached_stream_ids)
{
    return set_for_graph(compiled_graph_summary, graph_to_attached_stream_ids, std::vector<int64_t>());
}

Status GEStreamAllocationSummaryGetPhysicalStreamNums(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<size_t>> &graph_to_physical_stream_nums)
{
    return set_for_graph(compiled_graph_summary, graph_to_physical_stream_nums, size_t(1));
}

Status GEStreamAllocationSummaryGetHcclFollowedStreamNums(
    const CompiledGraphSummary &compiled_graph_summary,
    std::map<AscendString, std::vector<int64_t>> &graph_to_hccl_followed_stream_nums)
{
    return set_for_graph(compiled_graph_summary, graph_to_hccl_followed_stream_nums, int64_t(0));
}

}  // extern "C"

}  // namespace ge
