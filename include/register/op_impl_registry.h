/*
 * What a program says of a type of operators besides REG_OP. C++ only.
 *
 *     IMPL_OP(MyOp).InputsDataDependency({1});
 */
#ifndef CAIRN_REGISTER_OP_IMPL_REGISTRY_H
#define CAIRN_REGISTER_OP_IMPL_REGISTRY_H

#ifdef __cplusplus

#include <cstdint>
#include <initializer_list>

#include "graph/ascend_string.h"

namespace gert {

/** Says something of a type. */
class OpImplRegisterV2 {
public:
    explicit OpImplRegisterV2(const char *op_type);

    /** The indices in REG_OP of inputs whose values have to be in memory when a custom operator is called. */
    OpImplRegisterV2 &InputsDataDependency(std::initializer_list<int32_t> inputs);

private:
    ge::AscendString type_;
};

}  // namespace gert

#define IMPL_OP(op_type) CAIRN_IMPL_OP(op_type, __COUNTER__)
#define CAIRN_IMPL_OP(op_type, number) CAIRN_IMPL_OP_AS(op_type, number)
#define CAIRN_IMPL_OP_AS(op_type, number) \
    __attribute__((unused)) static const gert::OpImplRegisterV2 op_impl_register_##number = gert::OpImplRegisterV2(#op_type)

#endif

#endif
