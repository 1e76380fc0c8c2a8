// Text of the public interface: the only code that touches the string inside.

#include "graph/ascend_string.h"

namespace ge {

AscendString::AscendString(const char_t *const name)
{
    if (name != nullptr) {
        name_ = std::make_shared<std::string>(name);
    }
}

AscendString::AscendString(const char_t *const name, size_t length)
{
    if (name != nullptr) {
        name_ = std::make_shared<std::string>(name, length);
    }
}

const char_t *AscendString::GetString() const
{
    return name_ == nullptr ? "" : name_->c_str();
}

size_t AscendString::GetLength() const
{
    return name_ == nullptr ? 0 : name_->size();
}

size_t AscendString::Find(const AscendString &ascend_string) const
{
    const bool have_text = name_ != nullptr && ascend_string.name_ != nullptr;
    return have_text ? name_->find(*ascend_string.name_) : std::string::npos;
}

size_t AscendString::Hash() const
{
    return std::hash<std::string>()(name_ == nullptr ? std::string() : *name_);
}

bool AscendString::operator<(const AscendString &d) const
{
    if (name_ == nullptr || d.name_ == nullptr) {
        return name_ == nullptr && d.name_ != nullptr;
    }
    return *name_ < *d.name_;
}

bool AscendString::operator==(const AscendString &d) const
{
    if (name_ == nullptr || d.name_ == nullptr) {
        return name_ == d.name_;
    }
    return *name_ == *d.name_;
}

bool AscendString::operator>(const AscendString &d) const
{
    return d < *this;
}

bool AscendString::operator<=(const AscendString &d) const
{
    return !(d < *this);
}

bool AscendString::operator>=(const AscendString &d) const
{
    return !(*this < d);
}

bool AscendString::operator!=(const AscendString &d) const
{
    return !(*this == d);
}

bool AscendString::operator==(const char_t *const d) const
{
    return *this == AscendString(d);
}

bool AscendString::operator!=(const char_t *const d) const
{
    return !(*this == AscendString(d));
}

}  // namespace ge
