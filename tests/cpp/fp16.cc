/* op::fp16_t, the float16 of C++ programs. */
#include "check.h"
#include "aclnn/opdev/fp16_t.h"
#include <cmath>
#include <vector>

int main()
{
    GROUP("fp16: every bit pattern survives a conversion to float and back");
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        op::fp16_t one;
        one.val = static_cast<uint16_t>(bits);
        const float as_float = one;
        const op::fp16_t again = as_float;
        CHECK(std::isnan(as_float) ? std::isnan(static_cast<float>(again)) : again.val == one.val);
    }

    GROUP("fp16: numbers round to the nearest, ties to even");
    const std::vector<op::fp16_t> ones(3, 1.0);
    CHECK(ones[2].val == 0x3c00 && op::fp16_t(0).val == 0 && op::fp16_t(-0.0f).val == 0x8000);
    CHECK(op::fp16_t(65504.0).val == 0x7bff && op::fp16_t(65519.9f).val == 0x7bff && op::fp16_t(65520).val == 0x7c00);
    CHECK(op::fp16_t(2049).val == op::fp16_t(2048).val && op::fp16_t(2051).val == op::fp16_t(2052).val);
    const float least = std::ldexp(1.0f, -24);
    CHECK(op::fp16_t(least).val == 1 && op::fp16_t(least / 2).val == 0 && op::fp16_t(least * 1.5f).val == 2);
    CHECK(static_cast<float>(ones[0] + ones[1]) == 2.0f && sizeof(op::fp16_t) == 2);
    return END();
}
