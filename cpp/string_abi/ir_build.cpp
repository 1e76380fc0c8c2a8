#include "ge/ge_ir_build.h"
#include "strings.h"

namespace ge {

graphStatus aclgrphBuildInitialize(std::map<std::string, std::string> global_options)
{
    std::map<AscendString, AscendString> options = to_ascend_string(global_options);
    return aclgrphBuildInitialize(options);
}

graphStatus aclgrphBuildModel(const ge::Graph &graph, const std::map<std::string, std::string> &build_options,
                              ModelBufferData &model)
{
    return aclgrphBuildModel(graph, to_ascend_string(build_options), model);
}

graphStatus aclgrphSaveModel(const std::string &output_file, const ModelBufferData &model)
{
    return aclgrphSaveModel(output_file.c_str(), model);
}

}  // namespace ge
