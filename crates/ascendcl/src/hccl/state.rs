//! What a program does when links fail: suspend, resume, be called back.

use super::door::{communicator, entry, string};
use super::process::communicators;
use crate::abi::{HcclComm, HcclCommStateCallback};
use crate::trampoline::UserFunction;
use cairn_comm::Error;
use cairn_comm::config::MAX_NAME;
use cairn_comm::table::StateCallback;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// The user's function as a callback. It runs on the thread that destroys or resumes; its result has no effect, an exception
/// is logged, and after the end of `main` it is not called.
fn callback(name: String, function: UserFunction) -> StateCallback {
    let call = function.of_communicators();
    Arc::new(move |communicator, phase| {
        if crate::process::is_ending() {
            return;
        }
        let on_exit =
            || log::error!("the callback {name} of communicators ended its thread, which stays");
        if !call(communicator.handle(), phase as u32, &on_exit) {
            log::error!("the callback {name} of communicators threw an exception");
        }
    })
}

entry! {
    /// Refuses operators until the communicator is resumed.
    fn HcclCommSuspend(comm: HcclComm) {
        communicator(comm)?.suspend()
    }

    /// Takes operators again.
    fn HcclCommResume(comm: HcclComm) {
        communicators()?.resume(&communicator(comm)?)
    }

    /// Calls back before and after communicators are destroyed or resumed; null removes the callback.
    fn HcclCommRegCommStateCallback(name: *const c_char, function: HcclCommStateCallback, argument: *mut c_void) {
        // SAFETY: null or a C string.
        let name = unsafe { string(name, "regName", MAX_NAME) }?;
        let function = function.map(|function| {
            let function = UserFunction { function: function as *const c_void, argument };
            callback(name.clone(), function)
        });
        communicators()?.on_state(&name, function);
        Ok(())
    }

    /// Chooses network interfaces of devices, of which these have none.
    fn HcclCommWorkingDevNicSet(comm: HcclComm, _ranks: *mut u32, _backups: *mut bool, _count: u32) {
        communicator(comm)?;
        Err(Error::unsupported("the devices of Cairn have no network interfaces of their own"))
    }
}
