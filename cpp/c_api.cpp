// Functions that programs look up by name.

#include "calls.h"
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"
#include "graph/operator_factory.h"
#include "operator.h"

using Pairs = std::vector<std::pair<ge::AscendString, ge::AscendString>>;

// Appends names and types, which the engine shows in turn, as pairs.
static void append_pairs(const CairnOperator *op, void (*show)(const CairnOperator *, void *, CairnTextCallback), Pairs &pairs)
{
    std::vector<ge::AscendString> texts;
    show(op, &texts, cairn::append_text);
    for (size_t at = 0; at + 1 < texts.size(); at += 2) {
        pairs.emplace_back(texts[at], texts[at + 1]);
    }
}

extern "C" {

ge::Status GeSessionLoadGraph(ge::Session &session, uint32_t graph_id,
                              const std::map<ge::AscendString, ge::AscendString> &options, void *stream)
{
    return session.LoadGraph(graph_id, options, stream);
}

ge::Status GeSessionExecuteGraphWithStreamAsync(ge::Session &session, uint32_t graph_id, void *stream,
                                                const std::vector<gert::Tensor> &inputs,
                                                std::vector<gert::Tensor> &outputs)
{
    return session.ExecuteGraphWithStreamAsync(graph_id, stream, inputs, outputs);
}

ge::Status GeSessionGraphDebugJSONPrint(ge::Session &session, uint32_t graph_id, uint32_t flags,
                                        ge::AscendString &json_result)
{
    return session.GraphDebugJSONPrint(graph_id, flags, json_result);
}

ge::Status GetRegisteredIrDef(const char *op_type, Pairs &inputs, Pairs &outputs, Pairs &attrs)
{
    const ge::Operator op = ge::OperatorFactory::CreateOperator("_", op_type);
    if (op.IsEmpty()) {
        return ge::FAILED;
    }
    const CairnOperator *const handle = ge::OperatorBody::Of(op);
    append_pairs(handle, CairnOperatorIrInputs, inputs);
    append_pairs(handle, CairnOperatorIrOutputs, outputs);
    append_pairs(handle, CairnOperatorIrAttrs, attrs);
    return ge::SUCCESS;
}

ge::Status GetRegisteredIrDefV2(const char *op_type, Pairs &inputs, Pairs &outputs, Pairs &attrs)
{
    return GetRegisteredIrDef(op_type, inputs, outputs, attrs);
}

bool IsIrRepSupport(const char *)
{
    return false;
}

}  // extern "C"
