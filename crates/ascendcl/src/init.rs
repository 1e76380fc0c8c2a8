//! `aclInit` and `aclFinalize`: a reference count and a configuration file.

use crate::code::{AclError, aclError};
use crate::door::{self, entry, runtime, value_entry};
use crate::{abi, mdl, message, process};
use cairn_runtime::error::{Code, Error, Result};
use serde_json::Value;
use std::ffi::c_char;
use std::sync::Mutex;

static INITIALISED: Mutex<u64> = Mutex::new(0);

/// The deepest nesting of braces, and of brackets, that a configuration file may have.
const MAX_DEPTH: usize = 10;
/// The longest configuration file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Whether a key of the configuration changes anything.
#[derive(Clone, Copy)]
enum Effect {
    Some,
    None,
}

/// The known keys of the configuration.
const KEYS: &[(&str, Effect)] = &[
    ("err_msg_mode", Effect::Some),
    ("defaultDevice.default_device", Effect::Some),
    ("dump", Effect::None),
    ("max_opqueue_num", Effect::None),
    ("profiler", Effect::None),
    ("simd_printf_fifo_size_per_core", Effect::None),
    ("simt_printf_fifo_size", Effect::None),
    ("StackSize.aicore_stack_size", Effect::None),
    ("StackSize.simt_divergence_stack_size", Effect::None),
    ("StackSize.simt_stack_size", Effect::None),
];

fn count() -> std::sync::MutexGuard<'static, u64> {
    INITIALISED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Whether `aclInit` was called, and `aclFinalize` not yet.
pub fn is_initialised() -> bool {
    *count() > 0
}

entry! {
    /// Starts ACL. A second call only counts, and returns a code that says so.
    fn aclInit(config_path: *const c_char) {
        runtime()?;
        let mut count = count();
        if *count > 0 {
            *count += 1;
            return Err(Error::new(Code::RepeatInitialize, format!("aclInit was called before ({} times)", *count - 1)));
        }
        if !config_path.is_null() {
            // SAFETY: the user passes a C string.
            let path = unsafe { door::string(config_path, "configPath") }?;
            if !path.is_empty() {
                apply(&path)?;
            }
        }
        *count = 1;
        Ok(())
    }

    /// Ends ACL whatever the count.
    fn aclFinalize() {
        let mut count = count();
        if *count == 0 {
            return Err(not_initialized());
        }
        *count = 0;
        drop(count);
        finalize()?;
        Ok(())
    }

    /// Ends ACL when the count comes to zero; returns the count.
    fn aclFinalizeReference(ref_count: *mut u64) {
        let mut count = count();
        if *count == 0 {
            return Err(not_initialized());
        }
        *count -= 1;
        let left = *count;
        drop(count);
        if left == 0 {
            finalize()?;
        }
        if !ref_count.is_null() {
            // SAFETY: not null; the user passes a pointer to the count.
            unsafe { door::write(ref_count, "refCount", left) }?;
        }
        Ok(())
    }
}

/// Ends what ACL holds: models, then pending work.
fn finalize() -> Result<()> {
    mdl::unload_all();
    runtime()?.finalize();
    Ok(())
}

fn not_initialized() -> Error {
    Error::new(
        Code::RepeatFinalize,
        "ACL is not initialised: aclInit was not called, or aclFinalize was called before",
    )
}

value_entry! {
    /// The text of this thread's last failure, once; null when nothing failed since.
    fn aclGetRecentErrMsg() -> *const c_char, else door::FORKED.as_ptr(), {
        Ok(message::take())
    }
}

/// The code of this thread's last failure; clears it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetLastError(level: abi::aclrtLastErrLevel) -> aclError {
    last_error(abi::Entry::aclrtGetLastError, level, true)
}
const _: abi::signature::aclrtGetLastError = aclrtGetLastError;

/// The code of this thread's last failure; leaves it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtPeekAtLastError(level: abi::aclrtLastErrLevel) -> aclError {
    last_error(abi::Entry::aclrtPeekAtLastError, level, false)
}
const _: abi::signature::aclrtPeekAtLastError = aclrtPeekAtLastError;

/// The code of this thread's last failure.
fn last_error(entry: abi::Entry, level: abi::aclrtLastErrLevel, take: bool) -> aclError {
    if process::forked() {
        return Err(Code::RtInternal.into());
    }
    if level != abi::ACL_RT_THREAD_LEVEL {
        return door::status(entry, || {
            Err(Error::invalid(format!("error level {level}: expected 0 (thread)")))
        });
    }
    door::count(entry, 0);
    AclError::of_number(door::last_code(take))
}

/// Reads the configuration file, and applies what has an effect.
fn apply(path: &str) -> Result<()> {
    let unreadable = |why: String| {
        Error::new(
            Code::InvalidFile,
            format!("the configuration file {path} cannot be read: {why}"),
        )
    };
    let meta = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?;
    if !meta.is_file() || meta.len() > MAX_FILE_BYTES {
        return Err(unreadable(format!("it is no file of at most {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
    let unparsable = |why: String| {
        Error::new(Code::ParseFile, format!("the configuration file {path} is not usable: {why}"))
    };
    let text = String::from_utf8(text).map_err(|_| unparsable("it is not UTF-8 text".into()))?;
    check_depth(&text).map_err(unparsable)?;
    let config: Value = serde_json::from_str(&text).map_err(|e| unparsable(e.to_string()))?;
    let Value::Object(config) = config else {
        return Err(unparsable("it is not a JSON object".into()));
    };
    let bad = |key: &str, value: &Value, expected: &str| {
        Error::new(Code::FileAttrInvalid, format!("{path}: {key} is {value}, expected {expected}"))
    };
    if let Some(value) = config.get("max_opqueue_num")
        && number(value).is_none_or(|n| n == 0)
    {
        let text = format!("{path}: max_opqueue_num is {value}, expected a positive number");
        return Err(Error::new(Code::InvalidMaxOpqueue, text));
    }
    let mode = match config.get("err_msg_mode") {
        None => 0,
        Some(value) => number(value)
            .filter(|&n| n <= 1)
            .ok_or_else(|| bad("err_msg_mode", value, "\"0\" (thread) or \"1\" (process)"))?,
    };
    for key in ["dump", "profiler"] {
        if let Some(value) = config.get(key).filter(|v| !v.is_object()) {
            return Err(bad(key, value, "an object"));
        }
    }
    if let Some(value) = config.get("StackSize").and_then(|s| s.get("aicore_stack_size")) {
        number(value)
            .filter(|&n| n >= 32768 && n % 16384 == 0)
            .ok_or_else(|| bad("aicore_stack_size", value, "a multiple of 16384 from 32768 on"))?;
    }
    let default =
        match config.get("defaultDevice").and_then(|d| d.get("default_device")) {
            None => None,
            Some(value) => {
                let id = number(value)
                    .ok_or_else(|| bad("default_device", value, "a device id such as \"0\""))?;
                let known = runtime()?.device(id as i64).is_ok();
                Some(known.then_some(id as i32).ok_or_else(|| {
                    bad("default_device", value, "the id of a device that exists")
                })?)
            }
        };
    message::set_per_process(mode == 1);
    runtime()?.set_default_device(default);
    let (ignored, unknown) = without_effect(&config);
    if !ignored.is_empty() {
        log::warn!("aclInit: {path}: keys taken without effect: {}", ignored.join(", "));
    }
    if !unknown.is_empty() {
        let keys = unknown.join(", ");
        log::warn!("aclInit: {path}: unknown keys, taken without effect: {keys}");
    }
    Ok(())
}

/// The keys of a configuration that have no effect, and the unknown ones. Those inside a known object follow its name
/// and a dot.
fn without_effect(config: &serde_json::Map<String, Value>) -> (Vec<String>, Vec<String>) {
    let (mut ignored, mut unknown) = (Vec::new(), Vec::new());
    let mut classify = |key: String| match KEYS.iter().find(|(known, _)| *known == key) {
        Some((_, Effect::Some)) => {}
        Some((_, Effect::None)) => ignored.push(key),
        None => unknown.push(key),
    };
    for (key, value) in config {
        let has_known_keys = KEYS.iter().any(|(known, _)| {
            known.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'))
        });
        match value {
            Value::Object(parts) if has_known_keys => {
                parts.keys().for_each(|part| classify(format!("{key}.{part}")))
            }
            _ => classify(key.clone()),
        }
    }
    (ignored, unknown)
}

/// A number, also one in a string.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64(),
        _ => None,
    }
}

/// Fails for text that nests too deeply.
fn check_depth(text: &str) -> std::result::Result<(), String> {
    let (mut braces, mut brackets, mut is_quoted, mut is_escaped) = (0usize, 0usize, false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        if braces > MAX_DEPTH || brackets > MAX_DEPTH {
            return Err(format!("it nests more than {MAX_DEPTH} braces or brackets"));
        }
    }
    Ok(())
}
