/*
 * Sessions of the graph engine, version 2. C++ only. Link with -lge_runner_v2.
 *
 * As version 1, but tensors are gert::Tensor, and every way to run compiles and loads by itself. A graph is run in
 * one way only. After a failure the text is in GEGetErrorMsgV3.
 */
#ifndef CAIRN_GE_GE_API_V2_H
#define CAIRN_GE_GE_API_V2_H

#ifdef __cplusplus

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exe_graph/runtime/tensor.h"
#include "ge/ge_allocator.h"
#include "ge/ge_api_error_codes.h"
#include "ge/ge_api_types.h"
#include "ge/ge_graph_compile_summary.h"
#include "ge/ge_ir_build.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace ge {

using RunCallback = std::function<Status(uint32_t graph_id, const std::map<AscendString, gert::Tensor> &params_list)>;

/** Starts the engine with options for all sessions. */
Status GEInitializeV2(const std::map<AscendString, AscendString> &options);
/** Ends all sessions and the engine. */
Status GEFinalizeV2();
/* The texts of this thread's failures or warnings since the last call, which forgets them. */
ge::AscendString GEGetErrorMsgV3();
ge::AscendString GEGetWarningMsgV3();

/** Graphs by their ids, and how they are compiled, loaded and run. Copies are the same session. */
class GeSession {
public:
    /** Options here win over those of GEInitializeV2. If it fails, every function fails. */
    explicit GeSession(const std::map<AscendString, AscendString> &options);
    /** The last copy waits for what runs and removes all graphs. */
    ~GeSession();

    /* Adds a graph under an id that is not in use. The session and the caller share it; Clone makes a deep copy. */
    Status AddGraph(uint32_t graph_id, const Graph &graph);
    Status AddGraph(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options);
    Status AddGraphClone(uint32_t graph_id, const Graph &graph);
    Status AddGraphClone(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options);
    /** Unloads and forgets it; the memory that it took goes back. */
    Status RemoveGraph(uint32_t graph_id);
    bool IsGraphNeedRebuild(uint32_t graph_id);
    uint64_t GetSessionId() const;

    /** Compiles; takes no memory of the device. */
    Status CompileGraph(uint32_t graph_id);
    /** The same, with other shapes, formats and types of the inputs; an empty list leaves them. */
    Status CompileGraph(uint32_t graph_id, const std::vector<ge::Tensor> &inputs);
    /** Compiles if that was not done, and loads. A null stream is for RunGraph and RunGraphAsync. */
    Status LoadGraph(const uint32_t graph_id, const std::map<AscendString, AscendString> &options, void *stream) const;
    /** JSON of a loaded graph for chrome://tracing. */
    Status GraphDebugJSONPrint(const uint32_t graph_id, uint32_t flags, AscendString &json_result) const;

    /** Runs and waits; outputs are made on the host. */
    Status RunGraph(uint32_t graph_id, const std::vector<gert::Tensor> &inputs, std::vector<gert::Tensor> &outputs);
    /** Puts a run on the stream. Inputs and outputs must stay until that is done. */
    Status RunGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<gert::Tensor> &inputs,
                                   std::vector<gert::Tensor> &outputs);
    /** Runs in the background, then calls `callback` once. Inputs must stay until then. */
    Status RunGraphAsync(uint32_t graph_id, const std::vector<gert::Tensor> &inputs, RunAsyncCallbackV2 callback);
    /** SUCCESS for the keys "Summary" and "Save"; no operator here calls back. */
    Status RegisterCallBackFunc(const char *key, const RunCallback &callback);

    /** What a compiled graph needs; null before that. */
    CompiledGraphSummaryPtr GetCompiledGraphSummary(uint32_t graph_id);
    /* Memory of the application for a compiled static graph: at least the summary's bytes. */
    Status SetGraphConstMemoryBase(uint32_t graph_id, const void *const memory, size_t size);
    Status UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size);
    Status SetGraphFixedFeatureMemoryBaseWithType(uint32_t graph_id, MemoryType type, const void *const memory,
                                                  size_t size);
    Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size);

    /** From here on, graphs on the stream take their memory from this allocator; the last one registered counts. */
    Status RegisterExternalAllocator(const void *const stream, AllocatorPtr allocator) const;
    /** Ends that; SUCCESS also where nothing was registered. */
    Status UnregisterExternalAllocator(const void *const stream) const;

    /** The bytes of a compiled graph, with the shapes and types that were inferred: what
     *  Graph::LoadFromSerializedModelArray reads. FAILED before it is compiled. */
    Status GetCompiledModel(uint32_t graph_id, ModelBufferData &model_buffer);

private:
    class Life;
    std::shared_ptr<Life> impl_;
};

}  // namespace ge

/** An attribute by which nodes bring their own rule of inference. */
#define INFERENCE_RULE "_inference_rule"

extern "C" {

/** Whether graphs may hold what is named; no to everything. */
bool IsIrRepSupport(const char *rep);

/** What a type declares: names of inputs and outputs with required, optional or dynamic; attributes with VT_INT ... */
ge::Status GetRegisteredIrDef(const char *op_type, std::vector<std::pair<ge::AscendString, ge::AscendString>> &inputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>> &outputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>> &attrs);

}  // extern "C"

#endif

#endif
