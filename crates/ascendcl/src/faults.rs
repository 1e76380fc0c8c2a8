//! Touches of protected device memory by the program itself (`CAIRN_MEMORY=no-host-access`): reported, before they end in the
//! fault that they are.

use cairn_runtime::memory::protected;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// What handled faults before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once.
pub fn watch() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the handler has the signature that SA_SIGINFO asks for; both structs are local, and zero is a value of them.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, action, previous.as_mut_ptr());
        let _ = PREVIOUS.set(previous.assume_init());
    }
}

/// Reports a touch of protected memory. The earlier handler gets this fault, which comes again, and all later ones.
extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo of a fault, which has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: what was installed before this handler, or the default.
    unsafe {
        match PREVIOUS.get() {
            Some(previous) => _ = libc::sigaction(libc::SIGSEGV, previous, std::ptr::null_mut()),
            None => _ = libc::signal(libc::SIGSEGV, libc::SIG_DFL),
        }
    }
    let writes = is_store(context);
    if protected::report_touch(address, writes, has_room()) {
        let verb = if writes { "stores to" } else { "loads from" };
        eprintln!(
            "cairn: the program itself {verb} device memory at {address:#x}: on an NPU that is a fault; copy with aclrtMemcpy (CAIRN_MEMORY=no-host-access)"
        );
    }
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
