//! `aclError`: 0 for success, one of CANN's codes otherwise.

use cairn_runtime::error::Code;
use std::num::NonZeroI32;

/// A code that is not success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct AclError(NonZeroI32);

/// What the functions of the C interface return: an `i32` with 0 for `Ok`.
#[allow(non_camel_case_types)]
pub type aclError = Result<(), AclError>;

/// The same for the functions of aclnn, which have codes of their own.
#[allow(non_camel_case_types)]
pub type aclnnStatus = aclError;

const _: () = assert!(size_of::<aclError>() == size_of::<i32>());

impl From<Code> for AclError {
    fn from(code: Code) -> AclError {
        AclError(NonZeroI32::new(code as i32).expect("no code is zero"))
    }
}

impl AclError {
    /// The number.
    pub fn number(self) -> i32 {
        self.0.get()
    }
}

impl AclError {
    /// The code as a status; 0 is success.
    pub fn of_number(number: i32) -> aclError {
        NonZeroI32::new(number).map_or(Ok(()), |n| Err(AclError(n)))
    }
}
