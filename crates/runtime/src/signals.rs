//! Signal masks: handlers of the user do not run on workers, and whoever writes to device memory takes faults.

/// Lets the calling thread, which runs user functions, take every signal.
pub fn allow_all() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the local set that pthread_sigmask reads.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Runs `start` with every signal blocked that is not a fault of the thread itself, so that threads it
/// starts inherit that.
pub fn with_blocked_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are local; sigfillset initialises the one that pthread_sigmask reads, and
    // pthread_sigmask initialises the other.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = start();
    // SAFETY: `before` was initialised above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

/// Runs `run` on a thread that takes the signal of its own faults, also where the program blocked that.
pub fn with_faults<T>(run: impl FnOnce() -> T) -> T {
    struct Blocked(libc::sigset_t);
    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the set was initialised; only this thread's mask changes.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, std::ptr::null_mut())
            };
        }
    }
    let mut faults = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are local; sigemptyset initialises the one that pthread_sigmask reads, and pthread_sigmask
    // initialises the other.
    let (faults, is_blocked) = unsafe {
        libc::sigemptyset(faults.as_mut_ptr());
        libc::sigaddset(faults.as_mut_ptr(), libc::SIGSEGV);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, faults.as_ptr(), before.as_mut_ptr());
        (faults.assume_init(), libc::sigismember(before.as_ptr(), libc::SIGSEGV) == 1)
    };
    // Made only where it was blocked: its drop blocks.
    let _blocked = is_blocked.then(|| Blocked(faults));
    run()
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Sets whether SIGSEGV is blocked on this thread, if asked to; whether it was.
    fn blocked(set: Option<bool>) -> bool {
        let mut signals = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are local, and initialised before they are read; only this thread's mask changes.
        unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            if set.is_some() {
                libc::sigaddset(signals.as_mut_ptr(), libc::SIGSEGV);
            }
            let how = if set == Some(true) { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
            libc::pthread_sigmask(how, signals.as_ptr(), before.as_mut_ptr());
            libc::sigismember(before.as_ptr(), libc::SIGSEGV) == 1
        }
    }

    #[test]
    fn faults_are_taken_meanwhile_and_the_mask_is_as_before() {
        std::thread::spawn(|| {
            for before in [false, true, false] {
                blocked(Some(before));
                assert!(!with_faults(|| with_faults(|| blocked(None))));
                assert_eq!(blocked(None), before);
            }
        })
        .join()
        .unwrap();
    }
}
