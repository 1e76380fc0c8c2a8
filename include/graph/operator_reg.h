/*
 * Macros that declare a class for a type of operator. C++ only.
 *
 *     namespace ge {
 *     REG_OP(Add)
 *         .INPUT(x1, TensorType::ALL())
 *         .INPUT(x2, TensorType::ALL())
 *         .OUTPUT(y, TensorType::ALL())
 *         .OP_END_FACTORY_REG(Add)
 *     }
 *
 * makes ge::op::Add, an Operator with set_input_x1, get_output_desc_y and so on. Each macro ends the function
 * that the macro before it began, and begins the next one: the constructor calls the first, each the next.
 */
#ifndef CAIRN_GRAPH_OPERATOR_REG_H
#define CAIRN_GRAPH_OPERATOR_REG_H

#ifdef __cplusplus

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph.h"
#include "graph/operator.h"
#include "graph/operator_factory.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace ge {

using std::vector;
using Status = uint32_t;

/** What stands before the dot of the next macro. */
class OpDeclaration {
public:
    void Then() const {}
};

/* Text crosses the library boundary as AscendString, everything else as it is. */
template <typename T>
const T &AttrAsPassed(const T &value)
{
    return value;
}

inline AscendString AttrAsPassed(const std::string &value) { return AscendString(value.data(), value.size()); }

inline std::vector<AscendString> AttrAsPassed(const std::vector<std::string> &values)
{
    std::vector<AscendString> converted;
    for (const std::string &value : values) {
        converted.emplace_back(value.data(), value.size());
    }
    return converted;
}

/* Reads an attribute; leaves `value` where it has none of that type. */
template <typename T>
void AttrInto(const Operator &op, const char *name, T &value)
{
    T stored;
    if (op.GetAttr(name, stored) == GRAPH_SUCCESS) {
        value = stored;
    }
}

inline void AttrInto(const Operator &op, const char *name, std::string &value)
{
    AscendString stored;
    if (op.GetAttr(name, stored) == GRAPH_SUCCESS) {
        value.assign(stored.GetString(), stored.GetLength());
    }
}

inline void AttrInto(const Operator &op, const char *name, std::vector<std::string> &value)
{
    std::vector<AscendString> stored;
    if (op.GetAttr(name, stored) == GRAPH_SUCCESS) {
        value.clear();
        for (const AscendString &one : stored) {
            value.emplace_back(one.GetString(), one.GetLength());
        }
    }
}

#define REG_OP(x)                                                              \
    namespace op {                                                             \
    class x : public Operator {                                                \
        typedef x OpSelf;                                                      \
                                                                               \
    public:                                                                    \
        explicit x(const char *name) : Operator(name, #x) { declare_all(); }   \
        explicit x(const std::string &name) : x(name.c_str()) {}               \
        explicit x(const AscendString &name) : x(name.GetString()) {}          \
        x() : Operator(#x) { declare_all(); }                                  \
                                                                               \
    private:                                                                   \
        void declare_all()                                                     \
        {                                                                      \
            OpDeclaration()

#define CAIRN_OP_NEXT(next) \
    Then();                 \
    next();                 \
    }                       \
                            \
public:

#define CAIRN_OP_NAME(kind, x)                                     \
    static const std::string name_##kind##_##x() { return #x; }    \
    static void name_##kind##_##x(AscendString &name) { name = AscendString(#x); }

#define CAIRN_OP_INPUT(x)                                                                                 \
    CAIRN_OP_NAME(in, x)                                                                                  \
    OpSelf &set_input_##x(Operator &v)                                                                    \
    {                                                                                                     \
        Operator::SetInput(#x, v);                                                                        \
        return *this;                                                                                     \
    }                                                                                                     \
    OpSelf &set_input_##x(Operator &v, uint32_t index)                                                    \
    {                                                                                                     \
        Operator::SetInput(#x, v, index);                                                                 \
        return *this;                                                                                     \
    }                                                                                                     \
    OpSelf &set_input_##x(Operator &v, const std::string &src_name) { return set_input_##x##_by_name(v, src_name.c_str()); } \
    OpSelf &set_input_##x##_by_name(Operator &v, const char *src_name)                                    \
    {                                                                                                     \
        Operator::SetInput(#x, v, src_name);                                                              \
        return *this;                                                                                     \
    }                                                                                                     \
    TensorDesc get_input_desc_##x() const { return Operator::GetInputDescByName(#x); }                    \
    graphStatus update_input_desc_##x(const TensorDesc &desc) { return Operator::UpdateInputDesc(#x, desc); }

#define INPUT(x, t)                        \
    CAIRN_OP_NEXT(declare_input_##x)       \
    CAIRN_OP_INPUT(x)                      \
private:                                   \
    void declare_input_##x()               \
    {                                      \
        Operator::InputRegister(#x, #t);   \
        OpDeclaration()

#define OPTIONAL_INPUT(x, t)                       \
    CAIRN_OP_NEXT(declare_optional_input_##x)      \
    CAIRN_OP_INPUT(x)                              \
private:                                           \
    void declare_optional_input_##x()              \
    {                                              \
        Operator::OptionalInputRegister(#x, #t);   \
        OpDeclaration()

#define DYNAMIC_INPUT(x, t)                                                                             \
    CAIRN_OP_NEXT(declare_dynamic_input_##x)                                                            \
    OpSelf &create_dynamic_input_##x(uint32_t num, bool is_push_back = true)                            \
    {                                                                                                   \
        Operator::DynamicInputRegister(#x, num, #t, is_push_back);                                      \
        return *this;                                                                                   \
    }                                                                                                   \
    OpSelf &create_dynamic_input_byindex_##x(uint32_t num, size_t index)                                \
    {                                                                                                   \
        Operator::DynamicInputRegisterByIndex(#x, num, index);                                          \
        return *this;                                                                                   \
    }                                                                                                   \
    OpSelf &set_dynamic_input_##x(uint32_t dst_index, Operator &v)                                      \
    {                                                                                                   \
        Operator::SetInput(#x, dst_index, v);                                                           \
        return *this;                                                                                   \
    }                                                                                                   \
    OpSelf &set_dynamic_input_##x(uint32_t dst_index, Operator &v, const char *src_name)                \
    {                                                                                                   \
        Operator::SetInput(#x, dst_index, v, src_name);                                                 \
        return *this;                                                                                   \
    }                                                                                                   \
    OpSelf &set_dynamic_input_##x(uint32_t dst_index, Operator &v, const std::string &src_name)         \
    {                                                                                                   \
        return set_dynamic_input_##x(dst_index, v, src_name.c_str());                                   \
    }                                                                                                   \
    TensorDesc get_dynamic_input_desc_##x(uint32_t index) const                                         \
    {                                                                                                   \
        return Operator::GetDynamicInputDesc(#x, index);                                                \
    }                                                                                                   \
    graphStatus update_dynamic_input_desc_##x(uint32_t index, const TensorDesc &desc)                   \
    {                                                                                                   \
        return Operator::UpdateDynamicInputDesc(#x, index, desc);                                       \
    }                                                                                                   \
                                                                                                        \
private:                                                                                                \
    void declare_dynamic_input_##x()                                                                    \
    {                                                                                                   \
        Operator::DynamicInputRegister(#x, 0, #t, true);                                                \
        OpDeclaration()

#define OUTPUT(x, t)                                                                                            \
    CAIRN_OP_NEXT(declare_output_##x)                                                                           \
    CAIRN_OP_NAME(out, x)                                                                                       \
    TensorDesc get_output_desc_##x() const { return Operator::GetOutputDescByName(#x); }                        \
    graphStatus update_output_desc_##x(const TensorDesc &desc) { return Operator::UpdateOutputDesc(#x, desc); } \
                                                                                                                \
private:                                                                                                        \
    void declare_output_##x()                                                                                   \
    {                                                                                                           \
        Operator::OutputRegister(#x, #t);                                                                       \
        OpDeclaration()

#define DYNAMIC_OUTPUT(x, t)                                                                \
    CAIRN_OP_NEXT(declare_dynamic_output_##x)                                               \
    OpSelf &create_dynamic_output_##x(uint32_t num, bool is_push_back = true)               \
    {                                                                                       \
        Operator::DynamicOutputRegister(#x, num, #t, is_push_back);                         \
        return *this;                                                                       \
    }                                                                                       \
    TensorDesc get_dynamic_output_desc_##x(uint32_t index) const                            \
    {                                                                                       \
        return Operator::GetDynamicOutputDesc(#x, index);                                   \
    }                                                                                       \
    graphStatus update_dynamic_output_desc_##x(uint32_t index, const TensorDesc &desc)      \
    {                                                                                       \
        return Operator::UpdateDynamicOutputDesc(#x, index, desc);                          \
    }                                                                                       \
                                                                                            \
private:                                                                                    \
    void declare_dynamic_output_##x()                                                       \
    {                                                                                       \
        Operator::DynamicOutputRegister(#x, 0, #t, true);                                   \
        OpDeclaration()

/* Setters that only attributes of text have. */
#define CAIRN_OP_SET_Int(x)
#define CAIRN_OP_SET_Float(x)
#define CAIRN_OP_SET_Bool(x)
#define CAIRN_OP_SET_Tensor(x)
#define CAIRN_OP_SET_Type(x)
#define CAIRN_OP_SET_ListInt(x)
#define CAIRN_OP_SET_ListFloat(x)
#define CAIRN_OP_SET_ListBool(x)
#define CAIRN_OP_SET_ListTensor(x)
#define CAIRN_OP_SET_Bytes(x)
#define CAIRN_OP_SET_ListListInt(x)
#define CAIRN_OP_SET_ListType(x)
#define CAIRN_OP_SET_AscendString(x)
#define CAIRN_OP_SET_ListAscendString(x)
#define CAIRN_OP_SET_String(x)                                                                               \
    OpSelf &set_attr_##x(const char *v)                                                                      \
    {                                                                                                        \
        Operator::SetAttr(#x, v);                                                                            \
        return *this;                                                                                        \
    }                                                                                                        \
    graphStatus get_attr_##x(AscendString &value) const { return Operator::GetAttr(#x, value); }
#define CAIRN_OP_SET_ListString(x)                                                                           \
    OpSelf &set_attr_##x(const std::vector<AscendString> &v)                                                 \
    {                                                                                                        \
        Operator::SetAttr(#x, v);                                                                            \
        return *this;                                                                                        \
    }                                                                                                        \
    graphStatus get_attr_##x(std::vector<AscendString> &value) const { return Operator::GetAttr(#x, value); }

#define CAIRN_OP_ATTR(x, Type)                        \
    CAIRN_OP_NAME(attr, x)                            \
    CAIRN_OP_SET_##Type(x)                            \
    OpSelf &set_attr_##x(const Op##Type &v)           \
    {                                                 \
        Operator::SetAttr(#x, AttrAsPassed(v));       \
        return *this;                                 \
    }

#define ATTR(x, Type, ...)                                                        \
    CAIRN_OP_NEXT(declare_attr_##x)                                               \
    CAIRN_OP_ATTR(x, Type)                                                        \
    Op##Type get_attr_##x() const                                                 \
    {                                                                             \
        Op##Type value = __VA_ARGS__;                                             \
        AttrInto(*this, #x, value);                                               \
        return value;                                                             \
    }                                                                             \
                                                                                  \
private:                                                                          \
    void declare_attr_##x()                                                       \
    {                                                                             \
        const Op##Type value = __VA_ARGS__;                                       \
        Operator::AttrRegister(#x, AttrAsPassed(value));                          \
        OpDeclaration()

#define REQUIRED_ATTR(x, Type)                              \
    CAIRN_OP_NEXT(declare_required_attr_##x)                \
    CAIRN_OP_ATTR(x, Type)                                  \
    Op##Type get_attr_##x() const                           \
    {                                                       \
        Op##Type value = Op##Type();                        \
        AttrInto(*this, #x, value);                         \
        return value;                                       \
    }                                                       \
                                                            \
private:                                                    \
    void declare_required_attr_##x()                        \
    {                                                       \
        Operator::RequiredAttrWithTypeRegister(#x, #Type);  \
        OpDeclaration()

#define DATATYPE(x, t)                          \
    CAIRN_OP_NEXT(declare_datatype_##x)         \
private:                                        \
    void declare_datatype_##x()                 \
    {                                           \
        Operator::DataTypeRegister(#x, t);      \
        OpDeclaration()

#define GRAPH(x)                                                                                  \
    CAIRN_OP_NEXT(declare_graph_##x)                                                              \
    CAIRN_OP_NAME(graph, x)                                                                       \
    SubgraphBuilder get_subgraph_builder_##x() const { return Operator::GetSubgraphBuilder(#x); } \
    OpSelf &set_subgraph_builder_##x(const SubgraphBuilder &v)                                    \
    {                                                                                             \
        Operator::SetSubgraphBuilder(#x, 0, v);                                                   \
        return *this;                                                                             \
    }                                                                                             \
    Graph get_subgraph_##x() const { return Operator::GetSubgraph(#x); }                          \
                                                                                                  \
private:                                                                                          \
    void declare_graph_##x()                                                                      \
    {                                                                                             \
        Operator::SubgraphRegister(#x, false);                                                    \
        Operator::SubgraphCountRegister(#x, 1);                                                   \
        OpDeclaration()

#define DYNAMIC_GRAPH(x)                                                                       \
    CAIRN_OP_NEXT(declare_graph_##x)                                                           \
    CAIRN_OP_NAME(graph, x)                                                                    \
    OpSelf &create_dynamic_subgraph_##x(uint32_t num)                                          \
    {                                                                                          \
        Operator::SubgraphCountRegister(#x, num);                                              \
        return *this;                                                                          \
    }                                                                                          \
    SubgraphBuilder get_dynamic_subgraph_builder_##x(uint32_t index) const                     \
    {                                                                                          \
        return Operator::GetDynamicSubgraphBuilder(#x, index);                                 \
    }                                                                                          \
    Graph get_dynamic_subgraph_##x(uint32_t index) const { return Operator::GetDynamicSubgraph(#x, index); } \
    OpSelf &set_dynamic_subgraph_builder_##x(uint32_t index, const SubgraphBuilder &v)         \
    {                                                                                          \
        Operator::SetSubgraphBuilder(#x, index, v);                                            \
        return *this;                                                                          \
    }                                                                                          \
                                                                                               \
private:                                                                                       \
    void declare_graph_##x()                                                                   \
    {                                                                                          \
        Operator::SubgraphRegister(#x, true);                                                  \
        OpDeclaration()

#define CAIRN_OP_REGISTER(x, number)                                             \
    static const OperatorCreatorRegister CAIRN_OP_PASTE(creator_of_op_, number)( \
        #x, [](const AscendString &name) -> Operator { return x(name); });
#define CAIRN_OP_PASTE(a, b) a##b

/* Ends the class, and leaves the namespace open. */
#define CAIRN_OP_CLASS_END(x)                                                                            \
    Then();                                                                                              \
    }                                                                                                    \
    static_assert(std::is_same<x, OpSelf>::value, "OP_END_FACTORY_REG takes the name that REG_OP took"); \
    };

/** The last macro of a class: the factory makes operators of this type from now on. */
#define OP_END_FACTORY_REG(x)         \
    CAIRN_OP_CLASS_END(x)             \
    CAIRN_OP_REGISTER(x, __COUNTER__) \
    }

/** The last macro of a class of a built-in type, which the factory knows without any registration. */
#define CAIRN_OP_END_BUILT_IN(x) \
    CAIRN_OP_CLASS_END(x)        \
    }

/* Functions of the user for a type: what they are called is what they get. */
#define IMPLEMT_INFERFUNC(op_name, func_name) static graphStatus func_name(op::op_name &op)
#define IMPLEMT_COMMON_INFERFUNC(func_name) static graphStatus func_name(Operator &op)
#define IMPLEMT_VERIFIER(op_name, func_name) static graphStatus func_name(op::op_name op)
#define INFER_VERIFY_FUNC(op_name, x) [](Operator &v) -> graphStatus { return x(static_cast<op::op_name &>(v)); }
#define COMMON_INFER_VERIFY_FUNC(x) [](Operator &v) -> graphStatus { return x(v); }
#define CAIRN_OP_FUNCTION(Kind, op_name, function, number) \
    static const Kind CAIRN_OP_PASTE(function_of_op_, number)(#op_name, function)
#define CAIRN_OP_FUNCTION_OF(Kind, op_name, function, number) CAIRN_OP_FUNCTION(Kind, op_name, function, number)
#define INFER_FUNC_REG(op_name, x) \
    CAIRN_OP_FUNCTION_OF(InferShapeFuncRegister, op_name, INFER_VERIFY_FUNC(op_name, x), __COUNTER__)
#define COMMON_INFER_FUNC_REG(op_name, x) \
    CAIRN_OP_FUNCTION_OF(InferShapeFuncRegister, op_name, COMMON_INFER_VERIFY_FUNC(x), __COUNTER__)
#define VERIFY_FUNC_REG(op_name, x) \
    CAIRN_OP_FUNCTION_OF(VerifyFuncRegister, op_name, INFER_VERIFY_FUNC(op_name, x), __COUNTER__)

}  // namespace ge

#endif

#endif
