/*
 * The value of an attribute, of any type. C++ only.
 */
#ifndef CAIRN_GRAPH_ATTR_VALUE_H
#define CAIRN_GRAPH_ATTR_VALUE_H

#ifdef __cplusplus

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/ge_error_codes.h"
#include "graph/tensor.h"
#include "graph/types.h"

namespace ge {

class AttrValueBody;

/** A value and its type. Copies share it. */
class AttrValue {
public:
    using INT = int64_t;
    using FLOAT = float;
    using STR = std::string;

    /** No value. */
    AttrValue();
    ~AttrValue() = default;

    /** Reads the value as a T (INT, FLOAT or STR) and gives it as a DT. */
    template <typename T, typename DT>
    graphStatus GetValue(DT &val) const
    {
        T value;
        const graphStatus status = GetValue(value);
        if (status == GRAPH_SUCCESS) {
            val = DT(value);
        }
        return status;
    }

    template <typename T, typename DT>
    static T CreateFrom(DT &&val)
    {
        return val;
    }

    graphStatus GetValue(AscendString &val);

    /* SetAttrValue replaces value and type; GetAttrValue fails where the type is another one. */
    graphStatus SetAttrValue(const int64_t &attr_value) const;
    graphStatus GetAttrValue(int64_t &attr_value) const;
    graphStatus SetAttrValue(const float32_t &attr_value) const;
    graphStatus GetAttrValue(float32_t &attr_value) const;
    graphStatus SetAttrValue(const AscendString &attr_value) const;
    graphStatus GetAttrValue(AscendString &attr_value) const;
    graphStatus SetAttrValue(const bool &attr_value) const;
    graphStatus GetAttrValue(bool &attr_value) const;
    graphStatus SetAttrValue(const Tensor &attr_value) const;
    graphStatus GetAttrValue(Tensor &attr_value) const;
    graphStatus SetAttrValue(const std::vector<int64_t> &attr_value) const;
    graphStatus GetAttrValue(std::vector<int64_t> &attr_value) const;
    graphStatus SetAttrValue(const std::vector<float32_t> &attr_value) const;
    graphStatus GetAttrValue(std::vector<float32_t> &attr_value) const;
    graphStatus SetAttrValue(const std::vector<AscendString> &attr_values) const;
    graphStatus GetAttrValue(std::vector<AscendString> &attr_values) const;
    graphStatus SetAttrValue(const std::vector<bool> &attr_value) const;
    graphStatus GetAttrValue(std::vector<bool> &attr_value) const;
    graphStatus SetAttrValue(const std::vector<Tensor> &attr_value) const;
    graphStatus GetAttrValue(std::vector<Tensor> &attr_value) const;
    graphStatus SetAttrValue(const std::vector<std::vector<int64_t>> &attr_value) const;
    graphStatus GetAttrValue(std::vector<std::vector<int64_t>> &attr_value) const;
    graphStatus SetAttrValue(const std::vector<ge::DataType> &attr_value) const;
    graphStatus GetAttrValue(std::vector<ge::DataType> &attr_value) const;
    graphStatus SetAttrValue(const ge::DataType &attr_value) const;
    graphStatus GetAttrValue(ge::DataType &attr_value) const;

    std::shared_ptr<AttrValueBody> impl;

private:
    graphStatus GetValue(AttrValue::STR &val) const;
    graphStatus GetValue(AttrValue::INT &val) const;
    graphStatus GetValue(AttrValue::FLOAT &val) const;
};

}  // namespace ge

#endif

#endif
