/*
 * What a custom operator computes with: see graph/custom_op.h. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_EAGER_OP_EXECUTION_CONTEXT_H
#define CAIRN_EXE_GRAPH_RUNTIME_EAGER_OP_EXECUTION_CONTEXT_H

#ifdef __cplusplus

#include <cstddef>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/tensor.h"

namespace gert {

using rtStream = void *;

/**
 * One call of a custom operator. It ends with the call, and belongs to the thread of the call. Inputs have been submitted to
 * the stream, not computed; those whose values are needed (InputsDataDependency) are in memory. A function that gives null
 * leaves a text, which is part of the run's if the operator fails.
 */
class EagerOpExecutionContext : public ExtendedKernelContext {
public:
    /** The stream that the operator submits its work to; an aclrtStream. */
    rtStream GetStream() const;

    /** A connected input, by its index among these; null if there is none. */
    const Tensor *GetInputTensor(size_t index) const;
    /** A declared input, by its index in REG_OP; null if it is not connected. */
    const Tensor *GetRequiredInputTensor(size_t ir_index) const { return GetDynamicInputTensor(ir_index, 0); }
    const Tensor *GetOptionalInputTensor(size_t ir_index) const { return GetDynamicInputTensor(ir_index, 0); }
    /** One of the tensors of a declared list. */
    const Tensor *GetDynamicInputTensor(size_t ir_index, size_t relative_index) const;

    /**
     * Makes an output: memory for the storage shape, from the allocator of the graph. It is the engine's, and goes back after
     * the last node has read it. An output with the name of an input cannot be made: see MakeOutputRefInput.
     */
    Tensor *MallocOutputTensor(size_t index, const StorageShape &shape, const StorageFormat &format, ge::DataType dtype);
    /** Makes an output the input that REG_OP declares with the same name: the operator has written it in place. */
    Tensor *MakeOutputRefInput(size_t output_index, size_t input_index) const;
    /** An output. Before it is made it has no address, and the type and sizes that the graph says, if it says any. */
    const Tensor *GetOutputTensor(size_t index) const;

    /** Scratch memory on the device, for what the operator submits in this call; the engine takes it back. */
    void *MallocWorkSpace(size_t size);

private:
    friend class ExecutionContextBody;
    explicit EagerOpExecutionContext(ExecutionContextBody &body) : ExtendedKernelContext(body) {}
};

}  // namespace gert

#endif

#endif
