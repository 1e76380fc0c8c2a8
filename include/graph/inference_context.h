/*
 * What inference functions of users may be handed. C++ only.
 */
#ifndef CAIRN_GRAPH_INFERENCE_CONTEXT_H
#define CAIRN_GRAPH_INFERENCE_CONTEXT_H

#ifdef __cplusplus

#include <memory>

#include "graph/ge_error_codes.h"

namespace ge {

/** Carried by operators for whoever set it; the engine infers without one. */
class InferenceContext;
using InferenceContextPtr = std::shared_ptr<InferenceContext>;

}  // namespace ge

#endif

#endif
