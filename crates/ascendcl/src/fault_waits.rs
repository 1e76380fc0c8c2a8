//! Faults of threads that write to memory while an export moves it: they wait until it is in its place.
//!
//! Installed with the first export of memory, not before. Every other fault goes to whoever handled faults before, with all
//! that the kernel passed; and a handler that the program installs later is called in the same way from the next export on.

use cairn_runtime::memory::relocation;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The address of what handled faults before, for the handler, which takes no lock.
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler, unless it is the one that is installed. One thread at a time.
pub fn install() {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let ours = on_fault as *const () as usize;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for; the structs are local or never freed, and zero is a
    // value of them.
    unsafe {
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), current.as_mut_ptr());
        let current = current.assume_init();
        if current.sa_sigaction == ours {
            return;
        }
        let kept: &'static libc::sigaction = Box::leak(Box::new(current));
        PREVIOUS.store(std::ptr::from_ref(kept) as usize, SeqCst);
        let action = action.assume_init_mut();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, action, std::ptr::null_mut());
    }
}

/// Lets a thread that wrote to pages on their way wait and try again. Any other fault is whoever's it was before.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo of a fault, which has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: the location of this thread's errno, which what waits may change.
    let errno = unsafe { *libc::__errno_location() };
    if relocation::wait_for_move(address) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    // SAFETY: null, or a struct that is never freed; the handler in it has the signature that its flags say.
    unsafe {
        match (PREVIOUS.load(SeqCst) as *const libc::sigaction).as_ref() {
            Some(previous)
                if is_function(previous) && previous.sa_flags & libc::SA_SIGINFO != 0 =>
            {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(previous.sa_sigaction);
                handler(signal, info, context);
            }
            Some(previous) if is_function(previous) => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(previous.sa_sigaction);
                handler(signal);
            }
            _ => _ = libc::signal(signal, libc::SIG_DFL),
        }
    }
}

fn is_function(action: &libc::sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}
