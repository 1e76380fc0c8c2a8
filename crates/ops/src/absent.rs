//! The message about an operator that Cairn does not have.
//!
//! torch_npu calls an aclnn function where the library has it, and asks for an older operator by its IR name where not:
//! the name in a message is then not that of the function that is missing. The text names both.

use crate::table::rows;

/// The functions that torch_npu 2.9 looks for, without `aclnn`.
const ASKED_BY_TORCH_NPU: &str = include_str!("torch_npu_names.txt");

/// IR names whose aclnn functions are called otherwise: how the IR name begins, how the functions do.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("Conv", &["Convolution", "ConvTbc", "ConvDepthwise"]),
    ("DepthwiseConv", &["Convolution", "ConvDepthwise"]),
    ("DeformableOffsets", &["DeformableConv2d"]),
    ("DynamicRNN", &["LSTM", "Lstm"]),
    ("DynamicGRU", &["GRU"]),
    ("DynamicAUGRU", &["GRU"]),
    ("CommonLSTM", &["LSTM", "Lstm"]),
    ("CommonGRU", &["GRU"]),
    ("Cholesky", &["LinalgCholesky"]),
    ("Qr", &["LinalgQr"]),
    ("MatrixInverse", &["Inverse"]),
    ("ResizeNearest", &["UpsampleNearest"]),
    ("ResizeBilinear", &["UpsampleBilinear"]),
    ("ResizeBicubic", &["UpsampleBicubic"]),
    ("BNTraining", &["BatchNorm"]),
    ("BNInfer", &["BatchNorm"]),
    ("RotaryMul", &["RotaryPositionEmbedding"]),
];

/// A name without what tells its versions and its gradient apart, in small letters.
fn stem(name: &str) -> String {
    let mut name = name.strip_prefix("Inplace").unwrap_or(name).to_ascii_lowercase();
    loop {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let shorter = match digits.strip_suffix('v') {
            Some(rest) if digits.len() < name.len() => Some(rest),
            _ => None,
        };
        let shorter = shorter
            .or_else(|| name.strip_suffix("backward"))
            .or_else(|| name.strip_suffix("grad"))
            .filter(|rest| !rest.is_empty());
        match shorter {
            Some(rest) => name = rest.to_owned(),
            None => return name,
        }
    }
}

/// The aclnn functions of an operator's family that torch_npu looks for and Cairn does not have.
fn missing_functions(operator: &str) -> Vec<String> {
    let others = OTHER_NAMES.iter().filter(|(ir, _)| operator.starts_with(ir));
    let others: Vec<&str> = others.flat_map(|(_, names)| names.iter().copied()).collect();
    let operator_stem = stem(operator);
    let is_related = |name: &str| {
        stem(name) == operator_stem
            || format!("{operator_stem}d") == stem(name)
            || others.iter().any(|other| name.starts_with(other))
    };
    (ASKED_BY_TORCH_NPU.lines())
        .filter(|name| is_related(name) && !rows().contains_key(name))
        .map(|name| format!("aclnn{name}"))
        .collect()
}

/// What a caller by name reads of an operator that is not there: that it is Cairn that lacks it, which functions of its
/// family it lacks, and where the list is.
pub fn absent(operator: &str) -> String {
    let missing = missing_functions(operator);
    let also = match &missing[..] {
        [] => String::new(),
        names => format!(", nor {}, which torch_npu looks for first", names.join(", ")),
    };
    format!("Cairn has no operator {operator}{also} (docs/operators.md says which it has)")
}
