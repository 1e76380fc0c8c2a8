// ge::Session: the id of a session of the engine.

#include "allocator.h"
#include "calls.h"
#include "ge/ge_api.h"
#include "summary.h"

namespace ge {

using cairn::success_or_failed;
using cairn::unsupported;

Session::Session(const std::map<AscendString, AscendString> &options)
{
    const cairn::Options texts(options);
    (void)CairnSessionNew(texts.data(), texts.count(), &sessionId_);
}

Session::~Session()
{
    if (sessionId_ != 0) {
        (void)CairnSessionEnd(sessionId_);
    }
}

Status Session::AddGraph(uint32_t graph_id, const Graph &graph)
{
    return cairn::add_graph(sessionId_, graph_id, graph, {}, false);
}

Status Session::AddGraph(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options)
{
    return cairn::add_graph(sessionId_, graph_id, graph, options, false);
}

Status Session::AddGraphWithCopy(uint32_t graph_id, const Graph &graph)
{
    return cairn::add_graph(sessionId_, graph_id, graph, {}, true);
}

Status Session::AddGraphWithCopy(uint32_t graph_id, const Graph &graph,
                                 const std::map<AscendString, AscendString> &options)
{
    return cairn::add_graph(sessionId_, graph_id, graph, options, true);
}

Status Session::RemoveGraph(uint32_t graph_id)
{
    return success_or_failed(CairnSessionRemoveGraph(sessionId_, graph_id));
}

Status Session::BuildGraph(uint32_t graph_id, const std::vector<InputTensorInfo> &inputs)
{
    cairn::Descriptions descriptions;
    for (const InputTensorInfo &input : inputs) {
        descriptions.Add(TensorDesc(Shape(input.dims), FORMAT_ND, static_cast<DataType>(input.data_type)));
    }
    return success_or_failed(CairnSessionBuildGraph(sessionId_, graph_id, descriptions.borrowed(), descriptions.count()));
}

Status Session::BuildGraph(uint32_t graph_id, const std::vector<ge::Tensor> &inputs)
{
    cairn::Descriptions descriptions(inputs);
    return success_or_failed(CairnSessionBuildGraph(sessionId_, graph_id, descriptions.borrowed(), descriptions.count()));
}

Status Session::CompileGraph(uint32_t graph_id)
{
    const CairnStatus status = CairnSessionCompileGraph(sessionId_, graph_id, false, nullptr, 0);
    return status == PARAM_INVALID ? PARAM_INVALID : success_or_failed(status);
}

Status Session::LoadGraph(const uint32_t graph_id, const std::map<AscendString, AscendString> &options,
                          void *stream) const
{
    return cairn::load_graph(sessionId_, graph_id, options, stream, false);
}

Status Session::RunGraph(uint32_t graph_id, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs)
{
    std::vector<Tensor> results;
    const CairnStatus status = cairn::run(sessionId_, graph_id, CAIRN_RUN_HOST, nullptr, inputs, results);
    if (status == 0) {
        outputs.swap(results);
    }
    return cairn::run_status(status);
}

Status Session::RunGraphAsync(uint32_t graph_id, const std::vector<ge::Tensor> &inputs, RunAsyncCallback callback)
{
    return cairn::run_async(sessionId_, graph_id, false, inputs, std::move(callback));
}

Status Session::RunGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<Tensor> &inputs,
                                        std::vector<Tensor> &outputs)
{
    return cairn::run_status(cairn::run(sessionId_, graph_id, CAIRN_RUN_STREAM, stream, inputs, outputs));
}

Status Session::ExecuteGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<gert::Tensor> &inputs,
                                            std::vector<gert::Tensor> &outputs)
{
    return cairn::run_status(cairn::run(sessionId_, graph_id, CAIRN_RUN_LOADED, stream, inputs, outputs));
}

CompiledGraphSummaryPtr Session::GetCompiledGraphSummary(uint32_t graph_id)
{
    return CompiledGraphSummary::Builder::Build(CairnSessionSummary(sessionId_, graph_id), graph_id);
}

static Status set_base(uint64_t session, uint32_t graph_id, CairnBase base, const void *memory, size_t size)
{
    return CairnSessionSetBase(session, graph_id, base, false, 0, memory, size);
}

Status Session::SetGraphConstMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return set_base(sessionId_, graph_id, CAIRN_BASE_CONST, memory, size);
}

Status Session::UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return set_base(sessionId_, graph_id, CAIRN_BASE_FEATURE, memory, size);
}

Status Session::SetGraphFixedFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return set_base(sessionId_, graph_id, CAIRN_BASE_FIXED, memory, size);
}

Status Session::SetGraphFixedFeatureMemoryBaseWithType(uint32_t graph_id, MemoryType type, const void *const memory,
                                                       size_t size)
{
    return CairnSessionSetBase(sessionId_, graph_id, CAIRN_BASE_FIXED, true, static_cast<int32_t>(type), memory, size);
}

Status Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return set_base(sessionId_, graph_id, CAIRN_BASE_REFRESHABLE, memory, size);
}

Status Session::RegisterExternalAllocator(const void *const stream, AllocatorPtr allocator) const
{
    return success_or_failed(cairn::register_allocator(sessionId_, stream, allocator));
}

Status Session::UnregisterExternalAllocator(const void *const stream) const
{
    return success_or_failed(CairnSessionUnregister(sessionId_, stream));
}

bool Session::IsGraphNeedRebuild(uint32_t graph_id)
{
    return CairnSessionNeedsRebuild(sessionId_, graph_id);
}

uint64_t Session::GetSessionId() const
{
    return sessionId_;
}

Status Session::GraphDebugJSONPrint(const uint32_t graph_id, uint32_t flags, AscendString &json_result) const
{
    return cairn::json(sessionId_, graph_id, flags, json_result);
}

Status Session::GetVariables(const std::vector<AscendString> &var_names, std::vector<Tensor> &var_values)
{
    std::vector<CairnText> requested;
    for (const AscendString &name : var_names) {
        requested.push_back(cairn::text(name));
    }
    std::vector<AscendString> names;
    CairnOutputs *result = nullptr;
    const CairnStatus status =
        CairnSessionVariables(sessionId_, requested.data(), requested.size(), &names, cairn::append_text, &result);
    if (status != 0) {
        return FAILED;
    }
    std::vector<Tensor> values;
    cairn::take_outputs(result, values);
    for (size_t at = 0; at < values.size(); ++at) {
        TensorDesc desc = values[at].GetTensorDesc();
        desc.SetName(names[at].GetString());
        (void)values[at].SetTensorDesc(desc);
    }
    var_values.swap(values);
    return SUCCESS;
}

Status Session::RegisterCallBackFunc(const char *key, const session::pCallBackFunc &callback)
{
    return success_or_failed(CairnSessionCallback(sessionId_, cairn::text(key), callback == nullptr));
}

static const char *const NO_SHARDS = "graphs here are not sharded";

Status Session::ShardGraphsToFile(const char_t *) const
{
    return unsupported("Session::ShardGraphsToFile", NO_SHARDS);
}

Status Session::ShardGraphs() const
{
    return unsupported("Session::ShardGraphs", NO_SHARDS);
}

Status Session::SaveGraphsToPb(const char_t *) const
{
    return unsupported("Session::SaveGraphsToPb", "save each graph with Graph::SaveToFile");
}

Status Session::PaRemapped(const uint64_t, const uint64_t, const uint64_t) const
{
    return unsupported("Session::PaRemapped", "devices here lose no pages");
}

static const char *const NO_DATA_FLOW = "data flow is not part of this engine";

Status Session::FeedDataFlowGraph(uint32_t, const std::vector<Tensor> &, const DataFlowInfo &, int32_t)
{
    return unsupported("Session::FeedDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FeedDataFlowGraph(uint32_t, const std::vector<uint32_t> &, const std::vector<Tensor> &,
                                  const DataFlowInfo &, int32_t)
{
    return unsupported("Session::FeedDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FeedDataFlowGraph(uint32_t, const std::vector<FlowMsgPtr> &, int32_t)
{
    return unsupported("Session::FeedDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FeedDataFlowGraph(uint32_t, const std::vector<uint32_t> &, const std::vector<FlowMsgPtr> &, int32_t)
{
    return unsupported("Session::FeedDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FeedRawData(uint32_t, const std::vector<RawData> &, const uint32_t, const DataFlowInfo &, int32_t)
{
    return unsupported("Session::FeedRawData", NO_DATA_FLOW);
}

Status Session::FetchDataFlowGraph(uint32_t, std::vector<Tensor> &, DataFlowInfo &, int32_t)
{
    return unsupported("Session::FetchDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FetchDataFlowGraph(uint32_t, const std::vector<uint32_t> &, std::vector<Tensor> &, DataFlowInfo &,
                                   int32_t)
{
    return unsupported("Session::FetchDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FetchDataFlowGraph(uint32_t, std::vector<FlowMsgPtr> &, int32_t)
{
    return unsupported("Session::FetchDataFlowGraph", NO_DATA_FLOW);
}

Status Session::FetchDataFlowGraph(uint32_t, const std::vector<uint32_t> &, std::vector<FlowMsgPtr> &, int32_t)
{
    return unsupported("Session::FetchDataFlowGraph", NO_DATA_FLOW);
}

}  // namespace ge
