// ge::GeSession: a session of the engine that ends with the last copy.

#include <cstring>

#include "allocator.h"
#include "calls.h"
#include "ge/ge_api_v2.h"
#include "summary.h"

namespace ge {

using cairn::success_or_failed;

// The engine's session, which ends with this object.
class GeSession::Life {
public:
    explicit Life(const std::map<AscendString, AscendString> &options)
    {
        const cairn::Options texts(options);
        (void)CairnSessionNew(texts.data(), texts.count(), &id);
    }
    ~Life()
    {
        if (id != 0) {
            (void)CairnSessionEnd(id);
        }
    }
    Life(const Life &) = delete;
    Life &operator=(const Life &) = delete;

    uint64_t id = 0;
};

GeSession::GeSession(const std::map<AscendString, AscendString> &options) : impl_(std::make_shared<Life>(options)) {}

GeSession::~GeSession() = default;

Status GeSession::AddGraph(uint32_t graph_id, const Graph &graph)
{
    return cairn::add_graph(impl_->id, graph_id, graph, {}, false);
}

Status GeSession::AddGraph(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options)
{
    return cairn::add_graph(impl_->id, graph_id, graph, options, false);
}

Status GeSession::AddGraphClone(uint32_t graph_id, const Graph &graph)
{
    return cairn::add_graph(impl_->id, graph_id, graph, {}, true);
}

Status GeSession::AddGraphClone(uint32_t graph_id, const Graph &graph,
                                const std::map<AscendString, AscendString> &options)
{
    return cairn::add_graph(impl_->id, graph_id, graph, options, true);
}

Status GeSession::RemoveGraph(uint32_t graph_id)
{
    return success_or_failed(CairnSessionRemoveGraph(impl_->id, graph_id));
}

bool GeSession::IsGraphNeedRebuild(uint32_t graph_id)
{
    return CairnSessionNeedsRebuild(impl_->id, graph_id);
}

uint64_t GeSession::GetSessionId() const
{
    return impl_->id;
}

Status GeSession::CompileGraph(uint32_t graph_id)
{
    return CompileGraph(graph_id, {});
}

Status GeSession::CompileGraph(uint32_t graph_id, const std::vector<ge::Tensor> &inputs)
{
    cairn::Descriptions descriptions(inputs);
    const CairnStatus status =
        CairnSessionCompileGraph(impl_->id, graph_id, true, descriptions.borrowed(), descriptions.count());
    return status == PARAM_INVALID ? PARAM_INVALID : success_or_failed(status);
}

Status GeSession::LoadGraph(const uint32_t graph_id, const std::map<AscendString, AscendString> &options,
                            void *stream) const
{
    return cairn::load_graph(impl_->id, graph_id, options, stream, true);
}

Status GeSession::GraphDebugJSONPrint(const uint32_t graph_id, uint32_t flags, AscendString &json_result) const
{
    return cairn::json(impl_->id, graph_id, flags, json_result);
}

Status GeSession::RunGraph(uint32_t graph_id, const std::vector<gert::Tensor> &inputs,
                           std::vector<gert::Tensor> &outputs)
{
    return cairn::run_status(cairn::run(impl_->id, graph_id, CAIRN_RUN_HOST_V2, nullptr, inputs, outputs));
}

Status GeSession::RunGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<gert::Tensor> &inputs,
                                          std::vector<gert::Tensor> &outputs)
{
    return cairn::run_status(cairn::run(impl_->id, graph_id, CAIRN_RUN_STREAM_V2, stream, inputs, outputs));
}

Status GeSession::RunGraphAsync(uint32_t graph_id, const std::vector<gert::Tensor> &inputs, RunAsyncCallbackV2 callback)
{
    return cairn::run_async(impl_->id, graph_id, true, inputs, std::move(callback));
}

Status GeSession::RegisterCallBackFunc(const char *key, const RunCallback &callback)
{
    return success_or_failed(CairnSessionCallback(impl_->id, cairn::text(key), callback == nullptr));
}

CompiledGraphSummaryPtr GeSession::GetCompiledGraphSummary(uint32_t graph_id)
{
    return CompiledGraphSummary::Builder::Build(CairnSessionSummary(impl_->id, graph_id), graph_id);
}

Status GeSession::SetGraphConstMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return CairnSessionSetBase(impl_->id, graph_id, CAIRN_BASE_CONST, false, 0, memory, size);
}

Status GeSession::UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return CairnSessionSetBase(impl_->id, graph_id, CAIRN_BASE_FEATURE, false, 0, memory, size);
}

Status GeSession::SetGraphFixedFeatureMemoryBaseWithType(uint32_t graph_id, MemoryType type, const void *const memory,
                                                         size_t size)
{
    return CairnSessionSetBase(impl_->id, graph_id, CAIRN_BASE_FIXED, true, static_cast<int32_t>(type), memory, size);
}

Status GeSession::UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size)
{
    return CairnSessionSetBase(impl_->id, graph_id, CAIRN_BASE_REFRESHABLE, false, 0, memory, size);
}

Status GeSession::RegisterExternalAllocator(const void *const stream, AllocatorPtr allocator) const
{
    return success_or_failed(cairn::register_allocator(impl_->id, stream, allocator));
}

Status GeSession::UnregisterExternalAllocator(const void *const stream) const
{
    return success_or_failed(CairnSessionUnregister(impl_->id, stream));
}

static void store_model(void *context, CairnText bytes)
{
    ModelBufferData *const model = static_cast<ModelBufferData *>(context);
    model->data.reset(new uint8_t[bytes.size], std::default_delete<uint8_t[]>());
    model->length = bytes.size;
    std::memcpy(model->data.get(), bytes.data, bytes.size);
}

Status GeSession::GetCompiledModel(uint32_t graph_id, ModelBufferData &model_buffer)
{
    return success_or_failed(CairnSessionModel(impl_->id, graph_id, &model_buffer, store_model));
}

}  // namespace ge
