//! The types that operators move and reduce.

use crate::error::{Error, Result};

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $bytes:literal, $text:literal;)*) => {
        /// The type of an operator's elements, with the number that `HcclDataType` gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DataType {
            $($(#[$doc])* $name = $value,)*
        }

        impl DataType {
            /// Every type, by rising number.
            pub const ALL: &[DataType] = &[$(DataType::$name),*];

            /// The type with this number.
            fn known(number: i32) -> Option<DataType> {
                match number {
                    $($value => Some(DataType::$name),)*
                    _ => None,
                }
            }

            /// Bytes of one element.
            pub const fn bytes(self) -> u64 {
                match self {
                    $(DataType::$name => $bytes,)*
                }
            }

            /// Its name in texts.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DataType::$name => $text,)*
                }
            }
        }
    };
}

types! {
    /// Signed, 8 bits.
    Int8 = 0, 1, "int8";
    /// Signed, 16 bits.
    Int16 = 1, 2, "int16";
    /// Signed, 32 bits.
    Int32 = 2, 4, "int32";
    /// IEEE 754 binary16.
    Float16 = 3, 2, "fp16";
    /// IEEE 754 binary32.
    Float32 = 4, 4, "fp32";
    /// Signed, 64 bits.
    Int64 = 5, 8, "int64";
    /// Unsigned, 64 bits.
    Uint64 = 6, 8, "uint64";
    /// Unsigned, 8 bits.
    Uint8 = 7, 1, "uint8";
    /// Unsigned, 16 bits.
    Uint16 = 8, 2, "uint16";
    /// Unsigned, 32 bits.
    Uint32 = 9, 4, "uint32";
    /// IEEE 754 binary64.
    Float64 = 10, 8, "fp64";
    /// The upper half of a binary32.
    Bfloat16 = 11, 2, "bfp16";
    /// Signed, 128 bits.
    Int128 = 12, 16, "int128";
    /// HiFloat8; only moved.
    Hif8 = 14, 1, "hif8";
    /// Float8 with 4 bits of exponent; only moved.
    Fp8E4m3 = 15, 1, "fp8e4m3";
    /// Float8 with 5 bits of exponent; only moved.
    Fp8E5m2 = 16, 1, "fp8e5m2";
    /// Eight bits of exponent; only moved.
    Fp8E8m0 = 17, 1, "fp8e8m0";
}

impl DataType {
    /// The type with this number of `HcclDataType`; another one is not supported (5).
    pub fn from_number(number: i32) -> Result<DataType> {
        DataType::known(number).ok_or_else(|| {
            Error::unsupported(format!("the data type {number} is none of HcclDataType"))
        })
    }
}
