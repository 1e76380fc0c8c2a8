// Operators by type: the engine's, and those whose creators programs registered.

#include "graph/operator_factory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "operator.h"
#include "text.h"

namespace ge {

using OperatorFunction = std::function<graphStatus(Operator &)>;

// Filled while libraries are loaded, and read until the process ends: never destroyed.
class __attribute__((visibility("hidden"))) Registry {
public:
    static Registry &Instance()
    {
        static Registry *const registry = new Registry();
        return *registry;
    }

    template <typename T>
    void Add(std::map<AscendString, T> Registry::*table, const char_t *type, const T &value)
    {
        if (type != nullptr && value) {
            const std::lock_guard<std::mutex> guard(lock_);
            (this->*table)[type] = value;
        }
    }

    template <typename T>
    T Find(std::map<AscendString, T> Registry::*table, const AscendString &type)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto found = (this->*table).find(type);
        return found == (this->*table).end() ? T() : found->second;
    }

    std::vector<AscendString> Types()
    {
        const std::lock_guard<std::mutex> guard(lock_);
        std::vector<AscendString> types;
        for (const auto &creator : creators) {
            types.push_back(creator.first);
        }
        return types;
    }

    std::map<AscendString, OpCreatorV2> creators;
    std::map<AscendString, OperatorFunction> inferences;
    std::map<AscendString, OperatorFunction> verifications;

private:
    std::mutex lock_;
};

OperatorFunction registered_inference(const AscendString &type)
{
    return Registry::Instance().Find(&Registry::inferences, type);
}

OperatorFunction registered_verification(const AscendString &type)
{
    return Registry::Instance().Find(&Registry::verifications, type);
}

Operator registered_operator(const AscendString &type)
{
    const OpCreatorV2 creator = Registry::Instance().Find(&Registry::creators, type);
    return creator ? creator(AscendString("_")) : Operator();
}

Operator OperatorFactory::CreateOperator(const char_t *const operator_name, const char_t *const operator_type)
{
    if (operator_name == nullptr || operator_type == nullptr) {
        cairn::fail("OperatorFactory::CreateOperator: name and type must not be null");
        return Operator();
    }
    if (CairnOperatorExists(cairn::text(operator_type))) {
        Operator op(operator_name, operator_type);
        if (CairnOperatorFill(OperatorBody::Of(op))) {
            CairnOperatorIrGraphs(cairn::text(operator_type), &op, [](void *context, CairnText name, bool is_dynamic) {
                const std::string graph(name.data, name.size);
                static_cast<Operator *>(context)->SubgraphCountRegister(graph.c_str(), is_dynamic ? 0 : 1);
            });
            return op;
        }
    }
    const OpCreatorV2 creator = Registry::Instance().Find(&Registry::creators, AscendString(operator_type));
    if (creator) {
        return creator(AscendString(operator_name));
    }
    cairn::fail(std::string("OperatorFactory::CreateOperator: there is no type '") + operator_type + "'");
    return Operator();
}

graphStatus OperatorFactory::GetOpsTypeList(std::vector<AscendString> &all_ops)
{
    all_ops = Registry::Instance().Types();
    CairnOperatorTypes(&all_ops, cairn::append_text);
    std::sort(all_ops.begin(), all_ops.end());
    all_ops.erase(std::unique(all_ops.begin(), all_ops.end()), all_ops.end());
    return GRAPH_SUCCESS;
}

bool OperatorFactory::IsExistOp(const char_t *const operator_type)
{
    return operator_type != nullptr && (CairnOperatorExists(cairn::text(operator_type)) ||
                                        Registry::Instance().Find(&Registry::creators, AscendString(operator_type)));
}

OperatorCreatorRegister::OperatorCreatorRegister(const char_t *const operator_type, OpCreatorV2 const &op_creator)
{
    Registry::Instance().Add(&Registry::creators, operator_type, op_creator);
}

InferShapeFuncRegister::InferShapeFuncRegister(const char_t *const operator_type, const InferShapeFunc &infer_shape_func)
{
    Registry::Instance().Add(&Registry::inferences, operator_type, infer_shape_func);
}

VerifyFuncRegister::VerifyFuncRegister(const char_t *const operator_type, const VerifyFunc &verify_func)
{
    Registry::Instance().Add(&Registry::verifications, operator_type, verify_func);
}

}  // namespace ge
