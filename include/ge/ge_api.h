/*
 * Sessions of the graph engine, version 1. C++ only. Link with -lge_runner.
 *
 *     GEInitialize, Session, AddGraph, one of three ways to run, RemoveGraph, ~Session, GEFinalize
 *
 * BuildGraph goes with RunGraph and RunGraphAsync; CompileGraph with RunGraphWithStreamAsync, or with LoadGraph and
 * ExecuteGraphWithStreamAsync. After a failure the text is in GEGetErrorMsgV2.
 */
#ifndef CAIRN_GE_GE_API_H
#define CAIRN_GE_GE_API_H

#ifdef __cplusplus

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exe_graph/runtime/tensor.h"
#include "ge/ge_allocator.h"
#include "ge/ge_api_error_codes.h"
#include "ge/ge_api_types.h"
#include "ge/ge_graph_compile_summary.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace ge {

class DataFlowInfo;
class FlowMsg;
struct RawData;
using FlowMsgPtr = std::shared_ptr<FlowMsg>;

typedef uint32_t (*pCallBackFunc)(uint32_t graph_id, const std::map<std::string, ge::Tensor> &params_list);

namespace session {
typedef uint32_t (*pCallBackFunc)(uint32_t graph_id, const std::map<AscendString, ge::Tensor> &params_list);
}

/** Starts the engine with options for all sessions. */
Status GEInitialize(const std::map<std::string, std::string> &options);
Status GEInitialize(const std::map<AscendString, AscendString> &options);
/** Ends all sessions and the engine. */
Status GEFinalize();

/* The texts of this thread's failures or warnings since the last call, which forgets them. */
std::string GEGetErrorMsg();
ge::AscendString GEGetErrorMsgV2();
std::string GEGetWarningMsg();
ge::AscendString GEGetWarningMsgV2();

/** Graphs by their ids, and how they are compiled, loaded and run. */
class Session {
public:
    /** Options here win over those of GEInitialize. If it fails, every function fails. */
    explicit Session(const std::map<std::string, std::string> &options);
    explicit Session(const std::map<AscendString, AscendString> &options);
    /** Removes all graphs; what is queued goes on. */
    ~Session();

    /* Adds a graph under an id that is not in use. The session and the caller share it; WithCopy makes a deep copy. */
    Status AddGraph(uint32_t graph_id, const Graph &graph);
    Status AddGraph(uint32_t graph_id, const Graph &graph, const std::map<std::string, std::string> &options);
    Status AddGraph(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options);
    Status AddGraphWithCopy(uint32_t graph_id, const Graph &graph);
    Status AddGraphWithCopy(uint32_t graph_id, const Graph &graph, const std::map<AscendString, AscendString> &options);
    /** Unloads and forgets it; the memory that it took goes back. */
    Status RemoveGraph(uint32_t graph_id);

    /** Compiles for these inputs and makes it ready for RunGraph. */
    Status BuildGraph(uint32_t graph_id, const std::vector<InputTensorInfo> &inputs);
    Status BuildGraph(uint32_t graph_id, const std::vector<ge::Tensor> &inputs);
    /** Compiles; takes no memory of the device. FAILED for a graph that names variables. */
    Status CompileGraph(uint32_t graph_id);
    /** Loads a compiled graph for a stream. Of the options only frozen and host inputs count. */
    Status LoadGraph(const uint32_t graph_id, const std::map<AscendString, AscendString> &options, void *stream) const;

    /** Runs and waits: inputs on the host, and outputs that the engine makes on the host. */
    Status RunGraph(uint32_t graph_id, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs);
    /** Runs in the background, then calls `callback` once. */
    Status RunGraphAsync(uint32_t graph_id, const std::vector<ge::Tensor> &inputs, RunAsyncCallback callback);
    /** Compiles and loads if that was not done, and puts the run on the stream. Outputs are valid once that is done. */
    Status RunGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<Tensor> &inputs,
                                   std::vector<Tensor> &outputs);
    /** Puts a run of a loaded graph on the stream. */
    Status ExecuteGraphWithStreamAsync(uint32_t graph_id, void *stream, const std::vector<gert::Tensor> &inputs,
                                       std::vector<gert::Tensor> &outputs);

    /** What a compiled graph needs; null before that. */
    CompiledGraphSummaryPtr GetCompiledGraphSummary(uint32_t graph_id);
    /* Memory of the application for a compiled static graph: at least the summary's bytes. */
    Status SetGraphConstMemoryBase(uint32_t graph_id, const void *const memory, size_t size);
    Status UpdateGraphFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size);
    Status SetGraphFixedFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size);
    Status SetGraphFixedFeatureMemoryBaseWithType(uint32_t graph_id, MemoryType type, const void *const memory,
                                                  size_t size);
    Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t graph_id, const void *const memory, size_t size);

    /** From here on, graphs on the stream take their memory from this allocator; the last one registered counts. */
    Status RegisterExternalAllocator(const void *const stream, AllocatorPtr allocator) const;
    /** Ends that; SUCCESS also where nothing was registered. */
    Status UnregisterExternalAllocator(const void *const stream) const;

    bool IsGraphNeedRebuild(uint32_t graph_id);
    uint64_t GetSessionId() const;
    /** JSON of a loaded graph for chrome://tracing. */
    Status GraphDebugJSONPrint(const uint32_t graph_id, uint32_t flags, AscendString &json_result) const;

    /* The values of variables as tensors on the host, each with its name in its description, when all that the
     * session submitted before is done. FAILED for a name that no loaded graph had; without names all of them, in the
     * order of their names (CANN does not say what it does then). */
    Status GetVariables(const std::vector<std::string> &var_names, std::vector<Tensor> &var_values);
    Status GetVariables(const std::vector<AscendString> &var_names, std::vector<Tensor> &var_values);
    /* SUCCESS for the keys "Summary" and "Save"; no operator here calls back. */
    Status RegisterCallBackFunc(const std::string &key, const pCallBackFunc &callback);
    Status RegisterCallBackFunc(const char *key, const session::pCallBackFunc &callback);

    /* FAILED with a text: graphs here have no shards; devices lose no pages; data flow is not part of the engine. */
    Status ShardGraphsToFile(const char_t *file_path = "./") const;
    Status ShardGraphs() const;
    Status SaveGraphsToPb(const char_t *file_path) const;
    Status PaRemapped(const uint64_t va, const uint64_t new_pa, const uint64_t len) const;
    Status FeedDataFlowGraph(uint32_t graph_id, const std::vector<Tensor> &inputs, const DataFlowInfo &info,
                             int32_t timeout);
    Status FeedDataFlowGraph(uint32_t graph_id, const std::vector<uint32_t> &indexes, const std::vector<Tensor> &inputs,
                             const DataFlowInfo &info, int32_t timeout);
    Status FeedDataFlowGraph(uint32_t graph_id, const std::vector<FlowMsgPtr> &inputs, int32_t timeout);
    Status FeedDataFlowGraph(uint32_t graph_id, const std::vector<uint32_t> &indexes,
                             const std::vector<FlowMsgPtr> &inputs, int32_t timeout);
    Status FeedRawData(uint32_t graph_id, const std::vector<RawData> &raw_data_list, const uint32_t index,
                       const DataFlowInfo &info, int32_t timeout);
    Status FetchDataFlowGraph(uint32_t graph_id, std::vector<Tensor> &outputs, DataFlowInfo &info, int32_t timeout);
    Status FetchDataFlowGraph(uint32_t graph_id, const std::vector<uint32_t> &indexes, std::vector<Tensor> &outputs,
                              DataFlowInfo &info, int32_t timeout);
    Status FetchDataFlowGraph(uint32_t graph_id, std::vector<FlowMsgPtr> &outputs, int32_t timeout);
    Status FetchDataFlowGraph(uint32_t graph_id, const std::vector<uint32_t> &indexes, std::vector<FlowMsgPtr> &outputs,
                              int32_t timeout);

private:
    uint64_t sessionId_{0};
};

}  // namespace ge

extern "C" {

/* Session's functions for programs that look them up by name. */
ge::Status GeSessionLoadGraph(ge::Session &session, uint32_t graph_id,
                              const std::map<ge::AscendString, ge::AscendString> &options, void *stream);
ge::Status GeSessionExecuteGraphWithStreamAsync(ge::Session &session, uint32_t graph_id, void *stream,
                                                const std::vector<gert::Tensor> &inputs,
                                                std::vector<gert::Tensor> &outputs);
ge::Status GeSessionGraphDebugJSONPrint(ge::Session &session, uint32_t graph_id, uint32_t flags,
                                        ge::AscendString &json_result);

/** What a type declares: names of inputs and outputs with required, optional or dynamic; attributes with VT_INT ... */
ge::Status GetRegisteredIrDef(const char *op_type, std::vector<std::pair<ge::AscendString, ge::AscendString>> &inputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>> &outputs,
                              std::vector<std::pair<ge::AscendString, ge::AscendString>> &attrs);
ge::Status GetRegisteredIrDefV2(const char *op_type, std::vector<std::pair<ge::AscendString, ge::AscendString>> &inputs,
                                std::vector<std::pair<ge::AscendString, ge::AscendString>> &outputs,
                                std::vector<std::pair<ge::AscendString, ge::AscendString>> &attrs);

}  // extern "C"

#endif

#endif
