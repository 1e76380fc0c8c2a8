// Tensors into a run and out of it.
#ifndef CAIRN_CPP_RUN_H
#define CAIRN_CPP_RUN_H

#include <vector>

#include "bridge.h"
#include "exe_graph/runtime/tensor.h"
#include "graph/tensor.h"

namespace cairn __attribute__((visibility("hidden"))) {

// Tensors as the engine takes them: addresses of the tensors, and dims that this object holds.
class RunTensors {
public:
    // `is_described`: types and shapes count.
    RunTensors(const std::vector<ge::Tensor> &tensors, bool is_described);
    RunTensors(const std::vector<gert::Tensor> &tensors, bool is_described);

    const CairnRunTensor *data() const { return tensors_.data(); }
    size_t count() const { return tensors_.size(); }

private:
    void Add(const CairnRunTensor &tensor, std::vector<int64_t> dims);

    std::vector<CairnRunTensor> tensors_;
    std::vector<std::vector<int64_t>> dims_;
};

// Writes what a run gave into the tensors of the caller and releases the result. Memory that the engine provided
// goes with them.
void take_outputs(CairnOutputs *result, std::vector<ge::Tensor> &outputs);
void take_outputs(CairnOutputs *result, std::vector<gert::Tensor> &outputs);

// One run, of either kind of tensors.
template <typename T>
CairnStatus run(uint64_t session, uint32_t id, CairnRun mode, void *stream, const std::vector<T> &inputs,
                std::vector<T> &outputs)
{
    const RunTensors in(inputs, true);
    const RunTensors out(outputs, false);
    CairnOutputs *result = nullptr;
    const CairnStatus status =
        CairnSessionRun(session, id, mode, stream, in.data(), in.count(), out.data(), out.count(), &result);
    if (status == 0) {
        take_outputs(result, outputs);
    }
    return status;
}

}  // namespace cairn

#endif
