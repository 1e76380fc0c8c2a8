//! Settings of the process and of communicators, texts of codes, and what a configuration can say. Nothing here needs an
//! engine, and only what names a communicator starts the runtime.

use super::door::{communicator, entry, not_null, write};
use super::process;
use crate::abi::{
    self, HCCL_COMM_CONFIG_RESERVED, HCCL_DETERMINISTIC, HCCL_OP_EXPANSION_MODE_HOST, HcclComm,
    HcclConfig, HcclConfigType, HcclConfigTypeOpExpansionMode, HcclConfigValue, HcclResult,
};
use cairn_comm::environment::Determinism;
use cairn_comm::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_void};

/// The value of `HCCL_DETERMINISTIC`.
fn determinism(value: HcclConfigValue) -> Result<Determinism> {
    // SAFETY: the union has one member, of which every value is one.
    let number = unsafe { value.value };
    Determinism::from_number(number).ok_or_else(|| {
        Error::parameter(format!("the value {number} of HCCL_DETERMINISTIC: expected 0 to 2"))
    })
}

entry! {
    /// Sets an option of the process; the environment has precedence. Other options are ignored, as HCCL does.
    fn HcclSetConfig(config: HcclConfig, value: HcclConfigValue) {
        if config == HCCL_DETERMINISTIC {
            process::set_determinism(determinism(value)?);
        }
        Ok(())
    }

    /// What holds for communicators that say nothing themselves.
    fn HcclGetConfig(config: HcclConfig, value: *mut HcclConfigValue) {
        not_null(value, "configValue")?;
        if config != HCCL_DETERMINISTIC {
            return Ok(());
        }
        let determinism = process::environment().determinism.unwrap_or_else(process::determinism);
        // SAFETY: not null; valid for writes of the value.
        unsafe { write(value, "configValue", HcclConfigValue { value: determinism as i32 }) }
    }

    /// Sets an option of one communicator.
    fn HcclSetCommConfig(comm: HcclComm, config: HcclConfig, value: HcclConfigValue) {
        let communicator = communicator(comm)?;
        if config == HCCL_DETERMINISTIC {
            communicator.set_determinism(determinism(value)?);
        }
        Ok(())
    }

    /// What holds for one communicator.
    fn HcclGetCommConfig(comm: HcclComm, config: HcclConfig, value: *mut HcclConfigValue) {
        let communicator = communicator(comm)?;
        not_null(value, "configValue")?;
        if config != HCCL_DETERMINISTIC {
            return Ok(());
        }
        // SAFETY: not null; valid for writes of the value.
        unsafe { write(value, "configValue", HcclConfigValue { value: communicator.determinism() as i32 }) }
    }

    /// What runs the operators: the host, whatever the configuration wished.
    fn HcclConfigGetInfo(comm: HcclComm, kind: HcclConfigType, length: u32, info: *mut c_void) {
        communicator(comm)?;
        not_null(info, "info")?;
        if kind != abi::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE {
            return Err(Error::parameter(format!("cfgType {kind}: expected 0 (the expansion mode)")));
        }
        let expected = size_of::<HcclConfigTypeOpExpansionMode>() as u32;
        if length != expected {
            return Err(Error::parameter(format!("infoLen {length}: expected {expected}")));
        }
        // SAFETY: not null; the user says that there are as many bytes as the mode has.
        unsafe { write(info.cast(), "info", HCCL_OP_EXPANSION_MODE_HOST) }
    }
}

/// The number after the last field of a configuration that is known.
#[unsafe(no_mangle)]
pub extern "C" fn HcclGetCommConfigCapability() -> u32 {
    crate::door::count(abi::Entry::HcclGetCommConfigCapability, 0);
    HCCL_COMM_CONFIG_RESERVED
}
const _: abi::signature::HcclGetCommConfigCapability = HcclGetCommConfigCapability;

/// What a code means.
#[unsafe(no_mangle)]
pub extern "C" fn HcclGetErrorString(code: HcclResult) -> *const c_char {
    crate::door::count(abi::Entry::HcclGetErrorString, 0);
    error_string(code.cast_signed()).as_ptr()
}
const _: abi::signature::HcclGetErrorString = HcclGetErrorString;

/// The text of a code with its zero. The texts are made once and stay.
fn error_string(number: i32) -> &'static CStr {
    use std::collections::BTreeMap;
    use std::ffi::CString;
    use std::sync::OnceLock;
    static TEXTS: OnceLock<BTreeMap<i32, CString>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let numbers = Code::ALL.iter().map(|code| *code as i32).chain([0]);
        numbers
            .map(|number| {
                let text = cairn_comm::code::error_string(number);
                (number, CString::new(text).unwrap_or_default())
            })
            .collect()
    });
    texts.get(&number).map_or(c"unknown error", CString::as_c_str)
}
