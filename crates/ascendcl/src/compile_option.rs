//! Options of the operator compiler. Nothing is compiled here, so they are kept for the process and
//! given back; only programs that ask for them see them.

use crate::abi::{ACL_OP_DEBUG_OPTION, ACL_OP_JIT_COMPILE, aclCompileOpt};
use crate::door::{entry, not_null, string, value_entry};
use cairn_runtime::error::{Error, Result};
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

const COUNT: usize = ACL_OP_DEBUG_OPTION as usize + 1;

/// The value of each option that was set.
static OPTIONS: Mutex<[Option<String>; COUNT]> = Mutex::new([const { None }; COUNT]);

fn options() -> MutexGuard<'static, [Option<String>; COUNT]> {
    OPTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of an option that there is.
fn index_of(option: aclCompileOpt) -> Result<usize> {
    let at = option as usize;
    (at < COUNT).then_some(at).ok_or_else(|| {
        Error::invalid(format!(
            "opt = {} is no compile option: they are 0 to {}",
            option as i32,
            COUNT - 1
        ))
    })
}

/// What was set, or the default: operators are ready, so compiling them on first use is off.
fn value_of(option: aclCompileOpt) -> Result<String> {
    let set = options()[index_of(option)?].clone();
    Ok(set.unwrap_or_else(|| match option {
        ACL_OP_JIT_COMPILE => "disable".to_owned(),
        _ => String::new(),
    }))
}

value_entry! {
    /// The bytes that aclGetCompileopt writes, with the final zero.
    fn aclGetCompileoptSize(option: aclCompileOpt) -> usize, else 0, {
        Ok(value_of(option)?.len() + 1)
    }
}

entry! {
    /// Sets an option of the process.
    fn aclSetCompileopt(option: aclCompileOpt, value: *const c_char) {
        let at = index_of(option)?;
        // SAFETY: the caller passes a NUL-terminated string or null.
        let value = unsafe { string(value, "value") }?;
        options()[at] = Some(value);
        Ok(())
    }

    /// Copies the value of an option, with the final zero, to `value`.
    fn aclGetCompileopt(option: aclCompileOpt, value: *mut c_char, length: usize) {
        not_null(value, "value")?;
        let text = value_of(option)?;
        if length <= text.len() {
            return Err(Error::invalid(format!(
                "the value of opt = {option} needs {} bytes, length is {length}",
                text.len() + 1
            )));
        }
        let to = value.cast::<u8>();
        // SAFETY: the caller has room for `length` bytes, which is more than the text has.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr(), text.len());
            to.add(text.len()).write(0);
        }
        Ok(())
    }
}
