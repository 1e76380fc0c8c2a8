//! What goes on while the pages of a block move into a file: frees of other blocks, with keys and without, and closes.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::memory::Memory;
use cairn_runtime::memory::relocation::set_fault_watch;
use cairn_runtime::memory::sharing::Key;
use std::sync::{Arc, Mutex};
use support::*;

/// Blocks to free, and a key to close.
type Ends = (Arc<Memory>, [usize; 2], Key);

/// What another thread ends in the middle of the next move.
static MEANWHILE: Mutex<Option<Ends>> = Mutex::new(None);

fn in_the_middle() {
    let Some((memory, blocks, key)) = MEANWHILE.lock().unwrap().take() else { return };
    let other = std::thread::spawn(move || {
        memory.close_memory(key).unwrap();
        blocks.map(|address| memory.free(address).unwrap())
    });
    other.join().unwrap();
}

/// The export would never end if any of that waited for it.
#[test]
fn frees_and_closes_do_not_wait_for_an_export() {
    set_fault_watch(in_the_middle);
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let memory = runtime.shared.memory.clone();
    let [plain, exported, closed, large] = [5000, 5000, 5000, 4 * MIB].map(|b| runtime.alloc(0, b));
    let exports = [exported, closed]
        .map(|span| memory.export_memory(span.address, span.bytes as u64, true).unwrap());
    let blocks = [plain.address, exported.address];
    *MEANWHILE.lock().unwrap() = Some((memory.clone(), blocks, exports[1]));
    let key = memory.export_memory(large.address, large.bytes as u64, true).unwrap();
    assert!(MEANWHILE.lock().unwrap().is_none(), "nothing moved");
    assert!(memory.close_memory(exports[0]).is_err(), "its block was freed");
    assert!(memory.free(plain.address).is_err(), "it was freed");
    memory.close_memory(key).unwrap();
}
