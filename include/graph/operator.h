/*
 * Operators: nodes before they are in a graph. C++ only.
 *
 * Functions that take a name come twice, with `const char *` and with `std::string`. Where a function cannot
 * say that it failed, the text is in GEGetErrorMsgV2.
 */
#ifndef CAIRN_GRAPH_OPERATOR_H
#define CAIRN_GRAPH_OPERATOR_H

#ifdef __cplusplus

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ge_error_codes.h"
#include "graph/inference_context.h"
#include "graph/tensor.h"
#include "graph/types.h"

#ifndef USER_GE_LOGI
#define USER_GE_LOGI(...)
#endif
#ifndef USER_GE_LOGW
#define USER_GE_LOGW(...)
#endif
#ifndef USER_GE_LOGE
#define USER_GE_LOGE(...)
#endif

namespace ge {

class AttrValue;
class Graph;
class NamedAttrs;
class Operator;
class OperatorBody;

using SubgraphBuilder = std::function<Graph()>;
using OperatorPtr = std::shared_ptr<Operator>;

using std::function;
using std::shared_ptr;
using std::string;

/**
 * A node to be: its inputs, outputs and attributes, and what feeds it. Copies are the same operator. An
 * operator keeps alive what feeds it.
 */
class Operator {
public:
    using OpInt = int64_t;
    using OpFloat = float32_t;
    using OpString = std::string;
    using OpAscendString = AscendString;
    using OpBool = bool;
    using OpTensor = Tensor;
    using OpType = ge::DataType;
    using OpNamedAttrs = ge::NamedAttrs;
    using OpListInt = std::vector<int64_t>;
    using OpListFloat = std::vector<float32_t>;
    using OpListString = std::vector<std::string>;
    using OpListAcendString = std::vector<AscendString>;
    using OpListAscendString = OpListAcendString;
    using OpListBool = std::vector<bool>;
    using OpListTensor = std::vector<Tensor>;
    using OpBytes = std::vector<uint8_t>;
    using OpListListInt = std::vector<std::vector<int64_t>>;
    using OpListType = std::vector<ge::DataType>;
    using OpListNamedAttrs = std::vector<ge::NamedAttrs>;

    /** None: IsEmpty is true, and everything else does nothing or fails. */
    Operator() {}
    /** With a name of the type and a number. */
    explicit Operator(const std::string &type);
    explicit Operator(const char_t *type);
    Operator(const std::string &name, const std::string &type);
    Operator(const AscendString &name, const AscendString &type);
    Operator(const char_t *name, const char_t *type);
    virtual ~Operator() = default;

    bool IsEmpty() const;
    std::string GetName() const;
    graphStatus GetName(AscendString &name) const;
    std::string GetOpType() const;
    graphStatus GetOpType(AscendString &type) const;

    /* Feeds the input `dst_name` from an output of another operator: its first, or the one named. */
    Operator &SetInput(const std::string &dst_name, const Operator &src_oprt);
    Operator &SetInput(const char_t *dst_name, const Operator &src_oprt);
    Operator &SetInput(const std::string &dst_name, const Operator &src_oprt, const std::string &name);
    Operator &SetInput(const char_t *dst_name, const Operator &src_oprt, const char_t *name);
    Operator &SetInput(const std::string &dst_name, const Operator &src_oprt, uint32_t index);
    Operator &SetInput(const char_t *dst_name, const Operator &src_oprt, uint32_t index);
    Operator &SetInput(uint32_t dst_index, const Operator &src_oprt, uint32_t src_index);
    /* The same for the tensor `dst_index` of a dynamic input. */
    Operator &SetInput(const char_t *dst_name, uint32_t dst_index, const Operator &src_oprt, const char_t *name);
    Operator &SetInput(const char_t *dst_name, uint32_t dst_index, const Operator &src_oprt);
    /** Runs this operator after another one. */
    Operator &AddControlInput(const Operator &src_oprt);

    /** The value of an input that a Const feeds; GRAPH_FAILED if none does. */
    graphStatus GetInputConstData(const std::string &dst_name, Tensor &data) const;
    graphStatus GetInputConstData(const char_t *dst_name, Tensor &data) const;

    /* Descriptions of inputs and outputs; a name or index that does not exist gives a TensorDesc(). */
    TensorDesc GetInputDesc(const std::string &name) const;
    TensorDesc GetInputDescByName(const char_t *name) const;
    TensorDesc GetInputDesc(uint32_t index) const;
    TensorDesc GetOutputDesc(const std::string &name) const;
    TensorDesc GetOutputDescByName(const char_t *name) const;
    TensorDesc GetOutputDesc(uint32_t index) const;
    TensorDesc GetDynamicInputDesc(const std::string &name, uint32_t index) const;
    TensorDesc GetDynamicInputDesc(const char_t *name, uint32_t index) const;
    TensorDesc GetDynamicOutputDesc(const std::string &name, uint32_t index) const;
    TensorDesc GetDynamicOutputDesc(const char_t *name, uint32_t index) const;
    /** GRAPH_FAILED if there is no such input. */
    graphStatus TryGetInputDesc(const std::string &name, TensorDesc &tensor_desc) const;
    graphStatus TryGetInputDesc(const char_t *name, TensorDesc &tensor_desc) const;
    graphStatus UpdateInputDesc(const std::string &name, const TensorDesc &tensor_desc);
    graphStatus UpdateInputDesc(const char_t *name, const TensorDesc &tensor_desc);
    graphStatus UpdateInputDesc(const uint32_t index, const TensorDesc &tensor_desc);
    graphStatus UpdateOutputDesc(const std::string &name, const TensorDesc &tensor_desc);
    graphStatus UpdateOutputDesc(const char_t *name, const TensorDesc &tensor_desc);
    graphStatus UpdateOutputDesc(const uint32_t index, const TensorDesc &tensor_desc);
    graphStatus UpdateDynamicInputDesc(const std::string &name, uint32_t index, const TensorDesc &tensor_desc);
    graphStatus UpdateDynamicInputDesc(const char_t *name, uint32_t index, const TensorDesc &tensor_desc);
    graphStatus UpdateDynamicOutputDesc(const std::string &name, uint32_t index, const TensorDesc &tensor_desc);
    graphStatus UpdateDynamicOutputDesc(const char_t *name, uint32_t index, const TensorDesc &tensor_desc);

    /** How many tensors a dynamic input or output has; 0 if there is none of that name. */
    int32_t GetDynamicInputNum(const std::string &name) const;
    int32_t GetDynamicInputNum(const char_t *name) const;
    int32_t GetDynamicOutputNum(const std::string &name) const;
    int32_t GetDynamicOutputNum(const char_t *name) const;
    /** All of them, including each tensor of dynamic inputs and outputs. */
    size_t GetInputsSize() const;
    size_t GetOutputsSize() const;

    /** Writes the descriptions of outputs that follow from those of the inputs. */
    graphStatus InferShapeAndType();
    void SetInferenceContext(const InferenceContextPtr &inference_context);
    InferenceContextPtr GetInferenceContext() const;
    /** GRAPH_SUCCESS if every attribute that the operator declares has a value. */
    graphStatus VerifyAllAttr(bool disable_common_verifier = false);

    /** Names and types (VT_INT, VT_LIST_INT ...) of all attributes that are set or declared. */
    const std::map<std::string, std::string> GetAllAttrNamesAndTypes() const;
    graphStatus GetAllAttrNamesAndTypes(std::map<AscendString, AscendString> &attr_name_types) const;
    /** The same of those that the operator declares. */
    graphStatus GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString> &attr_name_types) const;

    /* Attributes. The type of the value is the type of the attribute; GetAttr fails where it is another one. */
#define CAIRN_ATTRIBUTE(SET, GET)                                      \
    Operator &SetAttr(const std::string &name, SET attr_value);        \
    Operator &SetAttr(const char_t *name, SET attr_value);             \
    graphStatus GetAttr(const std::string &name, GET attr_value) const; \
    graphStatus GetAttr(const char_t *name, GET attr_value) const;
    CAIRN_ATTRIBUTE(int64_t, int64_t &)
    CAIRN_ATTRIBUTE(int32_t, int32_t &)
    CAIRN_ATTRIBUTE(uint32_t, uint32_t &)
    CAIRN_ATTRIBUTE(float32_t, float32_t &)
    CAIRN_ATTRIBUTE(bool, bool &)
    CAIRN_ATTRIBUTE(const ge::DataType &, ge::DataType &)
    CAIRN_ATTRIBUTE(const Tensor &, Tensor &)
    CAIRN_ATTRIBUTE(const OpBytes &, OpBytes &)
    CAIRN_ATTRIBUTE(const std::vector<int64_t> &, std::vector<int64_t> &)
    CAIRN_ATTRIBUTE(const std::vector<int32_t> &, std::vector<int32_t> &)
    CAIRN_ATTRIBUTE(const std::vector<uint32_t> &, std::vector<uint32_t> &)
    CAIRN_ATTRIBUTE(const std::vector<float32_t> &, std::vector<float32_t> &)
    CAIRN_ATTRIBUTE(const std::vector<bool> &, std::vector<bool> &)
    CAIRN_ATTRIBUTE(const std::vector<ge::DataType> &, std::vector<ge::DataType> &)
    CAIRN_ATTRIBUTE(const std::vector<Tensor> &, std::vector<Tensor> &)
    CAIRN_ATTRIBUTE(const std::vector<std::vector<int64_t>> &, std::vector<std::vector<int64_t>> &)
    CAIRN_ATTRIBUTE(AttrValue &&, AttrValue &)
#undef CAIRN_ATTRIBUTE
    Operator &SetAttr(const char_t *name, const AttrValue &attr_value);
    Operator &SetAttr(const std::string &name, std::initializer_list<int64_t> &&attr_value);
    Operator &SetAttr(const char_t *name, std::initializer_list<int64_t> &&attr_value);
    Operator &SetAttr(const std::string &name, const std::string &attr_value);
    Operator &SetAttr(const char_t *name, const char_t *attr_value);
    Operator &SetAttr(const char_t *name, const AscendString &attr_value);
    graphStatus GetAttr(const std::string &name, std::string &attr_value) const;
    graphStatus GetAttr(const char_t *name, AscendString &attr_value) const;
    Operator &SetAttr(const std::string &name, const std::vector<std::string> &attr_value);
    Operator &SetAttr(const char_t *name, const std::vector<AscendString> &attr_values);
    graphStatus GetAttr(const std::string &name, std::vector<std::string> &attr_value) const;
    graphStatus GetAttr(const char_t *name, std::vector<AscendString> &attr_values) const;

    /* Attributes of one input or output, by its index or its name. */
#define CAIRN_TENSOR_ATTRIBUTE(SET, GET)                                                               \
    Operator &SetInputAttr(const int32_t index, const char_t *name, SET attr_value);                   \
    Operator &SetInputAttr(const char_t *dst_name, const char_t *name, SET attr_value);                \
    Operator &SetOutputAttr(const int32_t index, const char_t *name, SET attr_value);                  \
    Operator &SetOutputAttr(const char_t *dst_name, const char_t *name, SET attr_value);               \
    graphStatus GetInputAttr(const int32_t index, const char_t *name, GET attr_value) const;           \
    graphStatus GetInputAttr(const char_t *dst_name, const char_t *name, GET attr_value) const;        \
    graphStatus GetOutputAttr(const int32_t index, const char_t *name, GET attr_value) const;          \
    graphStatus GetOutputAttr(const char_t *dst_name, const char_t *name, GET attr_value) const;
    CAIRN_TENSOR_ATTRIBUTE(const AscendString &, AscendString &)
    CAIRN_TENSOR_ATTRIBUTE(int64_t, int64_t &)
    CAIRN_TENSOR_ATTRIBUTE(int32_t, int32_t &)
    CAIRN_TENSOR_ATTRIBUTE(uint32_t, uint32_t &)
    CAIRN_TENSOR_ATTRIBUTE(bool, bool &)
    CAIRN_TENSOR_ATTRIBUTE(float32_t, float32_t &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<AscendString> &, std::vector<AscendString> &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<int64_t> &, std::vector<int64_t> &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<int32_t> &, std::vector<int32_t> &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<uint32_t> &, std::vector<uint32_t> &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<bool> &, std::vector<bool> &)
    CAIRN_TENSOR_ATTRIBUTE(const std::vector<float32_t> &, std::vector<float32_t> &)
#undef CAIRN_TENSOR_ATTRIBUTE
    Operator &SetInputAttr(const int32_t index, const char_t *name, const char_t *attr_value);
    Operator &SetInputAttr(const char_t *dst_name, const char_t *name, const char_t *attr_value);
    Operator &SetOutputAttr(const int32_t index, const char_t *name, const char_t *attr_value);
    Operator &SetOutputAttr(const char_t *dst_name, const char_t *name, const char_t *attr_value);

    /** Does nothing: operators free each other by themselves here. */
    void BreakConnect() const;

    /*
     * Subgraphs: functions that build them, by the name that the operator declares. SetSubgraphBuilder calls the
     * function; what it builds is the operator's from then on.
     */
    size_t GetSubgraphNamesCount() const;
    std::vector<std::string> GetSubgraphNames() const;
    graphStatus GetSubgraphNames(std::vector<AscendString> &names) const;
    SubgraphBuilder GetSubgraphBuilder(const std::string &name) const;
    SubgraphBuilder GetSubgraphBuilder(const char_t *name) const;
    Graph GetSubgraph(const std::string &name) const;
    Graph GetSubgraph(const char_t *name) const;
    SubgraphBuilder GetDynamicSubgraphBuilder(const std::string &name, uint32_t index) const;
    SubgraphBuilder GetDynamicSubgraphBuilder(const char_t *name, uint32_t index) const;
    Graph GetDynamicSubgraph(const std::string &name, uint32_t index) const;
    Graph GetDynamicSubgraph(const char_t *name, uint32_t index) const;
    void SubgraphCountRegister(const char_t *ir_name, uint32_t count);
    void SetSubgraphBuilder(const char_t *ir_name, uint32_t index, const SubgraphBuilder &builder);

    /** Declares a dynamic input the first time; adds `num` tensors to it. */
    void DynamicInputRegister(const char_t *name, const uint32_t num, bool is_push_back = true);
    void DynamicInputRegister(const char_t *name, const uint32_t num, const char_t *datatype_symbol,
                              bool is_push_back = true);
    void DynamicInputRegisterByIndex(const char_t *name, const uint32_t num, size_t index);
    /** The same for outputs. */
    void DynamicOutputRegister(const char_t *name, const uint32_t num, bool is_push_back = true);
    void DynamicOutputRegister(const char_t *name, const uint32_t num, const char_t *datatype_symbol,
                               bool is_push_back = true);
    /** Declares an attribute and its default. */
    void AttrRegister(const char_t *name, const AttrValue &attr_value);

protected:
#define CAIRN_ATTRIBUTE(TYPE)                              \
    void AttrRegister(const std::string &name, TYPE attr_value); \
    void AttrRegister(const char_t *name, TYPE attr_value);
    CAIRN_ATTRIBUTE(int64_t)
    CAIRN_ATTRIBUTE(float32_t)
    CAIRN_ATTRIBUTE(bool)
    CAIRN_ATTRIBUTE(const ge::DataType &)
    CAIRN_ATTRIBUTE(const Tensor &)
    CAIRN_ATTRIBUTE(const OpBytes &)
    CAIRN_ATTRIBUTE(const AscendString &)
    CAIRN_ATTRIBUTE(const std::vector<int64_t> &)
    CAIRN_ATTRIBUTE(const std::vector<float32_t> &)
    CAIRN_ATTRIBUTE(const std::vector<bool> &)
    CAIRN_ATTRIBUTE(const std::vector<ge::DataType> &)
    CAIRN_ATTRIBUTE(const std::vector<Tensor> &)
    CAIRN_ATTRIBUTE(const std::vector<AscendString> &)
    CAIRN_ATTRIBUTE(const std::vector<std::vector<int64_t>> &)
#undef CAIRN_ATTRIBUTE
    void AttrRegister(const std::string &name, const std::string &attr_value);
    void AttrRegister(const std::string &name, const std::vector<std::string> &attr_value);
    void AttrRegister(const char_t *name, const char_t *attr_value);

    /* Declarations of inputs, outputs and attributes. Sets of types are read by nobody. */
    void InputRegister(const std::string &name);
    void InputRegister(const char_t *name);
    void InputRegister(const char_t *name, const char_t *datatype_symbol);
    void OptionalInputRegister(const std::string &name);
    void OptionalInputRegister(const char_t *name);
    void OptionalInputRegister(const char_t *name, const char_t *datatype_symbol);
    void OutputRegister(const std::string &name);
    void OutputRegister(const char_t *name);
    void OutputRegister(const char_t *name, const char_t *datatype_symbol);
    void DynamicInputRegister(const std::string &name, const uint32_t num, bool is_push_back = true);
    void DynamicInputRegisterByIndex(const std::string &name, const uint32_t num, size_t index);
    void DynamicOutputRegister(const std::string &name, const uint32_t num, bool is_push_back = true);
    void RequiredAttrRegister(const std::string &name);
    void RequiredAttrRegister(const char_t *name);
    /** `type` is the type's name in an op class: Int, ListInt, String ... */
    void RequiredAttrWithTypeRegister(const char_t *name, const char_t *type);
    void DataTypeRegister(const char_t *datatype_symbol, const TensorType &type_range);
    void DataTypeRegister(const char_t *datatype_symbol, const ListTensorType &list_type_range);
    void DataTypeRegister(const char_t *datatype_symbol, const Promote &promote_rule);

    /** Functions of the user; InferShapeAndType and VerifyAllAttr call them before anything of ours. */
    void InferFuncRegister(const std::function<graphStatus(Operator &)> &func);
    void VerifierFuncRegister(const std::function<graphStatus(Operator &)> &func);
    void InferFormatFuncRegister(const std::function<graphStatus(Operator &)> &func);
    graphStatus VerifyAll();

    Operator &SetInput(const std::string &dst_name, uint32_t dst_index, const Operator &src_oprt);
    Operator &SetInput(const std::string &dst_name, uint32_t dst_index, const Operator &src_oprt,
                       const std::string &name);
    void SubgraphRegister(const std::string &ir_name, bool dynamic);
    void SubgraphRegister(const char_t *ir_name, bool dynamic);
    void SubgraphCountRegister(const std::string &ir_name, uint32_t count);
    void SetSubgraphBuilder(const std::string &ir_name, uint32_t index, const SubgraphBuilder &builder);

private:
    friend class OperatorBody;
    std::shared_ptr<OperatorBody> operator_impl_{nullptr};
};

}  // namespace ge

#endif

#endif
