// The engine as a whole, and its texts.

#include "calls.h"
#include "ge/ge_api.h"
#include "ge/ge_api_v2.h"

namespace ge {

static Status start(const std::map<AscendString, AscendString> &options)
{
    const cairn::Options texts(options);
    return cairn::success_or_failed(CairnEngineStart(texts.data(), texts.count()));
}

static AscendString texts(void (*show)(void *, CairnTextCallback))
{
    std::string lines;
    show(&lines, cairn::append_line);
    return AscendString(lines.data(), lines.size());
}

Status GEInitialize(const std::map<AscendString, AscendString> &options)
{
    return start(options);
}

Status GEFinalize()
{
    return cairn::success_or_failed(CairnEngineStop());
}

AscendString GEGetErrorMsgV2()
{
    return texts(CairnEngineErrors);
}

AscendString GEGetWarningMsgV2()
{
    return texts(CairnEngineWarnings);
}

Status GEInitializeV2(const std::map<AscendString, AscendString> &options)
{
    return start(options);
}

Status GEFinalizeV2()
{
    return cairn::success_or_failed(CairnEngineStop());
}

AscendString GEGetErrorMsgV3()
{
    return texts(CairnEngineErrors);
}

AscendString GEGetWarningMsgV3()
{
    return texts(CairnEngineWarnings);
}

}  // namespace ge
