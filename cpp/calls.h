// What Session and GeSession have in common.
#ifndef CAIRN_CPP_CALLS_H
#define CAIRN_CPP_CALLS_H

#include <memory>
#include <string>
#include <utility>

#include "bridge.h"
#include "description.h"
#include "ge/ge_api_types.h"
#include "ge/ge_error_codes.h"
#include "graph.h"
#include "user_call.h"
#include "run.h"
#include "text.h"

namespace cairn __attribute__((visibility("hidden"))) {

using OptionMap = std::map<ge::AscendString, ge::AscendString>;

// Most functions tell success from failure only; the error message says more.
inline ge::Status success_or_failed(CairnStatus status)
{
    return status == 0 ? ge::SUCCESS : ge::FAILED;
}

// The same of a run; what a custom operator gave as its code stays. Codes of the engine itself begin with 0x5010.
inline ge::Status run_status(CairnStatus status)
{
    return status >> 16 == 0x5010 ? static_cast<ge::Status>(ge::FAILED) : status;
}

inline ge::Status unsupported(const char *function, const char *why)
{
    return fail(std::string(function) + ": " + why);
}

inline ge::Status add_graph(uint64_t session, uint32_t id, const ge::Graph &graph, const OptionMap &options, bool is_copy)
{
    CairnGraph *const handle = ge::GraphBody::Of(graph);
    if (handle == nullptr) {
        return fail("AddGraph: graph " + std::to_string(id) + " is empty: give it a name and nodes, or load it first");
    }
    const Options texts(options);
    return success_or_failed(CairnSessionAddGraph(session, id, handle, texts.data(), texts.count(), is_copy));
}

// Descriptions that replace those of the Data nodes.
class Descriptions {
public:
    explicit Descriptions(const std::vector<ge::Tensor> &tensors)
    {
        for (const ge::Tensor &tensor : tensors) {
            Add(tensor.GetTensorDesc());
        }
    }
    Descriptions() = default;
    void Add(const ge::TensorDesc &desc) { descriptions_.emplace_back(desc); }
    const CairnDesc *borrowed()
    {
        borrowed_.clear();
        for (Description &description : descriptions_) {
            borrowed_.push_back(description.borrowed());
        }
        return borrowed_.data();
    }
    size_t count() const { return descriptions_.size(); }

private:
    std::vector<Description> descriptions_;
    std::vector<CairnDesc> borrowed_;
};

inline ge::Status load_graph(uint64_t session, uint32_t id, const OptionMap &options, void *stream, bool compiles)
{
    const Options texts(options);
    return success_or_failed(CairnSessionLoadGraph(session, id, texts.data(), texts.count(), stream, compiles));
}

inline ge::Status json(uint64_t session, uint32_t id, uint32_t flags, ge::AscendString &result)
{
    return success_or_failed(CairnSessionJson(session, id, flags, &result, store_text));
}

// Calls the user's function once with the result of a run, on a thread of the engine.
template <typename T>
void call_back(void *context, CairnStatus status, CairnOutputs *result)
{
    using Callback = std::function<void(ge::Status, std::vector<T> &)>;
    const std::unique_ptr<Callback> callback(static_cast<Callback *>(context));
    char message[256] = "";
    CairnCallContext call_context = {};
    call_context.on_exit = [](const void *) { CairnSessionThreadExited(); };
    call_context.message = message;
    call_context.message_size = sizeof message;
    const bool returned = call_user(&call_context, [&] {
        std::vector<T> outputs;
        if (result != nullptr) {
            take_outputs(result, outputs);
        }
        (*callback)(run_status(status), outputs);
    });
    if (!returned) {
        (void)fail(std::string("RunGraphAsync: the callback threw an exception: ") + message);
    }
}

template <typename T>
ge::Status run_async(uint64_t session, uint32_t id, bool is_v2, const std::vector<T> &inputs,
                     std::function<void(ge::Status, std::vector<T> &)> callback)
{
    if (!callback) {
        return fail("RunGraphAsync: graph " + std::to_string(id) + ": the callback is empty");
    }
    const RunTensors in(inputs, true);
    auto *const context = new std::function<void(ge::Status, std::vector<T> &)>(std::move(callback));
    const CairnStatus status =
        CairnSessionRunAsync(session, id, is_v2, in.data(), in.count(), context, call_back<T>);
    if (status != 0) {
        delete context;
    }
    return success_or_failed(status);
}

}  // namespace cairn

#endif
