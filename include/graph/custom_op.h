/*
 * Operators of the program's own in graphs: a class with a function that computes, for a type that REG_OP declares. C++ only.
 *
 *     class MyOp : public ge::EagerExecuteOp {
 *         ge::graphStatus Execute(gert::EagerOpExecutionContext *ctx) override
 *         {
 *             const gert::Tensor *x = ctx->GetInputTensor(0);
 *             gert::Tensor *y = ctx->MallocOutputTensor(0, x->GetShape(), x->GetFormat(), x->GetDataType());
 *             ... submit to ctx->GetStream() what reads x->GetAddr() and writes y->GetAddr() ...
 *             return ge::GRAPH_SUCCESS;
 *         }
 *     };
 *     REG_AUTO_MAPPING_OP(MyOp);
 *
 * There is one object for a type; it may be called by several threads at a time.
 */
#ifndef CAIRN_GRAPH_CUSTOM_OP_H
#define CAIRN_GRAPH_CUSTOM_OP_H

#ifdef __cplusplus

#include <functional>
#include <memory>

#include "exe_graph/runtime/eager_op_execution_context.h"
#include "ge/ge_error_codes.h"
#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"

namespace ge {

/** What all custom operators have in common. */
class BaseCustomOp {
public:
    virtual ~BaseCustomOp() = default;
};

/** An operator that is called whenever a graph runs. */
class EagerExecuteOp : virtual public BaseCustomOp {
public:
    /** Makes the outputs and submits what fills them. A code other than GRAPH_SUCCESS, or an exception, fails the run. */
    virtual graphStatus Execute(gert::EagerOpExecutionContext *ctx) = 0;
};

using BaseOpCreator = std::function<std::unique_ptr<BaseCustomOp>()>;

/** Registers the maker of a type's object. The first of a type stays; a second leaves an error text. */
class CustomOpCreatorRegister {
public:
    CustomOpCreatorRegister(const AscendString &operator_type, const BaseOpCreator &op_creator);
    ~CustomOpCreatorRegister() = default;
};

}  // namespace ge

/** Registers a class for the type of its name. */
#define REG_AUTO_MAPPING_OP(custom_op_class) CAIRN_CUSTOM_OP(custom_op_class, __COUNTER__)
#define CAIRN_CUSTOM_OP(custom_op_class, number) CAIRN_CUSTOM_OP_AS(custom_op_class, number)
#define CAIRN_CUSTOM_OP_AS(custom_op_class, number)                                       \
    static const ge::CustomOpCreatorRegister creator_of_custom_op_##number(               \
        #custom_op_class, []() -> std::unique_ptr<ge::BaseCustomOp> { return std::make_unique<custom_op_class>(); })

#endif

#endif
