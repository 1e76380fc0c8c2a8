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

// The texts that the engine shows, a line each.
static AscendString joined_texts(void (*show)(void *, CairnTextCallback))
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
    return joined_texts(CairnEngineErrors);
}

AscendString GEGetWarningMsgV2()
{
    return joined_texts(CairnEngineWarnings);
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
    return joined_texts(CairnEngineErrors);
}

AscendString GEGetWarningMsgV3()
{
    return joined_texts(CairnEngineWarnings);
}

}  // namespace ge
