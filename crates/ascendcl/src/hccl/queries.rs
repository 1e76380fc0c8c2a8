//! Questions about communicators.

use super::door::{communicator, entry, not_null, string, write};
use super::process;
use crate::abi::{COMM_NAME_MAX_LENGTH, Entry, HCCL_SUCCESS, HcclComm, HcclCommStatus, HcclResult};
use crate::message;
use cairn_comm::config::MAX_NAME;
use cairn_comm::{Code, Error};
use std::ffi::c_char;

const _: () = assert!(MAX_NAME + 1 == COMM_NAME_MAX_LENGTH as usize);

entry! {
    /// How many ranks there are.
    fn HcclGetRankSize(comm: HcclComm, size: *mut u32) {
        // SAFETY: null or valid for writes of the size.
        unsafe { write(size, "rankSize", communicator(comm)?.size()) }
    }

    /// Which rank this is.
    fn HcclGetRankId(comm: HcclComm, rank: *mut u32) {
        // SAFETY: null or valid for writes of the rank.
        unsafe { write(rank, "rank", communicator(comm)?.rank()) }
    }

    /// The name, with its zero.
    fn HcclGetCommName(comm: HcclComm, name: *mut c_char) {
        let communicator = communicator(comm)?;
        not_null(name, "commName")?;
        let text = communicator.name().as_bytes();
        let length = text.len().min(MAX_NAME);
        // SAFETY: not null; the user has room for 128 bytes, and no name has more than 127.
        unsafe {
            text.as_ptr().copy_to_nonoverlapping(name.cast(), length);
            name.add(length).write(0);
        }
        Ok(())
    }

    /// The communicator of a name on the calling thread's device.
    fn HcclCommGetHandleWithName(name: *const c_char, comm: *mut HcclComm) {
        not_null(comm, "comm")?;
        // SAFETY: null or a C string.
        let name = unsafe { string(name, "commName", MAX_NAME) }?;
        let handle = process::find(&name)?.handle();
        if handle == 0 {
            let text = format!("the communicator {name} is being made");
            return Err(Error::new(Code::Unavailable, text));
        }
        // SAFETY: not null; valid for writes of a handle.
        unsafe { write(comm, "comm", handle as HcclComm) }
    }

    /// The failure that ended a communicator; its text is kept for the calling thread.
    fn HcclGetCommAsyncError(comm: HcclComm, code: *mut HcclResult) {
        let communicator = communicator(comm)?;
        not_null(code, "asyncError")?;
        let answer = match communicator.async_error() {
            None => HCCL_SUCCESS as HcclResult,
            Some(error) => {
                let name = Entry::NAMES[Entry::HcclGetCommAsyncError as usize];
                message::keep(name, error.code as i32, &error.text);
                error.code as HcclResult
            }
        };
        // SAFETY: not null; valid for writes of the code.
        unsafe { write(code, "asyncError", answer) }
    }

    /// Whether the communicator of a name on the calling thread's device takes operators.
    fn HcclCommGetStatus(name: *const c_char, status: *mut HcclCommStatus) {
        not_null(status, "status")?;
        // SAFETY: null or a C string.
        let name = unsafe { string(name, "commId", MAX_NAME) }?;
        let answer = process::find(&name)?.status() as HcclCommStatus;
        // SAFETY: not null; valid for writes of the status.
        unsafe { write(status, "status", answer) }
    }
}
