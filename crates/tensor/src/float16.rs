//! IEEE 754 binary16, by its bits.

use half::f16;

/// The value of a half, exactly. A NaN keeps its sign and becomes a quiet one.
pub fn f16_to_f32(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// The nearest half, of two equally near ones the even one; beyond the largest an infinity. A NaN
/// stays a NaN with its sign.
pub fn f32_to_f16(value: f32) -> u16 {
    f16::from_f32(value).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFINITY: u16 = 0x7c00;
    const SIGN: u16 = 0x8000;

    /// The value by the definition of the format.
    fn value_by_definition(bits: u16) -> f64 {
        let fraction = f64::from(bits & 0x3ff);
        let magnitude = match (bits >> 10) & 0x1f {
            0 => fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            exponent => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
        };
        if bits & SIGN == 0 { magnitude } else { -magnitude }
    }

    #[test]
    fn every_half_has_its_defined_value_and_comes_back() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            assert_eq!(value.is_sign_negative(), bits & SIGN != 0, "{bits:#06x}");
            if bits & !SIGN > INFINITY {
                let bits_again = f32_to_f16(value);
                assert!(value.is_nan() && bits_again & !SIGN > INFINITY, "{bits:#06x}");
                assert_eq!(bits_again & SIGN, bits & SIGN, "{bits:#06x}");
                assert_eq!(bits_again & 0x1ff, bits & 0x1ff, "{bits:#06x}");
            } else {
                assert_eq!(f64::from(value), value_by_definition(bits), "{bits:#06x}");
                assert_eq!(f32_to_f16(value), bits);
            }
        }
    }

    #[test]
    fn between_two_halfs_the_nearest_wins_and_ties_go_to_even() {
        for low in 0..INFINITY - 1 {
            for sign in [0, SIGN] {
                let (a, b) = (f16_to_f32(low | sign), f16_to_f32((low + 1) | sign));
                let middle = (a + b) / 2.0;
                let even = low + (low & 1);
                assert_eq!(f32_to_f16(middle), even | sign, "{middle}");
                let towards_zero = f32::from_bits(middle.to_bits() - 1);
                assert_eq!(f32_to_f16(towards_zero), low | sign, "{towards_zero}");
                let away_from_zero = f32::from_bits(middle.to_bits() + 1);
                assert_eq!(f32_to_f16(away_from_zero), (low + 1) | sign, "{away_from_zero}");
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(f32_to_f16(65504.0), 0x7bff);
        assert_eq!(f32_to_f16(65519.996), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), INFINITY);
        assert_eq!(f32_to_f16(f32::MAX), INFINITY);
        assert_eq!(f32_to_f16(f32::NEG_INFINITY), SIGN | INFINITY);
        assert_eq!(f32_to_f16(-0.0), SIGN);
        assert_eq!(f32_to_f16(2f32.powi(-25)), 0);
        assert_eq!(f32_to_f16(f32::from_bits(2f32.powi(-25).to_bits() + 1)), 1);
        assert_eq!(f32_to_f16(f32::MIN_POSITIVE), 0);
        assert_eq!(f32_to_f16(f32::from_bits(1)), 0);
        assert!(f16_to_f32(f32_to_f16(f32::NAN)).is_nan());
        assert!(f16_to_f32(f32_to_f16(f32::from_bits(0x7f80_0001))).is_nan());
    }
}
