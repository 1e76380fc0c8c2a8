/*
 * Models of ONNX into graphs. C++ only.
 */
#ifndef CAIRN_PARSER_ONNX_PARSER_H
#define CAIRN_PARSER_ONNX_PARSER_H

#ifdef __cplusplus

#include <cstddef>
#include <map>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/graph.h"

namespace ge {

/*
 * The graph becomes that of the model. Keys: `input_shape`, `ge.outputNodeName`, `output` (the graph's name), and those
 * of the headers that have no effect here; others are refused. Files of weights are looked up beside the model, or for a
 * model in memory in the working directory.
 */
graphStatus aclgrphParseONNX(const char *model_file, const std::map<ge::AscendString, ge::AscendString> &parser_params,
                             ge::Graph &graph);
graphStatus aclgrphParseONNXFromMem(const char *buffer, size_t size,
                                    const std::map<ge::AscendString, ge::AscendString> &parser_params,
                                    ge::Graph &graph);

}  // namespace ge

#endif

#endif
