//! The types of a tensor's elements.

use std::fmt;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $kind:ident, $bits:literal;)*) => {
        /// The type of a tensor's elements, with the number that `aclDataType` gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum DType {
            $($(#[$doc])* $variant = $number,)*
        }

        impl DType {
            /// Every type, by rising number.
            pub const ALL: &[DType] = &[$(DType::$variant),*];

            /// The type with this number; `None` for a number that CANN does not use.
            pub fn from_number(number: i32) -> Option<DType> {
                match number {
                    $($number => Some(DType::$variant),)*
                    _ => None,
                }
            }

            /// The name in texts for people, such as "float16".
            pub fn name(self) -> &'static str {
                match self {
                    $(DType::$variant => $name,)*
                }
            }

            /// The kind of the type, and the bits of one element.
            const fn layout(self) -> (Kind, usize) {
                match self {
                    $(DType::$variant => (Kind::$kind, $bits),)*
                }
            }
        }
    };
}

/// What a type holds; opaque types have no numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Opaque,
    Bool,
    Integer,
    Float,
    Complex,
}

dtypes! {
    /// No type: a tensor that is not there.
    Undefined = -1, "undefined", Opaque, 0;
    /// IEEE 754 binary32.
    Float = 0, "float", Float, 32;
    /// IEEE 754 binary16.
    Float16 = 1, "float16", Float, 16;
    /// Signed, 8 bits.
    Int8 = 2, "int8", Integer, 8;
    /// Signed, 32 bits.
    Int32 = 3, "int32", Integer, 32;
    /// Unsigned, 8 bits.
    Uint8 = 4, "uint8", Integer, 8;
    /// Signed, 16 bits.
    Int16 = 6, "int16", Integer, 16;
    /// Unsigned, 16 bits.
    Uint16 = 7, "uint16", Integer, 16;
    /// Unsigned, 32 bits.
    Uint32 = 8, "uint32", Integer, 32;
    /// Signed, 64 bits.
    Int64 = 9, "int64", Integer, 64;
    /// Unsigned, 64 bits.
    Uint64 = 10, "uint64", Integer, 64;
    /// IEEE 754 binary64.
    Double = 11, "double", Float, 64;
    /// One byte, 0 or 1.
    Bool = 12, "bool", Bool, 8;
    /// Text of any length.
    String = 13, "string", Opaque, 0;
    /// Two `Float`.
    Complex64 = 16, "complex64", Complex, 64;
    /// Two `Double`.
    Complex128 = 17, "complex128", Complex, 128;
    /// The upper half of a `Float`.
    Bf16 = 27, "bf16", Float, 16;
    /// Signed, two to a byte.
    Int4 = 29, "int4", Integer, 4;
    /// Unsigned, eight to a byte.
    Uint1 = 30, "uint1", Integer, 1;
    /// Two `Float16`.
    Complex32 = 33, "complex32", Complex, 32;
    /// Huawei's 8-bit float with tapered precision.
    Hifloat8 = 34, "hifloat8", Float, 8;
    /// 5 bits of exponent, 2 of fraction.
    Float8E5m2 = 35, "float8_e5m2", Float, 8;
    /// 4 bits of exponent, 3 of fraction, no infinity.
    Float8E4m3fn = 36, "float8_e4m3fn", Float, 8;
    /// A power of two: the scale of a block.
    Float8E8m0 = 37, "float8_e8m0", Float, 8;
    /// 3 bits of exponent, 2 of fraction.
    Float6E3m2 = 38, "float6_e3m2", Float, 6;
    /// 2 bits of exponent, 3 of fraction.
    Float6E2m3 = 39, "float6_e2m3", Float, 6;
    /// 2 bits of exponent, 1 of fraction.
    Float4E2m1 = 40, "float4_e2m1", Float, 4;
    /// 1 bit of exponent, 2 of fraction.
    Float4E1m2 = 41, "float4_e1m2", Float, 4;
}

impl DType {
    /// The number in `aclDataType`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Bits of one element; `None` where elements have no fixed size.
    pub fn bits(self) -> Option<usize> {
        Some(self.layout().1).filter(|bits| *bits != 0)
    }

    /// Bytes of one element; `None` where that is not an integer of at least one.
    pub fn size_in_bytes(self) -> Option<usize> {
        self.bits().filter(|bits| bits % 8 == 0).map(|bits| bits / 8)
    }

    /// Bytes of `count` elements, packed where several share a byte; `None` where elements have no
    /// fixed size or the sum exceeds 64 bits.
    pub fn bytes_of(self, count: usize) -> Option<usize> {
        let bits = count as u128 * self.bits()? as u128;
        usize::try_from(bits.div_ceil(8)).ok()
    }

    /// A floating-point type.
    pub fn is_floating(self) -> bool {
        self.layout().0 == Kind::Float
    }

    /// A complex type.
    pub fn is_complex(self) -> bool {
        self.layout().0 == Kind::Complex
    }

    /// The type of each part of a complex number; any other type itself.
    pub fn real_part(self) -> DType {
        match self {
            DType::Complex32 => DType::Float16,
            DType::Complex64 => DType::Float,
            DType::Complex128 => DType::Double,
            other => other,
        }
    }

    /// An integer type; `Bool` is none.
    pub fn is_integer(self) -> bool {
        self.layout().0 == Kind::Integer
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_one_to_one() {
        let mut count = 0;
        for number in -100..200 {
            if let Some(dtype) = DType::from_number(number) {
                assert_eq!(dtype.number(), number);
                count += 1;
            }
        }
        assert_eq!(count, DType::ALL.len());
        assert_eq!(count, 28);
        assert!(DType::ALL.windows(2).all(|w| w[0].number() < w[1].number()));
    }

    #[test]
    fn sizes() {
        let bytes = |expected| {
            let has_size = |d: &DType| d.size_in_bytes() == expected;
            DType::ALL.iter().copied().filter(has_size).map(DType::number).collect::<Vec<_>>()
        };
        assert_eq!(bytes(None), [-1, 13, 29, 30, 38, 39, 40, 41]);
        assert_eq!(bytes(Some(1)), [2, 4, 12, 34, 35, 36, 37]);
        assert_eq!(bytes(Some(2)), [1, 6, 7, 27]);
        assert_eq!(bytes(Some(4)), [0, 3, 8, 33]);
        assert_eq!(bytes(Some(8)), [9, 10, 11, 16]);
        assert_eq!(bytes(Some(16)), [17]);
    }

    #[test]
    fn packed_elements_share_bytes() {
        assert_eq!(DType::Int4.bytes_of(3), Some(2));
        assert_eq!(DType::Uint1.bytes_of(9), Some(2));
        assert_eq!(DType::Float6E3m2.bytes_of(4), Some(3));
        assert_eq!(DType::Double.bytes_of(0), Some(0));
        assert_eq!(DType::Double.bytes_of(usize::MAX / 8), Some(usize::MAX & !7));
        assert_eq!(DType::Double.bytes_of(usize::MAX / 8 + 1), None);
        assert_eq!(DType::Complex128.bytes_of(usize::MAX), None);
        assert_eq!(DType::String.bytes_of(1), None);
    }

    #[test]
    fn every_type_is_of_one_kind_at_most() {
        for d in DType::ALL {
            let kinds = [d.is_floating(), d.is_complex(), d.is_integer()];
            let opaque = matches!(d, DType::Undefined | DType::String | DType::Bool);
            assert_eq!(kinds.iter().filter(|k| **k).count(), usize::from(!opaque), "{d}");
        }
    }
}
