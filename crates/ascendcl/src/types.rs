//! Sizes of element types and half-precision numbers.

use crate::abi::{aclDataType, aclFloat16};
use crate::door::value_entry;
use cairn_tensor::{DType, f16_to_f32, f32_to_f16};

value_entry! {
    /// Bytes of one element; 0 for types below one byte, for strings and for unknown numbers.
    fn aclDataTypeSize(data_type: aclDataType) -> usize, else 0, {
        Ok(DType::from_number(data_type).and_then(DType::size_in_bytes).unwrap_or(0))
    }

    /// The value of a half, exactly.
    fn aclFloat16ToFloat(value: aclFloat16) -> f32, else 0.0, {
        Ok(f16_to_f32(value))
    }

    /// The nearest half, ties to even.
    fn aclFloatToFloat16(value: f32) -> aclFloat16, else 0, {
        Ok(f32_to_f16(value))
    }
}
