// Texts between the classes and the engine.
#ifndef CAIRN_CPP_TEXT_H
#define CAIRN_CPP_TEXT_H

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bridge.h"
#include "graph/ascend_string.h"

namespace cairn __attribute__((visibility("hidden"))) {

inline CairnText text(const char *value)
{
    return CairnText{value == nullptr ? "" : value, value == nullptr ? 0 : std::strlen(value)};
}

inline CairnText text(const ge::AscendString &value)
{
    return CairnText{value.GetString(), value.GetLength()};
}

inline CairnText text(const std::string &value)
{
    return CairnText{value.data(), value.size()};
}

inline ge::AscendString to_ascend_string(CairnText value)
{
    return ge::AscendString(value.data == nullptr ? "" : value.data, value.size);
}

// Callbacks that store a text, append it to a vector, or append it as a line.
inline void store_text(void *context, CairnText value)
{
    *static_cast<ge::AscendString *>(context) = to_ascend_string(value);
}

inline void append_text(void *context, CairnText value)
{
    static_cast<std::vector<ge::AscendString> *>(context)->push_back(to_ascend_string(value));
}

inline void store_bytes(void *context, CairnText value)
{
    static_cast<std::string *>(context)->assign(value.data, value.size);
}

inline void append_line(void *context, CairnText value)
{
    std::string *const lines = static_cast<std::string *>(context);
    if (!lines->empty()) {
        lines->push_back('\n');
    }
    lines->append(value.data, value.size);
}

// Names and values in turn, as the engine takes options.
class Options {
public:
    explicit Options(const std::map<ge::AscendString, ge::AscendString> &options)
    {
        for (const auto &option : options) {
            texts_.push_back(text(option.first));
            texts_.push_back(text(option.second));
        }
    }
    const CairnText *data() const { return texts_.data(); }
    size_t count() const { return texts_.size() / 2; }

private:
    std::vector<CairnText> texts_;
};

// Sets the error message of this thread and returns the code.
inline CairnStatus fail(CairnStatus code, const std::string &message)
{
    return CairnEngineFail(code, text(message));
}

inline CairnStatus fail(const std::string &message)
{
    return fail(0xFFFFFFFF, message);
}

}  // namespace cairn

#endif
