// What copies of a ge::Tensor share.
#ifndef CAIRN_CPP_TENSOR_H
#define CAIRN_CPP_TENSOR_H

#include "graph/tensor.h"

namespace cairn __attribute__((visibility("hidden"))) {

// Distinguishes tensors: copies of one tensor have the same.
const void *body_of(const ge::Tensor &tensor);

}  // namespace cairn

#endif
