// The small graphs of these examples, and tensors for them.
#ifndef EXAMPLES_CPP_GRAPHS_H
#define EXAMPLES_CPP_GRAPHS_H

#include <acl/acl.h>
#include <all_ops.h>
#include <graph/graph.h>
#include <graph/tensor.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(condition, text)                                                   \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, text);                \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

inline ge::TensorDesc Floats(const std::vector<int64_t> &dims) {
    return ge::TensorDesc(ge::Shape(dims), ge::FORMAT_ND, ge::DT_FLOAT);
}

inline ge::op::Const Weights(const char *name, const std::vector<int64_t> &dims, const std::vector<float> &values) {
    ge::Tensor tensor(Floats(dims));
    tensor.SetData(reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float));
    return ge::op::Const(name).set_attr_value(tensor);
}

// W: 8 rows of 4.
inline const std::vector<float> &Matrix() {
    static const std::vector<float> values = [] {
        std::vector<float> all(8 * 4);
        for (size_t at = 0; at < all.size(); ++at) all[at] = 0.25F * static_cast<float>(at % 7) - 0.5F;
        return all;
    }();
    return values;
}

// y = softmax(relu(x W) + 1), x of `rows` rows of 8; -1 rows: any number.
inline ge::Graph Network(const char *name, int64_t rows) {
    auto x = ge::op::Data("x").set_attr_index(0);
    x.update_input_desc_x(Floats({rows, 8}));
    x.update_output_desc_y(Floats({rows, 8}));
    auto w = Weights("w", {8, 4}, Matrix());
    auto one = Weights("one", {1}, {1.0F});
    auto product = ge::op::MatMul("product").set_input_x1(x).set_input_x2(w);
    auto relu = ge::op::Relu("relu").set_input_x(product);
    auto sum = ge::op::Add("sum").set_input_x1(relu).set_input_x2(one);
    auto soft = ge::op::SoftmaxV2("soft").set_input_x(sum).set_attr_axes({-1});
    ge::Graph graph(name);
    graph.SetInputs({x}).SetOutputs({soft});
    return graph;
}

// An input of `rows` rows of 8.
inline std::vector<float> Numbers(int64_t rows) {
    std::vector<float> values(rows * 8);
    for (size_t at = 0; at < values.size(); ++at) values[at] = std::sin(static_cast<float>(at));
    return values;
}

// What Network computes, on the host.
inline std::vector<float> Expected(const std::vector<float> &x) {
    std::vector<float> y(x.size() / 2);
    for (size_t row = 0; row < x.size() / 8; ++row) {
        float total = 0;
        for (size_t column = 0; column < 4; ++column) {
            float sum = 0;
            for (size_t at = 0; at < 8; ++at) sum += x[row * 8 + at] * Matrix()[at * 4 + column];
            y[row * 4 + column] = std::exp((sum > 0 ? sum : 0) + 1);
            total += y[row * 4 + column];
        }
        for (size_t column = 0; column < 4; ++column) y[row * 4 + column] /= total;
    }
    return y;
}

// A tensor on the device with these values; the caller frees its memory.
inline ge::Tensor OnDevice(const std::vector<float> &values, const std::vector<int64_t> &dims) {
    void *memory = nullptr;
    const size_t bytes = values.size() * sizeof(float);
    CHECK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS, "no device memory");
    CHECK(aclrtMemcpy(memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS, "copy");
    ge::TensorDesc desc = Floats(dims);
    desc.SetPlacement(ge::kPlacementDevice);
    ge::Tensor tensor(desc);
    tensor.SetData(static_cast<uint8_t *>(memory), bytes, [](uint8_t *data) { aclrtFree(data); });
    return tensor;
}

// Whether the device memory holds these values.
inline bool Close(const void *device, const std::vector<float> &expected) {
    std::vector<float> actual(expected.size());
    const size_t bytes = expected.size() * sizeof(float);
    CHECK(aclrtMemcpy(actual.data(), bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS, "copy");
    for (size_t at = 0; at < expected.size(); ++at) {
        if (!(std::fabs(actual[at] - expected[at]) < 1e-5F)) {
            std::printf("element %zu is %g, not %g\n", at, actual[at], expected[at]);
            return false;
        }
    }
    return true;
}

#endif
