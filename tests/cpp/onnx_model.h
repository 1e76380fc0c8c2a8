/* Small models of ONNX, written field by field. */
#ifndef CAIRN_TESTS_CPP_ONNX_MODEL_H
#define CAIRN_TESTS_CPP_ONNX_MODEL_H

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace onnx_model {

inline std::string varint(uint64_t value)
{
    std::string bytes;
    for (; value >= 0x80; value >>= 7)
        bytes.push_back(static_cast<char>(value | 0x80));
    bytes.push_back(static_cast<char>(value));
    return bytes;
}

inline std::string number(uint64_t field, int64_t value)
{
    return varint(field << 3) + varint(static_cast<uint64_t>(value));
}

inline std::string bytes(uint64_t field, const std::string &value)
{
    return varint(field << 3 | 2) + varint(value.size()) + value;
}

/* A size of -1 is written as the name "n". */
inline std::string value_info(uint64_t field, const std::string &name, const std::vector<int64_t> &dims)
{
    std::string shape;
    for (const int64_t dim : dims)
        shape += bytes(1, dim < 0 ? bytes(2, "n") : number(1, dim));
    return bytes(field, bytes(1, name) + bytes(2, bytes(1, number(1, 1) + bytes(2, shape))));
}

inline std::string node(const std::string &name, const std::string &type, const std::vector<std::string> &inputs,
                        const std::string &output)
{
    std::string text;
    for (const std::string &input : inputs)
        text += bytes(1, input);
    return bytes(1, text + bytes(2, output) + bytes(3, name) + bytes(4, type));
}

/* y = Relu(x + 1); `type` in place of Relu. */
inline std::string relu_of_sum(const std::vector<int64_t> &dims, const std::string &type = "Relu")
{
    const float one = 1.0f;
    const std::string data(reinterpret_cast<const char *>(&one), sizeof one);
    const std::string graph = node("sum", "Add", {"x", "one"}, "s") + node("act", type, {"s"}, "y") + bytes(2, "small") +
                              bytes(5, number(1, 1) + number(2, 1) + bytes(8, "one") + bytes(9, data)) +
                              value_info(11, "x", dims) + value_info(12, "y", dims);
    return number(1, 8) + bytes(7, graph) + bytes(8, number(2, 17));
}

}  // namespace onnx_model

#endif
