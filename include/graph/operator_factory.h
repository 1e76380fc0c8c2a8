/*
 * Operators by the name of their type. C++ only.
 */
#ifndef CAIRN_GRAPH_OPERATOR_FACTORY_H
#define CAIRN_GRAPH_OPERATOR_FACTORY_H

#ifdef __cplusplus

#include <functional>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/operator.h"
#include "graph/types.h"

namespace ge {

using OpCreator = std::function<Operator(const std::string &)>;
using OpCreatorV2 = std::function<Operator(const AscendString &)>;
using InferShapeFunc = std::function<graphStatus(Operator &)>;
using InferFormatFunc = std::function<graphStatus(Operator &)>;
using InferValueRangeFunc = std::function<graphStatus(Operator &)>;
using VerifyFunc = std::function<graphStatus(Operator &)>;

enum WHEN_CALL { INPUT_IS_DYNAMIC = 0, INPUT_HAS_VALUE_RANGE = 1 };

/** The types that the engine knows, and those that programs registered. */
class OperatorFactory {
public:
    /** An operator with everything that its type declares; an empty one if the type is unknown. */
    static Operator CreateOperator(const std::string &operator_name, const std::string &operator_type);
    static Operator CreateOperator(const char_t *const operator_name, const char_t *const operator_type);
    /** All types, in order of their names. */
    static graphStatus GetOpsTypeList(std::vector<std::string> &all_ops);
    static graphStatus GetOpsTypeList(std::vector<AscendString> &all_ops);
    static bool IsExistOp(const std::string &operator_type);
    static bool IsExistOp(const char_t *const operator_type);
};

/** Registers how operators of a type are made. The engine's own types stay as they are. */
class OperatorCreatorRegister {
public:
    OperatorCreatorRegister(const std::string &operator_type, OpCreator const &op_creator);
    OperatorCreatorRegister(const char_t *const operator_type, OpCreatorV2 const &op_creator);
    ~OperatorCreatorRegister() = default;
};

/** Registers what Operator::InferShapeAndType calls for operators of a type. */
class InferShapeFuncRegister {
public:
    InferShapeFuncRegister(const std::string &operator_type, const InferShapeFunc &infer_shape_func);
    InferShapeFuncRegister(const char_t *const operator_type, const InferShapeFunc &infer_shape_func);
    ~InferShapeFuncRegister() = default;
};

/** Registers what Operator::VerifyAllAttr calls for operators of a type. */
class VerifyFuncRegister {
public:
    VerifyFuncRegister(const std::string &operator_type, const VerifyFunc &verify_func);
    VerifyFuncRegister(const char_t *const operator_type, const VerifyFunc &verify_func);
    ~VerifyFuncRegister() = default;
};

}  // namespace ge

#endif

#endif
