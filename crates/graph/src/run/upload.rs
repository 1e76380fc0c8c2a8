//! The constants of a graph on their way to the device.

use crate::compile::constants::{Constants, PlacedConstant};
use cairn_exec::Workers;
use cairn_ops::Packing;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::mapped_file;
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::task::Kernel;
use std::cell::Cell;

/// Constants that a task copies or packs into const memory, its one range. Each is let go as soon as it is there: they
/// are in memory twice one at a time.
pub struct ConstantUpload(Mutex<Constants>);

/// What is copied at a time: pages of a file need not stay longer.
const CHUNK: usize = 8 << 20;

/// Elements of the types that are packed are at multiples of this.
const ELEMENT_ALIGN: usize = 8;

impl ConstantUpload {
    /// The upload of these, the largest first: what is in memory twice is then as small as can be when most is there.
    pub fn new(mut constants: Constants) -> ConstantUpload {
        constants.sort_by_key(|one| std::cmp::Reverse(one.bytes.len()));
        ConstantUpload(Mutex::new(Rank::Outcome, constants))
    }
}

impl Kernel for ConstantUpload {
    fn argument(&self, _purpose: Use, _index: usize) -> &str {
        "const memory"
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        let constants = std::mem::take(&mut *self.0.lock());
        for PlacedConstant { start, bytes, packing } in constants {
            let start = start as usize;
            match packing {
                None => {
                    for (at, chunk) in bytes.chunks(CHUNK).enumerate() {
                        fetch(chunk)?;
                        task_memory.copy_to_write(0, start + at * CHUNK, chunk);
                        mapped_file::release(chunk);
                    }
                }
                Some(packing) => {
                    fetch(&bytes)?;
                    let into = &task_memory.write(0)[start..start + packing.bytes];
                    pack(task_memory, &packing, &bytes, into);
                    mapped_file::release(&bytes);
                }
            }
        }
        Ok(())
    }
}

/// Packs bytes that may begin anywhere.
fn pack(task_memory: &TaskMemory<'_>, packing: &Packing, bytes: &[u8], into: &[Cell<u8>]) {
    let parallel = Workers(task_memory.scheduler());
    if (bytes.as_ptr() as usize).is_multiple_of(ELEMENT_ALIGN) {
        return packing.pack(&parallel, bytes, into);
    }
    let mut aligned = vec![0; bytes.len() + ELEMENT_ALIGN];
    let start = aligned.as_ptr().align_offset(ELEMENT_ALIGN);
    aligned[start..start + bytes.len()].copy_from_slice(bytes);
    packing.pack(&parallel, &aligned[start..start + bytes.len()], into);
}

/// Brings bytes of a file into memory.
fn fetch(bytes: &[u8]) -> Result<()> {
    mapped_file::fetch(bytes).map_err(|_| {
        Error::new(
            Code::ModelWeight,
            "the file with the weights became shorter while it was loaded",
        )
    })
}
