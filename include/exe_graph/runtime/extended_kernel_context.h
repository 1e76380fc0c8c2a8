/*
 * What every function of an operator may ask about its node. C++ only.
 */
#ifndef CAIRN_EXE_GRAPH_RUNTIME_EXTENDED_KERNEL_CONTEXT_H
#define CAIRN_EXE_GRAPH_RUNTIME_EXTENDED_KERNEL_CONTEXT_H

#ifdef __cplusplus

#include <cstddef>

#include "exe_graph/runtime/compute_node_info.h"
#include "exe_graph/runtime/runtime_attrs.h"

namespace gert {

class ExecutionContextBody;

/** A node. What it gives is the engine's, and there until the function returns. */
class ExtendedKernelContext {
public:
    const char *GetNodeName() const;
    const char *GetNodeType() const;

    /** How many inputs are fed, and how many outputs there are. */
    size_t GetComputeNodeInputNum() const;
    size_t GetComputeNodeOutputNum() const;

    /** Of the input or output with this index; null if there is none. */
    const CompileTimeTensorDesc *GetInputDesc(size_t index) const;
    const CompileTimeTensorDesc *GetOutputDesc(size_t index) const;

    /** The tensors that a declared input or output became, by its index in REG_OP; null if there is none. */
    const AnchorInstanceInfo *GetIrInputInstanceInfo(size_t ir_index) const;
    const AnchorInstanceInfo *GetIrOutputInstanceInfo(size_t ir_index) const;

    const RuntimeAttrs *GetAttrs() const;

protected:
    explicit ExtendedKernelContext(ExecutionContextBody &body) : body_(&body) {}
    ExtendedKernelContext(const ExtendedKernelContext &) = delete;
    ExtendedKernelContext &operator=(const ExtendedKernelContext &) = delete;
    ~ExtendedKernelContext() = default;

    ExecutionContextBody *const body_;
};

}  // namespace gert

#endif

#endif
