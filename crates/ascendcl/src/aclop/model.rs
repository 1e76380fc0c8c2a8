//! Where operators by name come from: the table. Folders and models that hold compiled ones are accepted and
//! not read.

use super::call::{descriptions, operator};
use crate::abi::{
    ACL_OP_COMPILE_DEFAULT, ACL_OP_COMPILE_FUZZ, aclOpCompileFlag, aclTensorDesc, aclopAttr,
    aclopCompileType, aclopEngineType,
};
use crate::door::{entry, not_null, string};
use cairn_runtime::error::Error;
use std::ffi::{c_char, c_int, c_void};

entry! {
    /// Takes a folder that exists.
    fn aclopSetModelDir(folder: *const c_char) {
        // SAFETY: the caller passes a NUL-terminated string or null.
        let folder = unsafe { string(folder, "modelDir") }?;
        match std::fs::metadata(&folder) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(Error::invalid(format!("modelDir = {folder} is no folder"))),
            Err(error) => Err(Error::invalid(format!("modelDir = {folder}: {error}"))),
        }
    }

    /// Takes a model in memory.
    fn aclopLoad(model: *const c_void, bytes: usize) {
        not_null(model, "model")?;
        match bytes {
            0 => Err(Error::invalid("modelSize = 0: a model has data")),
            _ => Ok(()),
        }
    }

    /// Takes any number but 0.
    fn aclopSetMaxOpQueueNum(count: u64) {
        match count {
            0 => Err(Error::invalid("maxOpNum = 0: at least one operator is kept")),
            _ => Ok(()),
        }
    }

    /// Takes an operator that exists.
    fn aclopCompile(
        name: *const c_char,
        inputs: c_int,
        input_descs: *const *const aclTensorDesc,
        outputs: c_int,
        output_descs: *const *const aclTensorDesc,
        _attributes: *const aclopAttr,
        _engine: aclopEngineType,
        _compile: aclopCompileType,
        _path: *const c_char,
    ) {
        // SAFETY: the caller passes a name and lists of these lengths, or null.
        unsafe {
            operator(name)?;
            descriptions(input_descs, inputs, "inputDesc")?;
            descriptions(output_descs, outputs, "outputDesc")?;
        }
        Ok(())
    }

    /// Takes a known flag.
    fn aclopSetCompileFlag(flag: aclOpCompileFlag) {
        match flag {
            ACL_OP_COMPILE_DEFAULT | ACL_OP_COMPILE_FUZZ => Ok(()),
            _ => Err(Error::invalid(format!("flag = {flag} is no compile flag: they are 0 and 1"))),
        }
    }
}
