//! Faults that Cairn has to do with: those of threads that write to memory while an export moves it, which wait until it is in
//! its place; and touches of protected device memory by the program itself (`CAIRN_MEMORY=no-host-access`), which are reported
//! before they end in the fault that they are.

use crate::signal_chain;
use cairn_runtime::memory::{protected, relocation};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The first touch of protected memory is still to be reported.
static REPORTS: AtomicBool = AtomicBool::new(false);

/// Reports the first touch of protected memory.
pub fn watch() {
    REPORTS.store(true, SeqCst);
    signal_chain::install();
}

/// Deals with a fault. True if the thread should try again; false if whoever handled faults before gets it.
///
/// # Safety
/// The arguments are those of a handler of a fault.
pub unsafe fn handle(info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: the siginfo of a fault has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if relocation::wait_for_move(address) {
        return true;
    }
    if REPORTS.load(SeqCst) {
        let writes = is_store(context);
        if protected::report_touch(address, writes, has_room()) && REPORTS.swap(false, SeqCst) {
            let verb = if writes { "stores to" } else { "loads from" };
            eprintln!(
                "cairn: the program itself {verb} device memory at {address:#x}: on an NPU that is a fault; copy with aclrtMemcpy (CAIRN_MEMORY=no-host-access)"
            );
        }
    }
    false
}

/// Bytes that walking a stack takes, at most.
const WALK_BYTES: usize = 64 << 10;

/// Whether the handler has room to walk the stack: programs in Rust, among others, let handlers run on a short stack of their own.
fn has_room() -> bool {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: a local struct, of which zero is a value, is filled in.
    let stack = unsafe {
        libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr());
        stack.assume_init()
    };
    let is_on_it = stack.ss_flags & libc::SS_ONSTACK != 0;
    let here = (&raw const stack) as usize;
    !is_on_it || here.saturating_sub(stack.ss_sp as usize) >= WALK_BYTES
}

/// Whether the instruction that faulted stores.
#[cfg(target_arch = "x86_64")]
fn is_store(context: *mut c_void) -> bool {
    const STORES: i64 = 2;
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel passes the context of the fault.
    let error = unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] };
    error & STORES != 0
}

/// Whether the instruction that faulted stores: not known here.
#[cfg(not(target_arch = "x86_64"))]
fn is_store(_: *mut c_void) -> bool {
    false
}
