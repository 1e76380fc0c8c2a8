// The value of an attribute, of any type.

#include "attribute.h"

#include <cctype>
#include <limits>

namespace cairn {

template <typename T>
static std::vector<int64_t> to_int64s(const std::vector<T> &values)
{
    return std::vector<int64_t>(values.begin(), values.end());
}

Attribute::Attribute(const std::vector<uint8_t> &value) : kind_(CAIRN_KIND_BYTES)
{
    texts_.emplace_back(value.empty() ? "" : reinterpret_cast<const char *>(value.data()), value.size());
}

Attribute::Attribute(const std::vector<int32_t> &value) : Attribute(to_int64s(value)) {}

Attribute::Attribute(const std::vector<uint32_t> &value) : Attribute(to_int64s(value)) {}

Attribute::Attribute(const std::vector<bool> &value) : kind_(CAIRN_KIND_BOOL), is_list_(true), ints_(to_int64s(value)) {}

Attribute::Attribute(const std::vector<ge::DataType> &value)
    : kind_(CAIRN_KIND_DATA_TYPE), is_list_(true), ints_(to_int64s(value))
{
}

Attribute::Attribute(const std::vector<ge::AscendString> &value)
    : kind_(CAIRN_KIND_STRING), is_list_(true), texts_(value)
{
}

Attribute::Attribute(const std::vector<ge::Tensor> &value) : kind_(CAIRN_KIND_TENSOR), is_list_(true), tensors_(value)
{
}

Attribute::Attribute(const std::vector<std::vector<int64_t>> &value) : kind_(CAIRN_KIND_INT_LISTS), is_list_(true)
{
    for (const std::vector<int64_t> &list : value) {
        lengths_.push_back(list.size());
        ints_.insert(ints_.end(), list.begin(), list.end());
    }
}

Attribute::Attribute(const ge::AttrValue &value) : Attribute(value.impl->value) {}

Attribute::Attribute(const CairnValue &from) : kind_(from.kind), is_list_(from.is_list)
{
    size_t elements = from.count;
    if (kind_ == CAIRN_KIND_INT_LISTS || kind_ == CAIRN_KIND_FLOAT_LISTS) {
        lengths_.assign(from.lengths, from.lengths + from.count);
        elements = 0;
        for (const size_t length : lengths_) {
            elements += length;
        }
    }
    switch (kind_) {
        case CAIRN_KIND_INT:
        case CAIRN_KIND_BOOL:
        case CAIRN_KIND_DATA_TYPE:
        case CAIRN_KIND_INT_LISTS:
            ints_.assign(from.ints, from.ints + elements);
            break;
        case CAIRN_KIND_FLOAT:
        case CAIRN_KIND_FLOAT_LISTS:
            floats_.assign(from.floats, from.floats + elements);
            break;
        case CAIRN_KIND_STRING:
        case CAIRN_KIND_BYTES:
            for (size_t at = 0; at < from.count; ++at) {
                texts_.push_back(to_ascend_string(from.texts[at]));
            }
            break;
        case CAIRN_KIND_TENSOR:
        case CAIRN_KIND_TENSOR_DESC:
            for (size_t at = 0; at < from.count; ++at) {
                const CairnTensor &tensor = from.tensors[at];
                tensors_.emplace_back(desc_of(tensor.desc), static_cast<const uint8_t *>(tensor.data), tensor.bytes);
            }
            break;
        case CAIRN_KIND_NAMED:
            texts_.push_back(to_ascend_string(from.texts[0]));
            for (size_t at = 0; at < from.count; ++at) {
                names_.push_back(to_ascend_string(from.names[at]));
                values_.emplace_back(from.values[at]);
            }
            break;
        default:
            break;
    }
}

const CairnValue &Attribute::borrowed()
{
    borrowed_ = CairnValue();
    borrowed_.kind = kind_;
    borrowed_.is_list = is_list_;
    borrowed_texts_.clear();
    for (const ge::AscendString &value : texts_) {
        borrowed_texts_.push_back(text(value));
    }
    borrowed_names_.clear();
    for (const ge::AscendString &name : names_) {
        borrowed_names_.push_back(text(name));
    }
    borrowed_descriptions_.clear();
    for (const ge::Tensor &tensor : tensors_) {
        borrowed_descriptions_.emplace_back(tensor.GetTensorDesc());
    }
    borrowed_tensors_.clear();
    for (size_t at = 0; at < tensors_.size(); ++at) {
        const ge::Tensor &tensor = tensors_[at];
        borrowed_tensors_.push_back(CairnTensor{borrowed_descriptions_[at].borrowed(), tensor.GetData(), tensor.GetSize()});
    }
    borrowed_values_.clear();
    for (Attribute &value : values_) {
        borrowed_values_.push_back(value.borrowed());
    }
    borrowed_.ints = ints_.data();
    borrowed_.floats = floats_.data();
    borrowed_.texts = borrowed_texts_.data();
    borrowed_.tensors = borrowed_tensors_.data();
    borrowed_.lengths = lengths_.data();
    borrowed_.names = borrowed_names_.data();
    borrowed_.values = borrowed_values_.data();
    switch (kind_) {
        case CAIRN_KIND_INT_LISTS:
        case CAIRN_KIND_FLOAT_LISTS:
            borrowed_.count = lengths_.size();
            break;
        case CAIRN_KIND_NAMED:
            borrowed_.count = names_.size();
            break;
        default:
            borrowed_.count = ints_.size() + floats_.size() + texts_.size() + tensors_.size();
            break;
    }
    return borrowed_;
}

// A list that came without elements may have come without a kind too.
bool Attribute::IsList(uint32_t kind) const
{
    return is_list_ && (kind_ == kind || kind_ == CAIRN_KIND_NONE);
}

bool Attribute::Get(int64_t &value) const
{
    if (!Is(CAIRN_KIND_INT) || ints_.empty()) {
        return false;
    }
    value = ints_[0];
    return true;
}

// Converts all, or none if one does not fit.
template <typename T>
static bool narrow_all(const std::vector<int64_t> &from, std::vector<T> &into)
{
    for (const int64_t one : from) {
        if (one < std::numeric_limits<T>::min() || one > std::numeric_limits<T>::max()) {
            return false;
        }
    }
    into.assign(from.begin(), from.end());
    return true;
}

// Gets an integer that fits.
template <typename T>
static bool get_narrow(const Attribute &attribute, T &value)
{
    int64_t wide = 0;
    std::vector<T> narrow;
    if (!attribute.Get(wide) || !narrow_all(std::vector<int64_t>(1, wide), narrow)) {
        return false;
    }
    value = narrow[0];
    return true;
}

bool Attribute::Get(int32_t &value) const
{
    return get_narrow(*this, value);
}

bool Attribute::Get(uint32_t &value) const
{
    return get_narrow(*this, value);
}

bool Attribute::Get(float &value) const
{
    if (!Is(CAIRN_KIND_FLOAT) || floats_.empty()) {
        return false;
    }
    value = floats_[0];
    return true;
}

bool Attribute::Get(bool &value) const
{
    if (!Is(CAIRN_KIND_BOOL) || ints_.empty()) {
        return false;
    }
    value = ints_[0] != 0;
    return true;
}

bool Attribute::Get(ge::DataType &value) const
{
    if (!Is(CAIRN_KIND_DATA_TYPE) || ints_.empty()) {
        return false;
    }
    value = static_cast<ge::DataType>(ints_[0]);
    return true;
}

bool Attribute::Get(ge::AscendString &value) const
{
    if (!Is(CAIRN_KIND_STRING) || texts_.empty()) {
        return false;
    }
    value = texts_[0];
    return true;
}

bool Attribute::Get(ge::Tensor &value) const
{
    if (!Is(CAIRN_KIND_TENSOR) || tensors_.empty()) {
        return false;
    }
    value = tensors_[0];
    return true;
}

bool Attribute::Get(std::vector<uint8_t> &value) const
{
    if (!Is(CAIRN_KIND_BYTES) || texts_.empty()) {
        return false;
    }
    value.assign(texts_[0].GetString(), texts_[0].GetString() + texts_[0].GetLength());
    return true;
}

bool Attribute::Get(std::vector<int64_t> &value) const
{
    if (!IsList(CAIRN_KIND_INT)) {
        return false;
    }
    value = ints_;
    return true;
}

bool Attribute::Get(std::vector<int32_t> &value) const
{
    return IsList(CAIRN_KIND_INT) && narrow_all(ints_, value);
}

bool Attribute::Get(std::vector<uint32_t> &value) const
{
    return IsList(CAIRN_KIND_INT) && narrow_all(ints_, value);
}

bool Attribute::Get(std::vector<float> &value) const
{
    if (!IsList(CAIRN_KIND_FLOAT)) {
        return false;
    }
    value = floats_;
    return true;
}

bool Attribute::Get(std::vector<bool> &value) const
{
    if (!IsList(CAIRN_KIND_BOOL)) {
        return false;
    }
    value.assign(ints_.begin(), ints_.end());
    return true;
}

bool Attribute::Get(std::vector<ge::DataType> &value) const
{
    if (!IsList(CAIRN_KIND_DATA_TYPE)) {
        return false;
    }
    value.clear();
    for (const int64_t one : ints_) {
        value.push_back(static_cast<ge::DataType>(one));
    }
    return true;
}

bool Attribute::Get(std::vector<ge::AscendString> &value) const
{
    if (!IsList(CAIRN_KIND_STRING)) {
        return false;
    }
    value = texts_;
    return true;
}

bool Attribute::Get(std::vector<ge::Tensor> &value) const
{
    if (!IsList(CAIRN_KIND_TENSOR)) {
        return false;
    }
    value = tensors_;
    return true;
}

bool Attribute::Get(std::vector<std::vector<int64_t>> &value) const
{
    if (kind_ != CAIRN_KIND_INT_LISTS && !IsList(CAIRN_KIND_NONE)) {
        return false;
    }
    value.clear();
    auto next = ints_.begin();
    for (const size_t length : lengths_) {
        value.emplace_back(next, next + static_cast<std::ptrdiff_t>(length));
        next += static_cast<std::ptrdiff_t>(length);
    }
    return true;
}

bool Attribute::Get(ge::AttrValue &value) const
{
    value.impl->value = *this;
    return true;
}

const char *Attribute::TypeName() const
{
    switch (kind_) {
        case CAIRN_KIND_STRING:
            return is_list_ ? "VT_LIST_STRING" : "VT_STRING";
        case CAIRN_KIND_INT:
            return is_list_ ? "VT_LIST_INT" : "VT_INT";
        case CAIRN_KIND_FLOAT:
            return is_list_ ? "VT_LIST_FLOAT" : "VT_FLOAT";
        case CAIRN_KIND_BOOL:
            return is_list_ ? "VT_LIST_BOOL" : "VT_BOOL";
        case CAIRN_KIND_BYTES:
            return is_list_ ? "VT_LIST_BYTES" : "VT_BYTES";
        case CAIRN_KIND_TENSOR_DESC:
            return is_list_ ? "VT_LIST_TENSOR_DESC" : "VT_TENSOR_DESC";
        case CAIRN_KIND_TENSOR:
            return is_list_ ? "VT_LIST_TENSOR" : "VT_TENSOR";
        case CAIRN_KIND_GRAPH:
            return is_list_ ? "VT_LIST_GRAPH" : "VT_GRAPH";
        case CAIRN_KIND_NAMED:
            return is_list_ ? "VT_LIST_NAMED_ATTRS" : "VT_NAMED_ATTRS";
        case CAIRN_KIND_DATA_TYPE:
            return is_list_ ? "VT_LIST_DATA_TYPE" : "VT_DATA_TYPE";
        case CAIRN_KIND_INT_LISTS:
            return "VT_LIST_LIST_INT";
        case CAIRN_KIND_FLOAT_LISTS:
            return "VT_LIST_LIST_FLOAT";
        default:
            return "";
    }
}

std::string type_name_of_class(const char *type)
{
    std::string type_name = "VT";
    for (const char *at = type; *at != '\0'; ++at) {
        if (std::isupper(static_cast<unsigned char>(*at)) != 0) {
            type_name.push_back('_');
        }
        type_name.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(*at))));
    }
    const auto replace = [&type_name](const std::string &from, const std::string &to) {
        const size_t found = type_name.rfind(from);
        if (found != std::string::npos && found + from.size() == type_name.size()) {
            type_name.replace(found, from.size(), to);
        }
    };
    replace("_TYPE", "_DATA_TYPE");
    replace("_ASCEND_STRING", "_STRING");
    return type_name;
}

}  // namespace cairn
