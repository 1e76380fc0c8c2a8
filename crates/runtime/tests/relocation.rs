//! Pages that move into a memory file while threads write to them.
#![cfg(not(feature = "shuttle"))]

use cairn_runtime::memory::relocation::{move_to_file, set_fault_watch, wait_for_move};
use cairn_runtime::memory::vmm::Store;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

static WAITED: AtomicUsize = AtomicUsize::new(0);
/// The writers have so many chances to meet a move; one of the first is what happens.
const MOST_MOVES: usize = 5_000;

extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a siginfo of a fault, which has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    match wait_for_move(address) {
        true => _ = WAITED.fetch_add(1, SeqCst),
        // SAFETY: the fault comes again, and ends the test.
        false => unsafe { _ = libc::signal(libc::SIGSEGV, libc::SIG_DFL) },
    }
}

fn install() {
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, and zero is a value of the struct.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
}

#[test]
fn writers_lose_nothing_while_their_pages_move() {
    set_fault_watch(install);
    const BYTES: usize = 8 << 20;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, which this test never unmaps.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, access, MapFlags::PRIVATE) };
    let start = start.unwrap() as usize;
    let words = BYTES / 8;
    // SAFETY: the memory stays mapped; only atomics touch it.
    let word = |index: usize| unsafe { &*((start + 8 * index) as *const AtomicU64) };
    let store = Arc::new(Store::new("cairn-test").unwrap());
    let is_over = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3usize)
            .map(|thread| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut rounds = 0u64;
                    while !is_over.load(SeqCst) || rounds == 0 {
                        (thread..words).step_by(509).for_each(|index| {
                            word(index).fetch_add(1, SeqCst);
                        });
                        rounds += 1;
                    }
                    rounds
                })
            })
            .collect();
        let mut ranges = [const { None }; 4];
        for number in 0..MOST_MOVES {
            if number >= 4 && WAITED.load(SeqCst) > 0 {
                break;
            }
            let part = number % 4;
            let (at, bytes) = (start + part * BYTES / 4, BYTES / 4);
            let range = store.take(bytes as u64, 4096).unwrap();
            // SAFETY: private memory that stays mapped; so does the file.
            unsafe { move_to_file(at, bytes, range.file(), range.offset()).unwrap() };
            ranges[part] = Some(range);
        }
        is_over.store(true, SeqCst);
        let counts: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        ranges.into_iter().for_each(std::mem::forget);
        counts
    });
    let mut expected = vec![0u64; words];
    for (thread, rounds) in counts.into_iter().enumerate() {
        (thread..words).step_by(509).for_each(|index| expected[index] += rounds);
    }
    assert!(WAITED.load(SeqCst) > 0, "no thread wrote to a page on its way in {MOST_MOVES} moves");
    assert!((0..words).all(|index| word(index).load(SeqCst) == expected[index]));
}
