// The value of an attribute, of any type, between the classes and the engine.
#ifndef CAIRN_CPP_ATTRIBUTE_H
#define CAIRN_CPP_ATTRIBUTE_H

#include <string>
#include <vector>

#include "bridge.h"
#include "description.h"
#include "graph/attr_value.h"
#include "graph/tensor.h"

namespace cairn __attribute__((visibility("hidden"))) {

// One of the lists has the elements, which one `kind` decides (see CairnValue); a value that is no list has one element.
class Attribute {
public:
    Attribute() = default;
    explicit Attribute(const CairnValue &from);

    explicit Attribute(int64_t value) : kind_(CAIRN_KIND_INT), ints_(1, value) {}
    explicit Attribute(int32_t value) : Attribute(static_cast<int64_t>(value)) {}
    explicit Attribute(uint32_t value) : Attribute(static_cast<int64_t>(value)) {}
    explicit Attribute(float value) : kind_(CAIRN_KIND_FLOAT), floats_(1, value) {}
    explicit Attribute(bool value) : kind_(CAIRN_KIND_BOOL), ints_(1, value) {}
    explicit Attribute(ge::DataType value) : kind_(CAIRN_KIND_DATA_TYPE), ints_(1, value) {}
    explicit Attribute(const ge::AscendString &value) : kind_(CAIRN_KIND_STRING), texts_(1, value) {}
    explicit Attribute(const char *value) : Attribute(ge::AscendString(value == nullptr ? "" : value)) {}
    explicit Attribute(const ge::Tensor &value) : kind_(CAIRN_KIND_TENSOR), tensors_(1, value) {}
    explicit Attribute(const std::vector<uint8_t> &value);
    explicit Attribute(const std::vector<int64_t> &value) : kind_(CAIRN_KIND_INT), is_list_(true), ints_(value) {}
    explicit Attribute(const std::vector<int32_t> &value);
    explicit Attribute(const std::vector<uint32_t> &value);
    explicit Attribute(const std::vector<float> &value) : kind_(CAIRN_KIND_FLOAT), is_list_(true), floats_(value) {}
    explicit Attribute(const std::vector<bool> &value);
    explicit Attribute(const std::vector<ge::DataType> &value);
    explicit Attribute(const std::vector<ge::AscendString> &value);
    explicit Attribute(const std::vector<ge::Tensor> &value);
    explicit Attribute(const std::vector<std::vector<int64_t>> &value);
    explicit Attribute(const ge::AttrValue &value);

    // False, and nothing written, where the type is another one or a number does not fit.
    bool Get(int64_t &value) const;
    bool Get(int32_t &value) const;
    bool Get(uint32_t &value) const;
    bool Get(float &value) const;
    bool Get(bool &value) const;
    bool Get(ge::DataType &value) const;
    bool Get(ge::AscendString &value) const;
    bool Get(ge::Tensor &value) const;
    bool Get(std::vector<uint8_t> &value) const;
    bool Get(std::vector<int64_t> &value) const;
    bool Get(std::vector<int32_t> &value) const;
    bool Get(std::vector<uint32_t> &value) const;
    bool Get(std::vector<float> &value) const;
    bool Get(std::vector<bool> &value) const;
    bool Get(std::vector<ge::DataType> &value) const;
    bool Get(std::vector<ge::AscendString> &value) const;
    bool Get(std::vector<ge::Tensor> &value) const;
    bool Get(std::vector<std::vector<int64_t>> &value) const;
    bool Get(ge::AttrValue &value) const;

    // The IR's name of its type: VT_INT, VT_LIST_INT ..
    const char *TypeName() const;

    // As the engine takes it; borrowed from this object until it changes.
    const CairnValue &borrowed();

private:
    bool Is(uint32_t kind) const { return kind_ == kind && !is_list_; }
    bool IsList(uint32_t kind) const;

    uint32_t kind_ = CAIRN_KIND_NONE;
    bool is_list_ = false;
    std::vector<int64_t> ints_;
    std::vector<float> floats_;
    std::vector<ge::AscendString> texts_;
    std::vector<ge::Tensor> tensors_;
    std::vector<size_t> lengths_;
    std::vector<ge::AscendString> names_;
    std::vector<Attribute> values_;

    CairnValue borrowed_ = {};
    std::vector<CairnText> borrowed_texts_;
    std::vector<CairnText> borrowed_names_;
    std::vector<CairnTensor> borrowed_tensors_;
    std::vector<Description> borrowed_descriptions_;
    std::vector<CairnValue> borrowed_values_;
};

// A callback that stores what the engine shows.
inline void store_attribute(void *context, const CairnValue *from)
{
    *static_cast<Attribute *>(context) = Attribute(*from);
}

// The IR's type name (VT_INT, VT_LIST_INT ..) for a type as op classes write it (Int, ListInt, Type ..).
std::string type_name_of_class(const char *type);

}  // namespace cairn

namespace ge {

class __attribute__((visibility("hidden"))) AttrValueBody {
public:
    cairn::Attribute value;
};

}  // namespace ge

#endif
