// What ge::Operator holds: the engine's operator, and user functions.
#ifndef CAIRN_CPP_OPERATOR_H
#define CAIRN_CPP_OPERATOR_H

#include <functional>
#include <map>
#include <vector>

#include "bridge.h"
#include "graph/graph.h"
#include "graph/operator.h"

namespace ge {

class __attribute__((visibility("hidden"))) OperatorBody {
public:
    explicit OperatorBody(CairnOperator *owned) : handle(owned) {}
    ~OperatorBody() { CairnOperatorRelease(handle); }
    OperatorBody(const OperatorBody &) = delete;
    OperatorBody &operator=(const OperatorBody &) = delete;

    // The engine's operator, borrowed; null for an empty one.
    static CairnOperator *Of(const Operator &op) { return op.operator_impl_ == nullptr ? nullptr : op.operator_impl_->handle; }
    // Of a handle that is handed over; an empty one for null.
    static Operator Adopt(CairnOperator *owned);

    CairnOperator *const handle;
    std::vector<AscendString> subgraph_names;
    std::map<AscendString, std::vector<SubgraphBuilder>> subgraphs;
    InferenceContextPtr context;
    std::function<graphStatus(Operator &)> infer;
    std::function<graphStatus(Operator &)> verify;
};

// Functions that were registered for a type; empty if none was.
std::function<graphStatus(Operator &)> registered_inference(const AscendString &type) __attribute__((visibility("hidden")));
std::function<graphStatus(Operator &)> registered_verification(const AscendString &type) __attribute__((visibility("hidden")));

// An operator of a type that a program declares; empty if none does.
Operator registered_operator(const AscendString &type) __attribute__((visibility("hidden")));

}  // namespace ge

#endif
