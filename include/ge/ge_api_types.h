/*
 * Types of the sessions' functions, and the keys of options. C++ only.
 */
#ifndef CAIRN_GE_GE_API_TYPES_H
#define CAIRN_GE_GE_API_TYPES_H

#ifdef __cplusplus

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exe_graph/runtime/tensor.h"
#include "ge/ge_options.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace ge {

using Status = uint32_t;

enum GraphRunMode : std::int32_t { PREDICTION = 0, TRAIN };

/** Memory of a plain allocation, or memory that other devices reach. */
enum class MemoryType : std::int64_t { MEMORY_TYPE_DEFAULT, MEMORY_TYPE_P2P };

/** An input as Session::BuildGraph takes it; only type and dims are read. */
struct InputTensorInfo {
    uint32_t data_type;
    std::vector<int64_t> dims;
    void *data;
    int64_t length;
};

/** An output with its data. It can be moved, not copied. */
struct OutputTensorInfo {
    uint32_t data_type = 0;
    std::vector<int64_t> dims;
    std::unique_ptr<uint8_t[]> data;
    int64_t length = 0;
};

/** Called once with the result of a run, on a thread of the engine; the tensors are the callee's. */
using RunAsyncCallback = std::function<void(Status, std::vector<ge::Tensor> &)>;
using RunAsyncCallbackV2 = std::function<void(Status, std::vector<gert::Tensor> &)>;

}  // namespace ge

#endif

#endif
