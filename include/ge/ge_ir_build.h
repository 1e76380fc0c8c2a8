/*
 * Models without a session: graphs built into model files, which aclmdl* loads. C++ only.
 */
#ifndef CAIRN_GE_GE_IR_BUILD_H
#define CAIRN_GE_GE_IR_BUILD_H

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ge/ge_options.h"
#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace ge {

/** The bytes of a model. */
struct ModelBufferData {
    std::shared_ptr<uint8_t> data = nullptr;
    uint64_t length;
};

/** A graph of a bundle, and the options it is built with. */
struct GraphWithOptions {
    ge::Graph graph;
    std::map<AscendString, AscendString> build_options;
};

/** The graphs of a model whose weights change between runs. */
struct WeightRefreshableGraphs {
    ge::Graph infer_graph;
    ge::Graph var_init_graph;
    ge::Graph var_update_graph;
};

/** What aclgrphSetOpAttr sets. */
enum aclgrphAttrType {
    ATTR_TYPE_KEEP_DTYPE = 0,
    ATTR_TYPE_WEIGHT_COMPRESS,
};

/** A built model. */
using aclmdlModel = void *;

/*
 * All functions give GRAPH_SUCCESS, GRAPH_PARAM_INVALID for an argument or option that is not taken, or GRAPH_FAILED;
 * the text is in GEGetErrorMsgV2. Options have the keys of ge::ir_option (ge_options.h), and the meaning of the flags of `atc`.
 */

/** Options of every build that follows. Unknown keys leave a warning. A second call replaces them. */
graphStatus aclgrphBuildInitialize(std::map<std::string, std::string> global_options);
graphStatus aclgrphBuildInitialize(std::map<AscendString, AscendString> &global_options);
void aclgrphBuildFinalize();

/** Builds a model file in memory. Its inputs are in the order of the attribute `index` of the Data nodes. */
graphStatus aclgrphBuildModel(const ge::Graph &graph, const std::map<std::string, std::string> &build_options,
                              ModelBufferData &model);
graphStatus aclgrphBuildModel(const ge::Graph &graph, const std::map<AscendString, AscendString> &build_options,
                              ModelBufferData &model);

/** Writes a model to the file of that name with `.om` after it. */
graphStatus aclgrphSaveModel(const std::string &output_file, const ModelBufferData &model);
graphStatus aclgrphSaveModel(const char_t *output_file, const ModelBufferData &model);
graphStatus aclgrphSaveModel(const char_t *output_file, const aclmdlModel *model);

/** Bundles of several models are refused. */
graphStatus aclgrphBundleBuildModel(const std::vector<ge::GraphWithOptions> &graph_with_options,
                                    ModelBufferData &model);
graphStatus aclgrphBundleSaveModel(const char_t *output_file, const ModelBufferData &model);

/* Models as objects. A file or bytes may be a model file, a model of ONNX, or a serialized ge.proto.ModelDef. */
graphStatus aclgrphBuildModelFromFile(const char_t *graph_file,
                                      const std::map<AscendString, AscendString> &build_options, aclmdlModel **model);
graphStatus aclgrphBuildModelFromData(const void *graph_data, size_t graph_size,
                                      const std::map<AscendString, AscendString> &build_options, aclmdlModel **model);
graphStatus aclgrphSaveModelToBuffer(ModelBufferData &buffer, const aclmdlModel *model);
graphStatus aclgrphDestroyModel(const aclmdlModel *model);

/** The version of the interface: 1.0.0. */
graphStatus aclgrphGetIRVersion(int32_t *major_version, int32_t *minor_version, int32_t *patch_version);

/** Writes the graph as text into `ge_proto_<name>.txt`, in the folder that `file` names before its last `/`. */
graphStatus aclgrphDumpGraph(const ge::Graph &graph, const char_t *file, const size_t len);

/** A graph of one operator, its inputs from Data nodes. Files of operators (JSON) are refused. */
graphStatus aclgrphGenerateForOp(const AscendString &op_type, const std::vector<TensorDesc> &inputs,
                                 const std::vector<TensorDesc> &outputs, Graph &graph);
graphStatus aclgrphGenerateForOp(const AscendString &json_path, std::vector<Graph> &graphs);

/** Sets an attribute of the nodes that a file names, one in a line: a node, or `OpType::` and a type. */
graphStatus aclgrphSetOpAttr(Graph &graph, aclgrphAttrType attr_type, const char_t *cfg_path);

/** Refused: the graphs it would make are for bundles. */
graphStatus aclgrphConvertToWeightRefreshableGraphs(const ge::Graph &origin_graph,
                                                    const std::vector<AscendString> &const_names,
                                                    WeightRefreshableGraphs &weight_refreshable_graphs);

}  // namespace ge

#endif

#endif
