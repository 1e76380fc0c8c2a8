//! What processes share by key: device memory, events, notifies.

use crate::abi;
use crate::door::{self, Handle, entry, out_entry, runtime, string, write};
use crate::shareable::pids;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::sharing::{Key, SharedKind};
use cairn_runtime::memory::{raw, writers};
use std::ffi::c_char;
use std::time::Duration;

/// Bytes of a key with the zero at its end.
const KEY_BYTES: usize = 65;
/// How a key begins.
const PREFIX: &str = "cairn-";

/// The text of a key: 64 characters.
fn text(key: Key) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let text = format!("{PREFIX}{key}{:0>42}", "");
    bytes[..KEY_BYTES - 1].copy_from_slice(text.as_bytes());
    bytes
}

/// The key in a text of the user.
fn parse(key: *const c_char) -> Result<Key> {
    door::not_null(key, "key")?;
    raw::expect_readable(key as usize, PREFIX.len() + 16, "key")?;
    // SAFETY: not null; the user passes a text, whose first bytes can be read.
    let given = unsafe { string(key, "key")? };
    let number = given.strip_prefix(PREFIX).and_then(|rest| rest.get(..16));
    let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let is_whole = |key: &Key| given.as_bytes() == &text(*key)[..KEY_BYTES - 1];
    number.map(Key).filter(is_whole).ok_or_else(|| {
        let shown: String = given.chars().take(KEY_BYTES).collect();
        Error::refused(format!("{shown:?} is no key that Cairn made"))
    })
}

/// Writes a key for the user.
fn give_key(key: Key, out: *mut c_char) {
    for (at, byte) in text(key).into_iter().enumerate() {
        // SAFETY: not null, and the user says that 65 bytes and more are there.
        unsafe { out.add(at).write(byte as c_char) };
    }
}

fn check_length(len: usize) -> Result<()> {
    match len {
        KEY_BYTES.. => Ok(()),
        _ => Err(Error::refused(format!("len {len}: a key has {KEY_BYTES} bytes"))),
    }
}

fn one_flag(flags: u64, flag: u64) -> Result<bool> {
    match flags {
        0 => Ok(false),
        _ if flags == flag => Ok(true),
        _ => Err(Error::refused(format!("flags {flags}: expected 0 or {flag}"))),
    }
}

out_entry! {
    /// Maps memory of another process.
    fn aclrtIpcMemImportByKey(address = "devPtr", key: *const c_char, flags: u64) {
        let key = parse(key)?;
        one_flag(flags, u64::from(abi::ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS))?;
        let runtime = runtime()?;
        let device = runtime.current_device()?;
        runtime.shared.memory.import_memory(key, device)
    }

    /// A new notify.
    fn aclrtCreateNotify(notify = "notify", flag: u64) {
        one_flag(flag, u64::from(abi::ACL_NOTIFY_DEVICE_USE_ONLY))?;
        runtime()?.create_notify()
    }

    /// A notify of another process.
    fn aclrtNotifyImportByKey(notify = "notify", key: *const c_char, flags: u64) {
        let key = parse(key)?;
        one_flag(flags, u64::from(abi::ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS))?;
        runtime()?.import_notify(key)
    }
}

entry! {
    /// A key under which other processes map device memory.
    fn aclrtIpcMemGetExportKey(address: Handle, size: usize, key: *mut c_char, len: usize, flags: u64) {
        door::not_null(address, "devPtr")?;
        door::not_null(key, "key")?;
        if size == 0 {
            return Err(Error::refused("size 0: it must be positive"));
        }
        check_length(len)?;
        let is_open = one_flag(flags, u64::from(abi::ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION))?;
        let runtime = runtime()?;
        writers::expect_exports();
        give_key(runtime.shared.memory.export_memory(address as usize, size as u64, is_open)?, key);
        Ok(())
    }

    /// Names processes that may import.
    fn aclrtIpcMemSetImportPid(key: *const c_char, list: *mut i32, count: usize) {
        let key = parse(key)?;
        // SAFETY: null or so many numbers of the user.
        let pids = unsafe { pids(list, count)? };
        runtime()?.shared.memory.sharing().allow(key, SharedKind::Memory, &pids)
    }

    /// Ends an import, or in the exporting process the key.
    fn aclrtIpcMemClose(key: *const c_char) {
        runtime()?.shared.memory.close_memory(parse(key)?)
    }

    /// Chooses a link between devices; A3 only.
    fn aclrtIpcMemSetAttr(key: *const c_char, kind: abi::aclrtIpcMemAttrType, value: u64) {
        parse(key)?;
        let text = format!("attribute {kind} with value {value}: Cairn has no links between devices, only Atlas A3 has");
        Err(Error::new(Code::FeatureNotSupport, text))
    }

    /// The handle of an event for other processes.
    fn aclrtIpcGetEventHandle(event: Handle, handle: *mut abi::aclrtIpcEventHandle) {
        door::not_null(event, "event")?;
        door::not_null(handle, "handle")?;
        let key = runtime()?.export_event(event as usize)?;
        let mut answer = abi::aclrtIpcEventHandle { reserved: [0; abi::ACL_IPC_EVENT_HANDLE_SIZE as usize] };
        for (to, from) in answer.reserved.iter_mut().zip(text(key)) {
            *to = from as c_char;
        }
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(handle, "handle", answer) }
    }

    /// An event of another process.
    fn aclrtIpcOpenEventHandle(handle: abi::aclrtIpcEventHandle, event: *mut Handle) {
        // SAFETY: null or valid for writes of the event.
        unsafe { write(event, "event", std::ptr::null_mut())? };
        let mut text = [0 as c_char; KEY_BYTES];
        text[..handle.reserved.len()].copy_from_slice(&handle.reserved);
        let opened = runtime()?.open_event(parse(text.as_ptr())?)?;
        // SAFETY: not null; valid for writes of the event.
        unsafe { write(event, "event", opened as Handle) }
    }

    /// Ends a notify.
    fn aclrtDestroyNotify(notify: Handle) {
        door::not_null(notify, "notify")?;
        runtime()?.destroy_notify(notify as usize)
    }

    /// Sets a notify in stream order.
    fn aclrtRecordNotify(notify: Handle, stream: Handle) {
        door::not_null(notify, "notify")?;
        let runtime = runtime()?;
        runtime.notify(notify as usize)?.record(&runtime.stream(stream as usize)?)
    }

    /// Lets a stream wait for a notify.
    fn aclrtWaitAndResetNotify(notify: Handle, stream: Handle, timeout: u32) {
        door::not_null(notify, "notify")?;
        let runtime = runtime()?;
        let limit = Duration::from_secs(u64::from(timeout));
        runtime.notify(notify as usize)?.wait(&runtime.stream(stream as usize)?, limit)
    }

    /// The number of a notify.
    fn aclrtGetNotifyId(notify: Handle, id: *mut u32) {
        door::not_null(notify, "notify")?;
        door::not_null(id, "notifyId")?;
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(id, "notifyId", runtime()?.notify(notify as usize)?.id) }
    }

    /// Clears notifies.
    fn aclrtNotifyBatchReset(notifies: *mut Handle, count: usize) {
        door::not_null(notifies, "notifies")?;
        if count == 0 {
            return Err(Error::invalid("num 0: it must be positive"));
        }
        // SAFETY: the user says that so many handles are there.
        let handles = unsafe { raw::copy_array(notifies, count, "notifies")? };
        let runtime = runtime()?;
        let all = handles.iter().map(|&handle| runtime.notify(handle as usize)).collect::<Result<Vec<_>>>()?;
        all.iter().for_each(|notify| notify.reset());
        Ok(())
    }

    /// A key under which other processes import a notify.
    fn aclrtNotifyGetExportKey(notify: Handle, key: *mut c_char, len: usize, flags: u64) {
        door::not_null(notify, "notify")?;
        door::not_null(key, "key")?;
        check_length(len)?;
        let is_open = one_flag(flags, u64::from(abi::ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION))?;
        give_key(runtime()?.export_notify(notify as usize, is_open)?, key);
        Ok(())
    }

    /// Names processes that may import a notify.
    fn aclrtNotifySetImportPid(notify: Handle, list: *mut i32, count: usize) {
        door::not_null(notify, "notify")?;
        // SAFETY: null or so many numbers of the user.
        runtime()?.allow_notify(notify as usize, &unsafe { pids(list, count)? })
    }
}
