// The private C interface of libascendcl.so, for libge_runner.so (the C++ classes of ge:: and gert::) and, in its last
// part, for the Python module acl. Not installed; all sides are always of one build.
//
// Handles are owned: who gets one from a function that makes it releases it, once. Texts, values and
// descriptions that go in are borrowed for the call. What comes out of the engine is shown to a function of
// the caller (`callback`), for the length of that call. Nothing throws in either direction.
//
// A status is a ge::Status: 0, or a code. After a failure the engine keeps an error message for the calling thread.
#ifndef CAIRN_CPP_BRIDGE_H
#define CAIRN_CPP_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t CairnStatus;

typedef struct CairnOperator CairnOperator;
typedef struct CairnGraph CairnGraph;
typedef struct CairnNode CairnNode;
typedef struct CairnSummary CairnSummary;
typedef struct CairnOutputs CairnOutputs;
typedef struct CairnBlock CairnBlock;

// Bytes with a length; not ended by NUL.
typedef struct CairnText {
    const char *data;
    size_t size;
} CairnText;

typedef void (*CairnTextCallback)(void *context, CairnText text);

// ---------------------------------------------------------------------------------------------------------
// Descriptions, tensors, attribute values

// dtype, format and placement are the numbers of ge::DataType, ge::Format and ge::Placement. A dim of -1 is
// unknown; the one dim -2 is an unknown rank.
typedef struct CairnDesc {
    CairnText name;
    int32_t dtype;
    int32_t format;
    int32_t origin_format;
    int32_t placement;
    const int64_t *dims;
    size_t rank;
    const int64_t *origin_dims;
    size_t origin_rank;
} CairnDesc;

typedef void (*CairnDescCallback)(void *context, const CairnDesc *desc);

typedef struct CairnTensor {
    CairnDesc desc;
    const void *data;
    size_t bytes;
} CairnTensor;

// The numbers of AttrDef.ListValue.val_type.
enum CairnKind {
    CAIRN_KIND_NONE = 0,
    CAIRN_KIND_STRING = 1,
    CAIRN_KIND_INT = 2,
    CAIRN_KIND_FLOAT = 3,
    CAIRN_KIND_BOOL = 4,
    CAIRN_KIND_BYTES = 5,
    CAIRN_KIND_TENSOR_DESC = 6,
    CAIRN_KIND_TENSOR = 7,
    CAIRN_KIND_GRAPH = 8,
    CAIRN_KIND_NAMED = 9,
    CAIRN_KIND_DATA_TYPE = 10,
    CAIRN_KIND_INT_LISTS = 11,
    CAIRN_KIND_FLOAT_LISTS = 12,
};

// An attribute's value. One of the arrays has `count` elements, as `kind` says: `ints` for INT, BOOL (0, 1)
// and DATA_TYPE, `floats`, `texts` for STRING and BYTES, `tensors` for TENSOR and TENSOR_DESC (no data). Lists
// of lists (INT_LISTS, FLOAT_LISTS) have `count` lengths in `lengths` and all elements one after the other. NAMED (a
// named set of attributes) has its name in texts[0] and `count` pairs of names[i], values[i]. GRAPH has
// graphs[i].
typedef struct CairnValue {
    uint32_t kind;
    bool is_list;
    size_t count;
    const int64_t *ints;
    const float *floats;
    const CairnText *texts;
    const CairnTensor *tensors;
    const size_t *lengths;
    const CairnText *names;
    const struct CairnValue *values;
    CairnGraph *const *graphs;
} CairnValue;

typedef void (*CairnValueCallback)(void *context, const CairnValue *value);

// ---------------------------------------------------------------------------------------------------------
// Operators: nodes before they are in a graph

enum CairnInput { CAIRN_INPUT_REQUIRED = 0, CAIRN_INPUT_OPTIONAL = 1, CAIRN_INPUT_DYNAMIC = 2 };

// A new operator with nothing registered.
CairnOperator *CairnOperatorNew(CairnText name, CairnText type);
// One more owner of the same operator.
CairnOperator *CairnOperatorRetain(CairnOperator *op);
void CairnOperatorRelease(CairnOperator *op);
void CairnOperatorName(const CairnOperator *op, void *context, CairnTextCallback callback);
void CairnOperatorType(const CairnOperator *op, void *context, CairnTextCallback callback);

// What the IR declares of it. A dynamic input or output has no port until it is grown.
void CairnOperatorAddInput(CairnOperator *op, CairnText name, enum CairnInput kind);
void CairnOperatorAddOutput(CairnOperator *op, CairnText name, bool is_dynamic);
// `type` is the IR's name of it (VT_INT, VT_LIST_INT, ...). `value` is the default, or null for a required one.
void CairnOperatorAddAttr(CairnOperator *op, CairnText name, CairnText type, const CairnValue *value);
// Fills a new operator from the operator table: inputs, outputs, attributes. False if the type is unknown.
bool CairnOperatorFill(CairnOperator *op);
// Whether the operator table has the type, and all types there are.
bool CairnOperatorExists(CairnText type);
void CairnOperatorTypes(void *context, CairnTextCallback callback);

// Makes `count` ports `name0`, `name1`, ... of a dynamic input or output, after those it has.
CairnStatus CairnOperatorGrowInput(CairnOperator *op, CairnText name, size_t count);
CairnStatus CairnOperatorGrowOutput(CairnOperator *op, CairnText name, size_t count);
// The number of ports; what was grown counts each.
size_t CairnOperatorInputs(const CairnOperator *op);
size_t CairnOperatorOutputs(const CairnOperator *op);
// How many ports a dynamic input or output has; -1 if there is none of that name.
int64_t CairnOperatorDynamicCount(const CairnOperator *op, CairnText name, bool is_output);
// The index of a name; -1 if there is none.
int64_t CairnOperatorPortIndex(const CairnOperator *op, CairnText name, bool is_output);
bool CairnOperatorPortName(const CairnOperator *op, size_t index, bool is_output, void *context, CairnTextCallback callback);

// Feeds an input from another operator's output, and keeps that operator.
CairnStatus CairnOperatorLink(CairnOperator *op, size_t input, CairnOperator *from, size_t output);
// What feeds an input: an owned handle and the index of the output; null if nothing does.
CairnOperator *CairnOperatorSource(const CairnOperator *op, size_t input, size_t *output);
// Runs it after another.
CairnStatus CairnOperatorFollow(CairnOperator *op, CairnOperator *before);

CairnStatus CairnOperatorSetDesc(CairnOperator *op, size_t index, bool is_output, const CairnDesc *desc);
bool CairnOperatorDesc(const CairnOperator *op, size_t index, bool is_output, void *context, CairnDescCallback callback);

CairnStatus CairnOperatorSetAttr(CairnOperator *op, CairnText name, const CairnValue *value);
// The value that was set, else the default. False if there is neither.
bool CairnOperatorAttr(const CairnOperator *op, CairnText name, void *context, CairnValueCallback callback);
// The same of an input or output.
CairnStatus CairnOperatorSetPortAttr(CairnOperator *op, size_t index, bool is_output, CairnText name, const CairnValue *value);
bool CairnOperatorPortAttr(const CairnOperator *op, size_t index, bool is_output, CairnText name, void *context, CairnValueCallback callback);
// Names and types, in pairs of calls: name, type.
void CairnOperatorAttrs(const CairnOperator *op, void *context, CairnTextCallback callback);
// The same, of what the IR registers only.
void CairnOperatorIrAttrs(const CairnOperator *op, void *context, CairnTextCallback callback);
// Names of the inputs that the IR registers, each followed by `required`, `optional` or `dynamic`; a dynamic one once,
// however far it is grown. Likewise outputs: `required` or `dynamic`.
void CairnOperatorIrInputs(const CairnOperator *op, void *context, CairnTextCallback callback);
void CairnOperatorIrOutputs(const CairnOperator *op, void *context, CairnTextCallback callback);
// Infers descriptions of outputs from those of inputs.
CairnStatus CairnOperatorInfer(CairnOperator *op);

// Shows the graphs that the IR declares of a type.
void CairnOperatorIrGraphs(CairnText type, void *context, void (*callback)(void *context, CairnText name, bool is_dynamic));
// Declares graphs of the operator's own; those of a dynamic name are grown. Declared twice is declared once.
void CairnOperatorAddSubgraph(CairnOperator *op, CairnText name);
void CairnOperatorGrowSubgraph(CairnOperator *op, CairnText name, size_t count);
// Gives the operator a copy of a graph in that place.
CairnStatus CairnOperatorSetSubgraph(CairnOperator *op, CairnText name, size_t index, const CairnGraph *graph);

// ---------------------------------------------------------------------------------------------------------
// Graphs

CairnGraph *CairnGraphNew(CairnText name);
CairnGraph *CairnGraphRetain(CairnGraph *graph);
void CairnGraphRelease(CairnGraph *graph);
void CairnGraphName(const CairnGraph *graph, void *context, CairnTextCallback callback);
// Whether it has nodes.
bool CairnGraphValid(const CairnGraph *graph);

// Walks from the operators that are named as far as links go, and makes nodes of all it meets.
CairnStatus CairnGraphSetInputs(CairnGraph *graph, CairnOperator *const *ops, size_t count);
// outputs[i] < 0: every output of ops[i].
CairnStatus CairnGraphSetOutputs(CairnGraph *graph, CairnOperator *const *ops, const int64_t *outputs, size_t count);
// Nodes that are to run although nobody reads them.
CairnStatus CairnGraphSetTargets(CairnGraph *graph, CairnOperator *const *ops, size_t count);
CairnStatus CairnGraphAddOp(CairnGraph *graph, CairnOperator *op);
// Owned; null if there is none of that name.
CairnOperator *CairnGraphFindOp(const CairnGraph *graph, CairnText name);
void CairnGraphOpNames(const CairnGraph *graph, void *context, CairnTextCallback callback);

// Bytes of a ge.proto.ModelDef.
CairnStatus CairnGraphRead(CairnGraph *graph, const void *bytes, size_t size);
CairnStatus CairnGraphWrite(const CairnGraph *graph, void *context, CairnTextCallback callback);
// A deep copy of another.
CairnStatus CairnGraphCopy(CairnGraph *graph, const CairnGraph *from);

// Owned; in topological order. Null beyond the last.
void CairnGraphNodes(const CairnGraph *graph, void *context, void (*callback)(void *context, CairnNode *node));
// Owned. An operator becomes a node; its links are not followed.
CairnNode *CairnGraphAddNode(CairnGraph *graph, const CairnOperator *op);
CairnStatus CairnGraphRemoveNode(CairnGraph *graph, const CairnNode *node);
CairnStatus CairnGraphAddEdge(CairnGraph *graph, const CairnNode *from, int64_t output, const CairnNode *to, int64_t input);
CairnStatus CairnGraphRemoveEdge(CairnGraph *graph, const CairnNode *from, int64_t output, const CairnNode *to, int64_t input);
CairnStatus CairnGraphAddControl(CairnGraph *graph, const CairnNode *from, const CairnNode *to);
CairnStatus CairnGraphSetAttr(CairnGraph *graph, CairnText name, const CairnValue *value);
bool CairnGraphAttr(const CairnGraph *graph, CairnText name, void *context, CairnValueCallback callback);
// The `index`-th of the graphs of its nodes, and of theirs: a copy (owned). Null beyond the last.
CairnGraph *CairnGraphSubgraph(const CairnGraph *graph, size_t index);
// Shows the graph as the text of a ge.proto.ModelDef, without the bytes of constants.
CairnStatus CairnGraphText(const CairnGraph *graph, void *context, CairnTextCallback callback);

// ---------------------------------------------------------------------------------------------------------
// Nodes of a graph. A node keeps its graph.

void CairnNodeRelease(CairnNode *node);
bool CairnNodeSame(const CairnNode *a, const CairnNode *b);
// These two are false for a node that was removed from its graph; all other calls on it fail, too.
bool CairnNodeName(const CairnNode *node, void *context, CairnTextCallback callback);
bool CairnNodeType(const CairnNode *node, void *context, CairnTextCallback callback);
size_t CairnNodeInputs(const CairnNode *node);
size_t CairnNodeOutputs(const CairnNode *node);
int64_t CairnNodePortIndex(const CairnNode *node, CairnText name, bool is_output);
bool CairnNodeDesc(const CairnNode *node, size_t index, bool is_output, void *context, CairnDescCallback callback);
CairnStatus CairnNodeSetDesc(const CairnNode *node, size_t index, bool is_output, const CairnDesc *desc);
// What feeds an input (owned), or null.
CairnNode *CairnNodeSource(const CairnNode *node, size_t input, size_t *output);
// The `at`-th reader of an output (owned), or null.
CairnNode *CairnNodeReader(const CairnNode *node, size_t output, size_t at, size_t *input);
// The `at`-th node before or after it by control, or null.
CairnNode *CairnNodeControl(const CairnNode *node, bool is_after, size_t at);
CairnStatus CairnNodeSetAttr(const CairnNode *node, CairnText name, const CairnValue *value);
bool CairnNodeAttr(const CairnNode *node, CairnText name, void *context, CairnValueCallback callback);
// The `index`-th graph of the node's own: a copy (owned). Null beyond the last.
CairnGraph *CairnNodeSubgraph(const CairnNode *node, size_t index);

// ---------------------------------------------------------------------------------------------------------
// The engine and its sessions

// Options: `count` keys and values in turn, so 2 * count texts.
CairnStatus CairnEngineStart(const CairnText *options, size_t count);
CairnStatus CairnEngineStop(void);
// Sets the error message of this thread, as the engine does itself, and returns the code.
CairnStatus CairnEngineFail(CairnStatus code, CairnText text);
// Shows the error messages of this thread's failures (or warnings) since the last time, and forgets them.
void CairnEngineErrors(void *context, CairnTextCallback callback);
void CairnEngineWarnings(void *context, CairnTextCallback callback);

// On failure `session` is 0, which no session is.
CairnStatus CairnSessionNew(const CairnText *options, size_t count, uint64_t *session);
CairnStatus CairnSessionEnd(uint64_t session);

// `is_copy`: a deep copy; else the session shares the graph.
CairnStatus CairnSessionAddGraph(uint64_t session, uint32_t id, CairnGraph *graph, const CairnText *options, size_t count, bool is_copy);
CairnStatus CairnSessionRemoveGraph(uint64_t session, uint32_t id);
bool CairnSessionNeedsRebuild(uint64_t session, uint32_t id);
// V1: BuildGraph compiles for host tensors and loads. Descriptions replace those of the Data nodes; count 0 leaves them.
CairnStatus CairnSessionBuildGraph(uint64_t session, uint32_t id, const CairnDesc *inputs, size_t count);
// `is_v2`: graphs with variables are taken.
CairnStatus CairnSessionCompileGraph(uint64_t session, uint32_t id, bool is_v2, const CairnDesc *inputs, size_t count);
// Shows the bytes of a model of a compiled graph.
CairnStatus CairnSessionModel(uint64_t session, uint32_t id, void *context, CairnTextCallback callback);
// `compiles`: compile first if that was not done (V2).
CairnStatus CairnSessionLoadGraph(uint64_t session, uint32_t id, const CairnText *options, size_t count, void *stream, bool compiles);

// How a run is asked for.
enum CairnRun {
    CAIRN_RUN_HOST = 0,       // RunGraph: waits; outputs on the host
    CAIRN_RUN_STREAM = 1,     // Session::RunGraphWithStreamAsync: compiles and loads
    CAIRN_RUN_LOADED = 2,     // Session::ExecuteGraphWithStreamAsync: must be loaded
    CAIRN_RUN_STREAM_V2 = 3,  // GeSession::RunGraphWithStreamAsync: compiles and loads
    CAIRN_RUN_HOST_V2 = 4,    // GeSession::RunGraph
};

// A tensor that goes into a run. `data` null is a tensor without memory. `is_described`: dtype and dims count
// (for outputs they often do not).
typedef struct CairnRunTensor {
    void *data;
    size_t bytes;
    int32_t dtype;
    int32_t format;
    bool is_on_host;
    bool is_described;
    const int64_t *dims;
    size_t rank;
} CairnRunTensor;

// Runs. `outputs` may be empty. On success `*result` is owned and says what each output is now.
CairnStatus CairnSessionRun(uint64_t session, uint32_t id, enum CairnRun mode, void *stream,
                            const CairnRunTensor *inputs, size_t input_count,
                            const CairnRunTensor *outputs, size_t output_count, CairnOutputs **result);
// RunGraphAsync: copies what it needs of the inputs (V1) or keeps their addresses until `callback` (V2), which is
// called once, on a thread of the engine, with an owned result or null.
CairnStatus CairnSessionRunAsync(uint64_t session, uint32_t id, bool is_v2, const CairnRunTensor *inputs, size_t input_count,
                                 void *context, void (*callback)(void *context, CairnStatus status, CairnOutputs *result));
// Called on the engine's thread by a `callback` that will never return: another thread takes its place.
void CairnSessionThreadExited(void);

// What an output is after a run. `block` is owned by whoever takes it, once, and null where the memory was
// the caller's. On the host (CAIRN_RUN_HOST) the block holds host memory.
typedef struct CairnOutput {
    void *data;
    size_t bytes;
    int32_t dtype;
    int32_t format;
    bool is_on_host;
    const int64_t *dims;
    size_t rank;
    CairnBlock *block;
} CairnOutput;

size_t CairnOutputsCount(const CairnOutputs *outputs);
// `dims` is valid until the release. The block passes to the caller the first time an output is asked for.
void CairnOutputsGet(CairnOutputs *outputs, size_t index, CairnOutput *output);
void CairnOutputsRelease(CairnOutputs *outputs);

void *CairnBlockAddress(const CairnBlock *block);
size_t CairnBlockBytes(const CairnBlock *block);
// Gives the memory back to its allocator, on this thread.
void CairnBlockFree(CairnBlock *block);

// The values of variables on the host, when all that the session submitted before is done; `count` 0: all of them.
// Shows the name of each. On success `*result` is owned.
CairnStatus CairnSessionVariables(uint64_t session, const CairnText *names, size_t count, void *context,
                                  CairnTextCallback callback, CairnOutputs **result);
// RegisterCallBackFunc: checks the session and the key, and leaves a warning: nothing here calls back.
CairnStatus CairnSessionCallback(uint64_t session, CairnText key, bool is_null);

// Bases that the application sets.
enum CairnBase {
    CAIRN_BASE_CONST = 0,
    CAIRN_BASE_FEATURE = 1,
    CAIRN_BASE_FIXED = 2,
    CAIRN_BASE_REFRESHABLE = 3,
};
// `type` is a ge::MemoryType, and `with_type` whether the caller named one (FIXED only).
CairnStatus CairnSessionSetBase(uint64_t session, uint32_t id, enum CairnBase base, bool with_type, int32_t type, const void *memory, size_t size);

// Owned; null if the graph is not compiled (with an error message).
CairnSummary *CairnSessionSummary(uint64_t session, uint32_t id);
void CairnSummaryRelease(CairnSummary *summary);
enum CairnSize {
    CAIRN_SIZE_CONST = 0,
    CAIRN_SIZE_FEATURE = 1,
    CAIRN_SIZE_FIXED = 2,
    CAIRN_SIZE_REFRESHABLE = 3,
    CAIRN_SIZE_STREAMS = 4,
    CAIRN_SIZE_EVENTS = 5,
};
bool CairnSummaryStatic(const CairnSummary *summary);
bool CairnSummaryRefreshable(const CairnSummary *summary);
// False for what a dynamic graph does not have.
bool CairnSummarySize(const CairnSummary *summary, enum CairnSize which, size_t *size);
size_t CairnSummaryOutputs(const CairnSummary *summary);
void CairnSummaryOutput(const CairnSummary *summary, size_t index, void *context, CairnDescCallback callback);
// Pairs of indices (input, output) that share memory, in turn.
size_t CairnSummaryShared(const CairnSummary *summary, const int64_t **pairs);

// JSON for chrome://tracing, of a graph that is loaded: its nodes, without times, since none are measured.
CairnStatus CairnSessionJson(uint64_t session, uint32_t id, uint32_t flags, void *context, CairnTextCallback callback);

// ---------------------------------------------------------------------------------------------------------
// Models without a session

// aclgrphBuildInitialize: options that hold for every build until the end. A second start replaces them.
CairnStatus CairnBuildStart(const CairnText *options, size_t count);
CairnStatus CairnBuildStop(void);
// Builds a model of a graph, and shows the bytes of its file.
CairnStatus CairnBuildModel(const CairnGraph *graph, const CairnText *options, size_t count, void *context, CairnTextCallback callback);
// The same of bytes: a model file stays as it is, a model of ONNX or of the graph engine is built. `folder` is where its
// files of weights are.
CairnStatus CairnBuildModelOfBytes(const void *data, size_t size, CairnText folder, const CairnText *options, size_t count, void *context, CairnTextCallback callback);
// Writes a model file of this name, and its weights beside it if the model was built so. Fails if the bytes are no model
// file, or a bundle.
CairnStatus CairnModelSave(const void *data, size_t size, CairnText path);
// Reads a model of ONNX into a graph that replaces what the graph was. `folder` empty: the working directory.
CairnStatus CairnGraphReadOnnx(CairnGraph *graph, const void *data, size_t size, CairnText folder, const CairnText *options, size_t count);
// The command `atc`: its status.
int32_t CairnAtc(int32_t count, const char *const *arguments);

// ---------------------------------------------------------------------------------------------------------
// Users' allocators

// How a callback that does not return normally is handled: `on_exit` runs when it ends its thread (the caller then
// parks the thread for good), `message` gets the message of an exception.
typedef struct CairnCallContext {
    void (*on_exit)(const void *context);
    const void *context;
    char *message;
    size_t message_size;
} CairnCallContext;

// A user allocator. `object` distinguishes it from others; `owner` is what `drop` releases, once. The calls
// give false after an exception.
typedef struct CairnAllocator {
    void *object;
    void *owner;
    bool (*alloc)(void *object, size_t bytes, void **block, const CairnCallContext *call_context);
    bool (*advise)(void *object, size_t bytes, void *address_hint, void **block, const CairnCallContext *call_context);
    bool (*address)(void *block, void **address, const CairnCallContext *call_context);
    // What a block reports: its bytes, and its reference count.
    void (*block_info)(const void *block, size_t *bytes, size_t *reference_count, const void **allocator);
    bool (*free)(void *object, void *block, const CairnCallContext *call_context);
    void (*drop)(void *owner);
} CairnAllocator;

// `allocator` null: none was given. The engine owns `owner` from here on, also after a failure.
CairnStatus CairnSessionRegister(uint64_t session, const void *stream, const CairnAllocator *allocator);
CairnStatus CairnSessionUnregister(uint64_t session, const void *stream);

// ---------------------------------------------------------------------------------------------------------
// Operators that the user registers

// One call of such an operator; it ends with the call, and is used by one thread at a time.
typedef struct CairnCall CairnCall;

// What an operator is called with; borrowed for the call. Inputs are those that are fed, in the declared order, and
// `input_counts` says how many of them belong to each declared one; likewise outputs, which have no data yet. Attributes are
// those that are declared, in order: see CairnCallAttr.
typedef struct CairnCallInfo {
    CairnText node;
    CairnText type;
    void *stream;
    const CairnRunTensor *inputs;
    size_t input_count;
    const size_t *input_counts;
    size_t declared_inputs;
    const CairnRunTensor *outputs;
    size_t output_count;
    const size_t *output_counts;
    size_t declared_outputs;
    size_t attr_count;
} CairnCallInfo;

enum CairnReadiness { CAIRN_READY = 0, CAIRN_NO_OBJECT = 1, CAIRN_NOT_EAGER = 2 };

// An operator that the user registers. `owner` lives until the process ends. Calls that take a context give false after an
// exception.
typedef struct CairnCustomOperator {
    void *owner;
    // The operator as the program declares it (owned), or null.
    CairnOperator *(*declared)(void *owner);
    // Shows the declared indices of inputs whose values must be in memory.
    void (*needs_values)(void *owner, void *context, void (*callback)(void *context, size_t input));
    // Makes the object, if that was not done.
    bool (*prepare)(void *owner, enum CairnReadiness *readiness, const CairnCallContext *call_context);
    bool (*execute)(void *owner, CairnCall *call, const CairnCallInfo *info, CairnStatus *status, const CairnCallContext *call_context);
} CairnCustomOperator;

// The first operator of a type stays; a second one fails.
CairnStatus CairnCustomRegister(CairnText type, const CairnCustomOperator *op);

// Makes an output: `tensor` has type, format and dims. A failure is also part of the text of the run, if that fails.
CairnStatus CairnCallMakeOutput(CairnCall *call, size_t index, const CairnRunTensor *tensor, void **address);
// Lets an output be the input that is declared with its name.
CairnStatus CairnCallReferOutput(CairnCall *call, size_t output, size_t input);
// Scratch memory for what is submitted in this call.
CairnStatus CairnCallWorkspace(CairnCall *call, size_t bytes, void **address);
// Shows the value of a declared attribute; false if it has none.
bool CairnCallAttr(const CairnCall *call, size_t index, void *context, CairnValueCallback callback);

// ---------------------------------------------------------------------------------------------------------
// Functions with a context, for descriptors of aclrtAllocator

enum CairnFunction {
    CAIRN_FUNCTION_ALLOC,
    CAIRN_FUNCTION_FREE,
    CAIRN_FUNCTION_ADVISE,
    CAIRN_FUNCTION_ADDRESS,
    CAIRN_FUNCTIONS,
};

// A function that needs more than an address to be called, such as a callable of Python. `call` gets the arguments
// of the C function in its place as words and gives false after an exception. Two functions with equal `identity` are
// the same one, as long as neither is dropped. `drop` releases the context, once, on any thread, with no lock held.
typedef struct CairnCallable {
    void *context;
    uintptr_t identity[2];
    bool (*call)(void *context, const uintptr_t *arguments, size_t count, uintptr_t *result, const CairnCallContext *call_context);
    void (*drop)(void *context);
} CairnCallable;

// What aclrtAllocatorGetByStream reports; 0 for functions that are not there or have a context.
typedef struct CairnRegistration {
    void *desc;
    void *object;
    uintptr_t functions[CAIRN_FUNCTIONS];
} CairnRegistration;

typedef void (*CairnContextCallback)(void *receiver, enum CairnFunction which, void *context);

// As the aclrtAllocatorSet..ToDesc of that function, and with its codes. The context belongs to the descriptor and its
// registrations; after a failure it is still the caller's.
int32_t CairnAllocatorSetCallable(void *desc, enum CairnFunction which, const CairnCallable *callable);

// As aclrtAllocatorGetByStream, and with its codes. Contexts are shown.
int32_t CairnAllocatorGetByStream(void *stream, CairnRegistration *registered, void *receiver, CairnContextCallback callback);

#ifdef __cplusplus
}
#endif

#endif
