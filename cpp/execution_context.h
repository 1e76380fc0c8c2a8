// One call of a custom operator, as the operator sees it.
#ifndef CAIRN_CPP_EXECUTION_CONTEXT_H
#define CAIRN_CPP_EXECUTION_CONTEXT_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bridge.h"
#include "exe_graph/runtime/eager_op_execution_context.h"

namespace gert {

// The values of a node's attributes, each in the member of its type. Their addresses stay.
class __attribute__((visibility("hidden"))) RuntimeAttrsBody {
public:
    struct Value {
        uint32_t kind = CAIRN_KIND_NONE;
        bool is_list = false;
        const void *pointer = nullptr;
        int64_t integer = 0;
        float real = 0;
        bool flag = false;
        std::string text;
        std::vector<int64_t> integers;
        std::vector<float> reals;
        std::unique_ptr<bool[]> flags;
        TypedContinuousVector<int64_t> integer_list;
        TypedContinuousVector<float> real_list;
        TypedContinuousVector<bool> flag_list;
    };

    RuntimeAttrsBody(const CairnCall *call, size_t count);

    std::deque<Value> values;
};

// Borrows from the engine; it ends with the call.
class __attribute__((visibility("hidden"))) ExecutionContextBody {
public:
    ExecutionContextBody(CairnCall *call, const CairnCallInfo &info);

    EagerOpExecutionContext &Context() { return context_; }

    CairnCall *const call;
    const std::string node;
    const std::string type;
    void *const stream;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<CompileTimeTensorDesc> input_descs;
    std::vector<CompileTimeTensorDesc> output_descs;
    std::vector<AnchorInstanceInfo> declared_inputs;
    std::vector<AnchorInstanceInfo> declared_outputs;
    const RuntimeAttrs &Attributes() const { return attributes_; }

private:
    const RuntimeAttrsBody values_;
    const RuntimeAttrs attributes_;
    EagerOpExecutionContext context_;
};

}  // namespace gert

#endif
