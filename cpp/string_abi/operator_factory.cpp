#include "graph/operator_factory.h"
#include "strings.h"

namespace ge {

Operator OperatorFactory::CreateOperator(const std::string &operator_name, const std::string &operator_type)
{
    return CreateOperator(operator_name.c_str(), operator_type.c_str());
}

graphStatus OperatorFactory::GetOpsTypeList(std::vector<std::string> &all_ops)
{
    std::vector<AscendString> types;
    const graphStatus status = GetOpsTypeList(types);
    all_ops = to_std_string(types);
    return status;
}

bool OperatorFactory::IsExistOp(const std::string &operator_type)
{
    return IsExistOp(operator_type.c_str());
}

OperatorCreatorRegister::OperatorCreatorRegister(const std::string &operator_type, OpCreator const &op_creator)
    : OperatorCreatorRegister(operator_type.c_str(),
                              op_creator ? OpCreatorV2([op_creator](const AscendString &name) { return op_creator(to_std_string(name)); })
                                         : OpCreatorV2())
{
}

InferShapeFuncRegister::InferShapeFuncRegister(const std::string &operator_type, const InferShapeFunc &infer_shape_func)
    : InferShapeFuncRegister(operator_type.c_str(), infer_shape_func)
{
}

VerifyFuncRegister::VerifyFuncRegister(const std::string &operator_type, const VerifyFunc &verify_func)
    : VerifyFuncRegister(operator_type.c_str(), verify_func)
{
}

}  // namespace ge
