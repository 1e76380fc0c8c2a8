#include "ge/ge_api.h"
#include "strings.h"

namespace ge {

Status GEInitialize(const std::map<std::string, std::string> &options)
{
    return GEInitialize(to_ascend_string(options));
}

std::string GEGetErrorMsg()
{
    return to_std_string(GEGetErrorMsgV2());
}

std::string GEGetWarningMsg()
{
    return to_std_string(GEGetWarningMsgV2());
}

}  // namespace ge
