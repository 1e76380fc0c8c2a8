// User-defined operators: their registration, and how the engine calls them.

#include "graph/custom_op.h"

#include <map>
#include <mutex>
#include <set>

#include "execution_context.h"
#include "operator.h"
#include "register/op_impl_registry.h"
#include "text.h"
#include "user_call.h"

namespace {

// What a program registered for a type. It stays: the engine calls it until the process ends.
struct CustomOperator {
    ge::AscendString type;
    ge::BaseOpCreator creator;
    std::mutex lock;
    std::unique_ptr<ge::BaseCustomOp> object;
    ge::EagerExecuteOp *eager = nullptr;
};

// Indices of inputs whose values must be ready before `Execute`, by type. Filled while libraries are loaded, and never destroyed.
class DataDependencies {
public:
    static DataDependencies &Instance()
    {
        static DataDependencies *const dependencies = new DataDependencies();
        return *dependencies;
    }

    void Add(const ge::AscendString &type, std::initializer_list<int32_t> inputs)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        for (const int32_t input : inputs) {
            if (input >= 0) {
                types_[type].insert(static_cast<size_t>(input));
            }
        }
    }

    std::set<size_t> Of(const ge::AscendString &type)
    {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto found = types_.find(type);
        return found == types_.end() ? std::set<size_t>() : found->second;
    }

private:
    std::mutex lock_;
    std::map<ge::AscendString, std::set<size_t>> types_;
};

CairnOperator *find_declaration(void *owner)
{
    const ge::Operator op = ge::registered_operator(static_cast<CustomOperator *>(owner)->type);
    return op.IsEmpty() ? nullptr : CairnOperatorRetain(ge::OperatorBody::Of(op));
}

void needs_values(void *owner, void *context, void (*callback)(void *context, size_t input))
{
    for (const size_t input : DataDependencies::Instance().Of(static_cast<CustomOperator *>(owner)->type)) {
        callback(context, input);
    }
}

bool prepare(void *owner, CairnReadiness *readiness, const CairnCallContext *call_context)
{
    CustomOperator &op = *static_cast<CustomOperator *>(owner);
    return cairn::call_user(call_context, [&] {
        const std::lock_guard<std::mutex> guard(op.lock);
        if (op.object == nullptr) {
            op.object = op.creator();
            op.eager = dynamic_cast<ge::EagerExecuteOp *>(op.object.get());
        }
        *readiness = op.object == nullptr ? CAIRN_NO_OBJECT : op.eager == nullptr ? CAIRN_NOT_EAGER : CAIRN_READY;
    });
}

bool execute(void *owner, CairnCall *call, const CairnCallInfo *info, CairnStatus *status,
             const CairnCallContext *call_context)
{
    return cairn::call_user(call_context, [&] {
        gert::ExecutionContextBody body(call, *info);
        *status = static_cast<CustomOperator *>(owner)->eager->Execute(&body.Context());
    });
}

}  // namespace

namespace ge {

CustomOpCreatorRegister::CustomOpCreatorRegister(const AscendString &operator_type, const BaseOpCreator &op_creator)
{
    if (!op_creator) {
        cairn::fail(std::string("CustomOpCreatorRegister: the creator of ") + operator_type.GetString() + " is empty");
        return;
    }
    CustomOperator *const op = new CustomOperator();
    op->type = operator_type;
    op->creator = op_creator;
    CairnCustomOperator callbacks = {};
    callbacks.owner = op;
    callbacks.declared = find_declaration;
    callbacks.needs_values = needs_values;
    callbacks.prepare = prepare;
    callbacks.execute = execute;
    if (CairnCustomRegister(cairn::text(operator_type), &callbacks) != 0) {
        delete op;
    }
}

}  // namespace ge

namespace gert {

OpImplRegisterV2::OpImplRegisterV2(const char *op_type) : type_(op_type == nullptr ? "" : op_type) {}

OpImplRegisterV2 &OpImplRegisterV2::InputsDataDependency(std::initializer_list<int32_t> inputs)
{
    DataDependencies::Instance().Add(type_, inputs);
    return *this;
}

}  // namespace gert
