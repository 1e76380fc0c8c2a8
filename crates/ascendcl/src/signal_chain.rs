//! The handler of SIGSEGV, and whoever handled it before.
//!
//! ```text
//!  kernel ──> entry 1 ──> handler that the program installed ──> entry 0 ──> what was there first
//!             put before it with the second export                (if that calls what was there before it)
//! ```
//!
//! Each time it is installed in front of another handler it is another function, which calls that handler and no later one: so
//! handlers that call each other end, in whatever order they were installed and taken away. A signal that somebody sent
//! (`raise`, `kill`) is none of Cairn's, and does what it would do without Cairn; so does a fault that is none of Cairn's.

use crate::faults;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// What handled the signal before an entry was put in its place.
struct Link {
    action: libc::sigaction,
    /// It was called, and wanted to be called once (`SA_RESETHAND`).
    is_spent: AtomicBool,
}

/// As many handlers of the program it can be put before. The last entry takes any further ones.
const ENTRIES: usize = 16;
static HANDLERS: [Handler; ENTRIES] = [
    on_signal::<0>,
    on_signal::<1>,
    on_signal::<2>,
    on_signal::<3>,
    on_signal::<4>,
    on_signal::<5>,
    on_signal::<6>,
    on_signal::<7>,
    on_signal::<8>,
    on_signal::<9>,
    on_signal::<10>,
    on_signal::<11>,
    on_signal::<12>,
    on_signal::<13>,
    on_signal::<14>,
    on_signal::<15>,
];
/// What each entry is before; links are never freed, as handlers read them without a lock.
static LINKS: [AtomicPtr<Link>; ENTRIES] = [const { AtomicPtr::new(null_mut()) }; ENTRIES];

/// Installs the handler, unless it is the one that is installed. One thread at a time.
pub fn install() {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: fills in the local struct, of which zero is a value.
    let current = unsafe {
        libc::sigaction(libc::SIGSEGV, null(), current.as_mut_ptr());
        current.assume_init()
    };
    if HANDLERS.iter().any(|handler| *handler as usize == current.sa_sigaction) {
        return;
    }
    let number = place_for(&current);
    let is_restarting =
        current.sa_flags & libc::SA_RESTART != 0 || current.sa_sigaction == libc::SIG_IGN;
    let restart = if is_restarting { libc::SA_RESTART } else { 0 };
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the handler has the signature that SA_SIGINFO asks for; the struct is local, and zero is a value of it.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = HANDLERS[number] as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | restart;
        libc::sigaction(libc::SIGSEGV, action, null_mut());
    }
}

/// The entry to put before what is installed now: the one that was before it already, or the next one.
fn place_for(current: &libc::sigaction) -> usize {
    let next = LINKS.iter().position(|place| {
        // SAFETY: null, or a link, which is never freed.
        match unsafe { place.load(SeqCst).as_ref() } {
            None => true,
            Some(link) => is_same(&link.action, current),
        }
    });
    let number = next.unwrap_or_else(|| {
        log::debug!("many handlers of SIGSEGV: those that call each other may do so for ever");
        ENTRIES - 1
    });
    let link = Link { action: *current, is_spent: AtomicBool::new(false) };
    // SAFETY: null, or a link, which is never freed.
    match unsafe { LINKS[number].load(SeqCst).as_ref() } {
        Some(known) if is_same(&known.action, current) => known.is_spent.store(false, SeqCst),
        _ => LINKS[number].store(Box::leak(Box::new(link)), SeqCst),
    }
    number
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    // SAFETY: asks local sets whether they have a signal.
    let blocks = |set: &libc::sigset_t, signal| unsafe { libc::sigismember(set, signal) == 1 };
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && (1..libc::SIGRTMAX())
            .all(|signal| blocks(&one.sa_mask, signal) == blocks(&other.sa_mask, signal))
}

/// True for a signal that a program sent; false for a fault of this thread.
fn is_sent(info: *const libc::siginfo_t) -> bool {
    // SAFETY: null, or what the kernel passes to a handler.
    unsafe { info.as_ref() }.is_none_or(|info| info.si_code <= 0)
}

extern "C" fn on_signal<const NUMBER: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the location of this thread's errno, which what follows may change.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: a fault has an address, and the context that the kernel passes.
    let is_over = !is_sent(info) && unsafe { faults::handle(info, context) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if is_over {
        return;
    }
    // SAFETY: null, or a link, which is never freed; the arguments are those of the kernel.
    unsafe {
        match LINKS[NUMBER].load(SeqCst).as_ref() {
            Some(link) => link.pass_on(signal, info, context),
            None => end(signal, info),
        }
    }
}

impl Link {
    /// Does what the kernel would do if this handled the signal. On the stack of the caller: one that asked for no stack of its
    /// own gets that, too.
    ///
    /// # Safety
    /// The arguments are those of a handler of signals.
    unsafe fn pass_on(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let action = &self.action;
        if action.sa_sigaction == libc::SIG_IGN && is_sent(info) {
            return;
        }
        let is_function =
            action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        let is_once = action.sa_flags & libc::SA_RESETHAND != 0;
        if !is_function || is_once && self.is_spent.swap(true, SeqCst) {
            // SAFETY: as for the caller.
            return unsafe { end(signal, info) };
        }
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are local, and `before` is initialised by the first call. The kernel, too, passes all three arguments
        // to handlers that take one.
        unsafe {
            let mut mask = action.sa_mask;
            if action.sa_flags & libc::SA_NODEFER == 0 {
                libc::sigaddset(&raw mut mask, signal);
            }
            let handler: Handler = std::mem::transmute(action.sa_sigaction);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, before.as_mut_ptr());
            handler(signal, info, context);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
        }
    }
}

/// Ends the process as the signal does by default: a fault comes again by itself, what was sent is sent once more.
///
/// # Safety
/// The argument is that of a handler of signals.
unsafe fn end(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: plain calls of the system; the kernel reads what it passed itself.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if is_sent(info) {
            let (process, thread) = (libc::getpid(), libc::gettid());
            let call = libc::SYS_rt_tgsigqueueinfo;
            if info.is_null() || libc::syscall(call, process, thread, signal, info) != 0 {
                libc::raise(signal);
            }
        }
    }
}
