//! The operators of failed tasks.

use crate::abi::aclTensorDesc;
use crate::door::{entry, not_null, runtime};
use cairn_runtime::error::{Code, Error};
use std::ffi::c_char;

entry! {
    /// Always fails: operators are not recorded by task.
    fn aclmdlCreateAndGetOpDesc(
        device: u32,
        stream: u32,
        task: u32,
        name: *mut c_char,
        name_bytes: usize,
        inputs: *mut *mut aclTensorDesc,
        input_count: *mut usize,
        outputs: *mut *mut aclTensorDesc,
        output_count: *mut usize,
    ) {
        not_null(name, "opName")?;
        not_null(inputs, "inputDesc")?;
        not_null(input_count, "numInputs")?;
        not_null(outputs, "outputDesc")?;
        not_null(output_count, "numOutputs")?;
        if name_bytes == 0 {
            return Err(Error::invalid("opNameLen = 0: a name needs room"));
        }
        runtime()?.device(i64::from(device))?;
        Err(Error::new(
            Code::GeFailure,
            format!(
                "the operator of task {task} on stream {stream} of device {device} is not recorded: the message of a failed run names its operator"
            ),
        ))
    }
}
