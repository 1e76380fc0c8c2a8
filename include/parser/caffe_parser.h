/*
 * Models of Caffe: not supported. C++ only.
 */
#ifndef CAIRN_PARSER_CAFFE_PARSER_H
#define CAIRN_PARSER_CAFFE_PARSER_H

#ifdef __cplusplus

#include <map>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/graph.h"

namespace ge {

/* Both fail, with a text that says so: convert the model to ONNX. */
graphStatus aclgrphParseCaffe(const char *model_file, const char *weights_file, ge::Graph &graph);
graphStatus aclgrphParseCaffe(const char *model_file, const char *weights_file,
                              const std::map<ge::AscendString, ge::AscendString> &parser_params, ge::Graph &graph);

}  // namespace ge

#endif

#endif
