//! The start and the end of aclnn. There is nothing to set up: operators are in this library.

use super::nn_entry;
use crate::door::string;
use cairn_runtime::error::Error;
use std::ffi::c_char;

nn_entry! {
    /// Takes null or a file that exists; nothing is read from it.
    fn aclnnInit(path: *const c_char) {
        if path.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and the caller passes a NUL-terminated string.
        let path = unsafe { string(path, "configPath") }?;
        match std::fs::metadata(&path) {
            Ok(file) if file.is_file() => Ok(()),
            Ok(_) => Err(Error::invalid(format!("configPath = {path} is no file"))),
            Err(error) => Err(Error::invalid(format!("configPath = {path}: {error}"))),
        }
    }

    /// Nothing to do.
    fn aclnnFinalize() {
        Ok(())
    }
}
