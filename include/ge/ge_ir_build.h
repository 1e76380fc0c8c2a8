/*
 * Compiled models as bytes. C++ only.
 */
#ifndef CAIRN_GE_GE_IR_BUILD_H
#define CAIRN_GE_GE_IR_BUILD_H

#ifdef __cplusplus

#include <cstdint>
#include <memory>

#include "graph/ge_error_codes.h"
#include "graph/graph.h"

namespace ge {

/** The bytes of a model. */
struct ModelBufferData {
    std::shared_ptr<uint8_t> data = nullptr;
    uint64_t length;
};

}  // namespace ge

#endif

#endif
