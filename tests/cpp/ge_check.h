/* What programs on the graph engine share: assertions with the engine's texts, and small graphs. */
#ifndef CAIRN_TESTS_GE_CHECK_H
#define CAIRN_TESTS_GE_CHECK_H

#include "check.h"
#include "all_ops.h"
#include "ge/ge_api.h"
#include <string>
#include <vector>

__attribute__((unused)) static void check_status(const char *file, int line, const char *call, uint32_t got, uint32_t expected)
{
    if (got != expected) {
        check_failed();
        printf("%s:%d: %s returned 0x%x, expected 0x%x; text: %s\n", file, line, call, got, expected,
               ge::GEGetErrorMsgV2().GetString());
    }
}

/* A failed call leaves a text that has this part, and that can be read once. */
__attribute__((unused)) static void check_error_text(const char *file, int line, const char *part)
{
    const ge::AscendString error_text = ge::GEGetErrorMsgV2();
    if (strstr(error_text.GetString(), part) == nullptr) {
        check_failed();
        printf("%s:%d: the text lacks \"%s\": %s\n", file, line, part, error_text.GetString());
    }
    check_true(file, line, "the text is given once", ge::GEGetErrorMsgV2().GetLength() == 0);
}

#define OK(call) check_status(__FILE__, __LINE__, #call, (call), 0)
#define REFUSED(call, part) \
    (check_status(__FILE__, __LINE__, #call, (call), 0xFFFFFFFF), check_error_text(__FILE__, __LINE__, part))

using Options = std::map<ge::AscendString, ge::AscendString>;

__attribute__((unused)) static ge::TensorDesc floats(const std::vector<int64_t> &dims)
{
    return ge::TensorDesc(ge::Shape(dims), ge::FORMAT_ND, ge::DT_FLOAT);
}

__attribute__((unused)) static ge::op::Data input(const char *name, int64_t index, const std::vector<int64_t> &dims)
{
    ge::op::Data data(name);
    data.set_attr_index(index);
    data.update_input_desc_x(floats(dims));
    data.update_output_desc_y(floats(dims));
    return data;
}

__attribute__((unused)) static ge::op::Const constant(const char *name, const std::vector<float> &values)
{
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(values.data());
    const ge::TensorDesc desc = floats({static_cast<int64_t>(values.size())});
    ge::op::Const op(name);
    op.set_attr_value(ge::Tensor(desc, bytes, values.size() * sizeof(float)));
    op.update_output_desc_y(desc);
    return op;
}

/* y = (x + constant) * x, with a dim per value. */
__attribute__((unused)) static ge::Graph add_and_multiply(const std::vector<float> &values, int64_t dim)
{
    ge::op::Data x = input("x", 0, {dim});
    ge::op::Const c = constant("c", values);
    ge::op::Add sum("sum");
    sum.set_input_x1(x).set_input_x2(c);
    ge::op::Mul product("product");
    product.set_input_x1(sum).set_input_x2(x);
    ge::Graph graph("add_and_multiply");
    graph.SetInputs({x}).SetOutputs({product});
    return graph;
}

#endif
