/*
 * Text that crosses library boundaries, whichever std::string a program was compiled with. C++ only.
 */
#ifndef CAIRN_GRAPH_ASCEND_STRING_H
#define CAIRN_GRAPH_ASCEND_STRING_H

#ifdef __cplusplus

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "graph/types.h"

namespace ge {

/** A text, or none. Copies share it; it does not change. Only the library touches what it holds. */
class AscendString {
public:
    /** No text, which differs from an empty one and comes before it. */
    AscendString() = default;
    ~AscendString() = default;

    /** The text up to its NUL; null is none. */
    AscendString(const char_t *const name);
    /** So many bytes; null is none. */
    AscendString(const char_t *const name, size_t length);

    /** The bytes with a NUL after them; "" for none. Valid as long as this object or a copy of it. */
    const char_t *GetString() const;
    size_t GetLength() const;

    /** Where the other text begins in this one, or std::string::npos. */
    size_t Find(const AscendString &ascend_string) const;
    size_t Hash() const;

    bool operator<(const AscendString &d) const;
    bool operator>(const AscendString &d) const;
    bool operator<=(const AscendString &d) const;
    bool operator>=(const AscendString &d) const;
    bool operator==(const AscendString &d) const;
    bool operator!=(const AscendString &d) const;
    bool operator==(const char_t *const d) const;
    bool operator!=(const char_t *const d) const;

private:
    std::shared_ptr<std::string> name_;
};

}  // namespace ge

namespace std {
template <>
struct hash<ge::AscendString> {
    size_t operator()(const ge::AscendString &name) const { return name.Hash(); }
};
}  // namespace std

#endif

#endif
