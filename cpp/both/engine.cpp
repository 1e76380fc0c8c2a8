#include "ge/ge_api.h"
#include "strings.h"

namespace ge {

Status GEInitialize(const std::map<std::string, std::string> &options)
{
    return GEInitialize(ascend(options));
}

std::string GEGetErrorMsg()
{
    return plain(GEGetErrorMsgV2());
}

std::string GEGetWarningMsg()
{
    return plain(GEGetWarningMsgV2());
}

}  // namespace ge
