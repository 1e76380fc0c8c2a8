/*
 * op::fp16_t, an IEEE number of 16 bits for C++ programs that prepare and read FLOAT16 tensors.
 */
#ifndef CAIRN_ACLNN_OPDEV_FP16_T_H
#define CAIRN_ACLNN_OPDEV_FP16_T_H

#ifdef __cplusplus

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace op {

/** Sixteen bits, converted from any number by rounding to the nearest, ties to even; computed with as a float. */
struct fp16_t {
    uint16_t val;

    fp16_t() : val(0) {}

    template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
    fp16_t(T number) : val(round(static_cast<float>(number))) {}

    operator float() const
    {
        const uint32_t sign = static_cast<uint32_t>(val & 0x8000) << 16;
        const uint32_t exponent = (val >> 10) & 0x1f, mantissa = val & 0x3ff;
        if (exponent == 0) {
            const float magnitude = static_cast<float>(mantissa) / 16777216.0f;
            return sign ? -magnitude : magnitude;
        }
        const uint32_t float_exponent = exponent == 0x1f ? 0xff : exponent + 112;
        return from_bits(sign | float_exponent << 23 | mantissa << 13);
    }

private:
    static uint32_t to_bits(float number)
    {
        uint32_t bits;
        std::memcpy(&bits, &number, sizeof(bits));
        return bits;
    }

    static float from_bits(uint32_t bits)
    {
        float number;
        std::memcpy(&number, &bits, sizeof(number));
        return number;
    }

    static uint16_t round(float number)
    {
        const uint32_t bits = to_bits(number), magnitude = bits & 0x7fffffff;
        const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
        uint32_t rounded;
        if (magnitude > 0x7f800000) {
            rounded = 0x7e00; /* not a number */
        } else if (magnitude >= 0x477ff000) {
            rounded = 0x7c00; /* 65520 and more */
        } else if (magnitude < 0x38800000) {
            /* Below 2^-14: the last bit of 0.5 and more is 2^-24, so the addition rounds. */
            rounded = to_bits(from_bits(magnitude) + 0.5f) - to_bits(0.5f);
        } else {
            rounded = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
        }
        return static_cast<uint16_t>(sign | rounded);
    }
};

}  // namespace op

#endif

#endif
