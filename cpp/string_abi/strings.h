// Strings of either ABI to and from AscendString.
#ifndef CAIRN_CPP_STRING_ABI_STRINGS_H
#define CAIRN_CPP_STRING_ABI_STRINGS_H

#include <map>
#include <string>
#include <vector>

#include "graph/ascend_string.h"

namespace {

inline ge::AscendString to_ascend_string(const std::string &value)
{
    return ge::AscendString(value.data(), value.size());
}

inline std::string to_std_string(const ge::AscendString &value)
{
    return std::string(value.GetString(), value.GetLength());
}

inline std::vector<ge::AscendString> to_ascend_string(const std::vector<std::string> &values)
{
    std::vector<ge::AscendString> texts;
    for (const std::string &value : values) {
        texts.push_back(to_ascend_string(value));
    }
    return texts;
}

inline std::vector<std::string> to_std_string(const std::vector<ge::AscendString> &values)
{
    std::vector<std::string> texts;
    for (const ge::AscendString &value : values) {
        texts.push_back(to_std_string(value));
    }
    return texts;
}

inline std::map<ge::AscendString, ge::AscendString> to_ascend_string(const std::map<std::string, std::string> &values)
{
    std::map<ge::AscendString, ge::AscendString> texts;
    for (const auto &value : values) {
        texts[to_ascend_string(value.first)] = to_ascend_string(value.second);
    }
    return texts;
}

}  // namespace

#endif
