//! Types of elements and formats, by the numbers and names of the model format.

use cairn_tensor::{DType, Format};

/// Each type with its number in a `TensorDescriptor`. Attributes hold the numbers of C++ instead.
const TYPES: [(i32, DType); 28] = [
    (0, DType::Undefined),
    (1, DType::Float),
    (2, DType::Float16),
    (3, DType::Int8),
    (4, DType::Uint8),
    (5, DType::Int16),
    (6, DType::Uint16),
    (7, DType::Int32),
    (8, DType::Int64),
    (9, DType::Uint32),
    (10, DType::Uint64),
    (11, DType::Bool),
    (12, DType::Double),
    (13, DType::String),
    (16, DType::Complex64),
    (17, DType::Complex128),
    (27, DType::Bf16),
    (28, DType::Int4),
    (29, DType::Uint1),
    (32, DType::Complex32),
    (33, DType::Hifloat8),
    (34, DType::Float8E5m2),
    (35, DType::Float8E4m3fn),
    (36, DType::Float8E8m0),
    (37, DType::Float6E3m2),
    (38, DType::Float6E2m3),
    (39, DType::Float4E2m1),
    (40, DType::Float4E1m2),
];

/// The type of a number.
pub fn dtype(number: i32) -> Option<DType> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype)
}

/// The number of a type.
pub fn dtype_number(dtype: DType) -> i32 {
    TYPES.iter().find(|(_, known)| *known == dtype).map_or(0, |(number, _)| *number)
}

/// The format of a name, with or without C++'s prefix; no name is `ND`, and the one that stands for none is
/// [`Format::UNDEFINED`].
pub fn format(name: &str) -> Option<Format> {
    let short = name.strip_prefix("FORMAT_").unwrap_or(name);
    match short {
        "" => Some(Format::ND),
        "RESERVED" => Some(Format::UNDEFINED),
        _ => Format::ALL.iter().find(|format| format.name() == Some(short)).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for one in DType::ALL {
            assert_eq!(dtype(dtype_number(*one)), Some(*one), "{one}");
        }
        assert_eq!(dtype_number(DType::Int32), 7);
        assert_eq!((dtype(18), dtype(42)), (None, None));
    }

    #[test]
    fn the_numbers_are_those_of_the_proto_file() {
        let text = include_str!("../../proto/ge_ir.proto");
        for one in DType::ALL {
            let line = format!("  DT_{} = {};", one.name().to_uppercase(), dtype_number(*one));
            assert!(text.lines().any(|it| it == line), "no line {line:?}");
        }
    }

    #[test]
    fn formats_by_name() {
        for one in Format::ALL {
            assert_eq!(format(one.name().unwrap()), Some(*one));
        }
        assert_eq!(format("FORMAT_RESERVED"), Some(Format::UNDEFINED));
        assert_eq!((format(""), format("XYZ")), (Some(Format::ND), None));
    }
}
