/*
 * The newer name of exe_graph/runtime/tensor.h.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_RUNTIME_TENSOR_H
#define CAIRN_EXE_GRAPH_RUNTIME_RUNTIME_TENSOR_H

#include "exe_graph/runtime/tensor.h"

#endif
