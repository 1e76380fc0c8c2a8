//! What a call that is refused says at the door.

use cairn_ops as ops;
use cairn_runtime::error::{Code, Error};

/// Which codes a door gives for arguments that an operator does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// 161001 for null, 161002 for what is invalid.
    Aclnn,
    /// 100000 for both.
    ByName,
}

/// The refusal of an operator's call, with the operator's name.
pub fn refusal(door: Door, name: &str, error: &ops::Error) -> Error {
    let code = match (door, error) {
        (Door::ByName, _) => Code::InvalidParam,
        (Door::Aclnn, ops::Error::Null(_)) => Code::OperatorNull,
        (Door::Aclnn, ops::Error::Invalid(_) | ops::Error::Values(_)) => Code::OperatorInvalid,
    };
    Error::new(code, format!("{name}: {}", error.text()))
}
