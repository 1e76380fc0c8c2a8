//! The code and text of a call that is refused.

use cairn_ops as ops;
use cairn_runtime::error::{Code, Error};

/// How an operator was called, which decides the codes for arguments that it does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// By an `aclnn` function: 161001 for null, 161002 for an invalid value.
    Aclnn,
    /// By the type of the operator, as in `aclopExecuteV2` or as a node of a graph: 100000 for both.
    ByName,
}

/// The refusal of an operator's call, with the operator's name.
pub fn refusal(kind: CallKind, name: &str, error: &ops::Error) -> Error {
    let code = match (kind, error) {
        (CallKind::ByName, _) => Code::InvalidParam,
        (CallKind::Aclnn, ops::Error::Null(_)) => Code::OperatorNull,
        (CallKind::Aclnn, ops::Error::Invalid(_) | ops::Error::NeedsValues(_)) => {
            Code::OperatorInvalid
        }
    };
    Error::new(code, format!("{name}: {}", error.text()))
}
