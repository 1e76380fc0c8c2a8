// The texts of codes. The object is never destroyed: programs add to it until they end, and may have put
// `std::string`s of another C++ ABI into it.

#include <map>
#include <mutex>

#include "ge/ge_api_error_codes.h"

namespace ge {

// Holds the one StatusFactory and the texts.
class StatusFactoryPlace {
public:
    StatusFactory factory;
    std::mutex lock;
    std::map<uint32_t, AscendString> texts = {
        {SUCCESS, "success"},
        {FAILED, "failed"},
        {MEMALLOC_FAILED, "memory could not be allocated"},
        {PARAM_INVALID, "a parameter is not valid"},
        {END_OF_SEQUENCE, "the end of the sequence"},
        {UNSUPPORTED, "not supported"},
        {OUT_OF_MEMORY, "out of memory"},
        {GE_CLI_INIT_FAILED, "the engine could not be started"},
        {GE_CLI_SESS_REMOVE_FAILED, "the graph could not be removed"},
        {GE_CLI_SESS_RUN_FAILED, "the graph could not be run"},
        {GE_CLI_GE_NOT_INITIALIZED, "the engine is not started: call GEInitialize first"},
        {GE_SESSION_MANAGER_NOT_INIT, "the engine is not started: call GEInitialize first"},
        {GE_GRAPH_ALREADY_RUNNING, "the graph is running already"},
        {GE_GRAPH_GRAPH_NOT_EXIST, "there is no graph of that id"},
        {GE_GRAPH_GRAPH_ALREADY_EXIST, "the id is in use"},
        {GE_GRAPH_GRAPH_IS_RUNNING, "the graph is running"},
        {GE_GRAPH_GET_IN_OUT_FAILED, "inputs or outputs do not suit the graph"},
        {GE_GRAPH_GRAPH_NODE_NULL, "there is no such graph"},
        {GE_GRAPH_UNSUPPORTED, "the graph does not allow it"},
        {GE_GRAPH_NOT_BUILT, "the graph is not compiled"},
        {GE_GRAPH_REPEAT_OPERATION, "it was done before, and can be done once"},
    };

    static StatusFactoryPlace &Instance()
    {
        static StatusFactoryPlace *const holder = new StatusFactoryPlace();
        return *holder;
    }

private:
    ~StatusFactoryPlace() = delete;
};

StatusFactory *StatusFactory::Instance()
{
    return &StatusFactoryPlace::Instance().factory;
}

void StatusFactory::RegisterErrorNo(const uint32_t err, const char *const desc)
{
    if (desc == nullptr) {
        return;
    }
    StatusFactoryPlace &holder = StatusFactoryPlace::Instance();
    const std::lock_guard<std::mutex> guard(holder.lock);
    holder.texts.emplace(err, AscendString(desc));
}

AscendString StatusFactory::GetErrDescV2(const uint32_t err)
{
    StatusFactoryPlace &holder = StatusFactoryPlace::Instance();
    const std::lock_guard<std::mutex> guard(holder.lock);
    const auto found = holder.texts.find(err);
    return found == holder.texts.end() ? AscendString("") : found->second;
}

}  // namespace ge
