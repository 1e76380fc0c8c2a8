#include "../bridge.h"
#include "ge/ge_api.h"
#include "strings.h"

namespace ge {

Session::Session(const std::map<std::string, std::string> &options) : Session(to_ascend_string(options)) {}

Status Session::AddGraph(uint32_t graph_id, const Graph &graph, const std::map<std::string, std::string> &options)
{
    return AddGraph(graph_id, graph, to_ascend_string(options));
}

Status Session::GetVariables(const std::vector<std::string> &var_names, std::vector<Tensor> &var_values)
{
    return GetVariables(to_ascend_string(var_names), var_values);
}

Status Session::RegisterCallBackFunc(const std::string &key, const pCallBackFunc &callback)
{
    const CairnText text{key.data(), key.size()};
    return CairnSessionCallback(GetSessionId(), text, callback == nullptr) == 0 ? SUCCESS : FAILED;
}

Status CompiledGraphSummary::GetInputShardMethod(
    std::map<std::string, std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>>> &) const
{
    static const char message[] = "CompiledGraphSummary::GetInputShardMethod: inputs are not sharded here";
    return CairnEngineFail(FAILED, CairnText{message, sizeof message - 1});
}

}  // namespace ge
