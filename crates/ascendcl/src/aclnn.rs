//! aclnn: operators in two phases, and the objects that are their arguments.
//!
//! ```text
//! aclnnXGetWorkspaceSize(arguments..) ──> Argument (argument.rs) ──> cairn_ops::Row::plan ──> Executor
//! aclnnX(workspace, size, executor, stream) ──> Execution::submit
//! ```
//!
//! An operator is a line of `exports.rs`, which `cargo xtask gen` writes for every row of the table.

mod argument;
mod array;
mod executor;
mod exports;
mod list;
mod operator;
mod scalar;
mod start;
mod tensor;

use cairn_runtime::error::{Code, Error, Result};
pub use operator::every_operator;

/// Defines functions of aclnn that return a status. The body gives `Result<()>`.
macro_rules! nn_entry {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::code::aclnnStatus {
            $crate::door::status($crate::abi::Entry::$name, || {
                let body = || -> cairn_runtime::error::Result<()> { $body };
                body().map_err($crate::aclnn::with_aclnn_code)
            })
        }
        const _: $crate::abi::signature::$name = $name;
    )*};
}
use nn_entry;

/// The failure with aclnn's code for it: the operator's own codes stay, a bad argument is 161002, anything else
/// is a failure of the runtime.
fn with_aclnn_code(error: Error) -> Error {
    let code = match error.code {
        Code::OperatorNull | Code::OperatorInvalid | Code::Internal => error.code,
        Code::InvalidParam | Code::InvalidHandle => Code::OperatorInvalid,
        _ => Code::OperatorRuntime,
    };
    Error { code, ..error }
}

/// Fails for a null pointer, with aclnn's code for it.
fn nn_not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    match pointer.is_null() {
        true => Err(Error::new(Code::OperatorNull, format!("the argument {name} is null"))),
        false => Ok(()),
    }
}

/// The values of an array of the user.
///
/// # Safety
/// `values` is null or points to `count` readable values, of any alignment.
pub unsafe fn values<T: Copy>(
    values: *const T,
    count: u64,
    name: &str,
) -> Result<impl ExactSizeIterator<Item = T>> {
    if count > 0 {
        nn_not_null(values, name)?;
    }
    if count > MAX_VALUES {
        return Err(Error::invalid(format!("{name} has {count} values, more than {MAX_VALUES}")));
    }
    // SAFETY: not null where anything is read, and the caller vouches for the rest.
    Ok((0..count as usize).map(move |at| unsafe { values.add(at).read_unaligned() }))
}

/// The most values of one array or list.
const MAX_VALUES: u64 = 1 << 32;
