/*
 * Codes and their texts. C++ only.
 */
#ifndef CAIRN_GE_GE_API_ERROR_CODES_H
#define CAIRN_GE_GE_API_ERROR_CODES_H

#ifdef __cplusplus

#include <cstdint>
#include <map>
#include <string>

#include "ge/ge_error_codes.h"
#include "graph/ascend_string.h"

/* A code of one's own: 2 bits runtime, 2 type, 3 level, 8 system, 5 module, 12 value. */
#ifndef GE_ERRORNO_DEFINE
#define GE_ERRORNO_DEFINE(runtime, type, level, sysid, modid, name, value)                                       \
    constexpr ge::Status name = (static_cast<uint32_t>(runtime) & 0x3U) << 30U | (static_cast<uint32_t>(type) & 0x3U) << 28U | \
                                (static_cast<uint32_t>(level) & 0x7U) << 25U |                                   \
                                (static_cast<uint32_t>(sysid) & 0xFFU) << 17U |                                  \
                                (static_cast<uint32_t>(modid) & 0x1FU) << 12U | (static_cast<uint32_t>(value) & 0xFFFU)
#endif
#ifndef GE_ERRORNO_EXTERNAL
#define GE_ERRORNO_EXTERNAL(name, desc) const ge::ErrorNoRegisterar g_errorno_##name((name), (desc))
#endif
#ifndef GE_ERRORNO
#define GE_ERRORNO(runtime, type, level, sysid, modid, name, value, desc) \
    GE_ERRORNO_DEFINE(runtime, type, level, sysid, modid, name, value);   \
    GE_ERRORNO_EXTERNAL(name, desc)
#endif

namespace ge {

/** The texts of codes: the engine's, and those that programs add. */
class StatusFactory {
public:
    static StatusFactory *Instance();
    /** Adds a text; the first one of a code stays. */
    void RegisterErrorNo(const uint32_t err, const std::string &desc);
    void RegisterErrorNo(const uint32_t err, const char *const desc);
    /** "" for a code without a text. */
    std::string GetErrDesc(const uint32_t err);
    AscendString GetErrDescV2(const uint32_t err);

protected:
    StatusFactory() = default;
    ~StatusFactory() = default;

private:
    friend class StatusFactoryPlace;
    /* For programs whose header has the functions inline; the library does not touch it. */
    std::map<uint32_t, std::string> inline_only_;
};

/** Adds a text when it is made. */
class ErrorNoRegisterar {
public:
    ErrorNoRegisterar(const uint32_t err, const std::string &desc) noexcept
    {
        StatusFactory::Instance()->RegisterErrorNo(err, desc.c_str());
    }
    ErrorNoRegisterar(const uint32_t err, const char *const desc) noexcept
    {
        StatusFactory::Instance()->RegisterErrorNo(err, desc);
    }
    ~ErrorNoRegisterar() = default;
};

}  // namespace ge

#endif

#endif
