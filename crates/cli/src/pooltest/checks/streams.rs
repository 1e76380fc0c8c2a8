//! Work on two streams. Nothing is measured here: the checker reads the record of the run, and knows what was ordered.

use anyhow::Result;

use super::{
    Case, Notes,
    breach::{check_place, refused, refused_with_room, wait},
};
use crate::bench::pool::{Bench, Block, Refusal, Stream};

const MIB: u64 = 1 << 20;
/// Small and large ones: pools treat them differently.
const SIZES: [u64; 4] = [1000, 4096, MIB + 1, 8 * MIB];

fn take(bench: &Bench, stream: &Stream, bytes: u64) -> Result<Block> {
    let block = bench.allocate(stream, bytes).map_err(|refusal| refused(bytes, &refusal))?;
    check_place(bench, stream, &block)?;
    Ok(block)
}

/// The same on a small device, which has room for it.
fn take_of_small(bench: &Bench, stream: &Stream, bytes: u64) -> Result<Block> {
    match bench.allocate(stream, bytes) {
        Err(Refusal::Null) => Err(refused_with_room("out-of-memory", bytes)),
        Err(refusal) => Err(refused(bytes, &refusal)),
        Ok(block) => check_place(bench, stream, &block).map(|()| block),
    }
}

/// Only the beginning: what the checker compares is who touches it.
fn write(bench: &Bench, stream: &Stream, block: &Block) -> Result<()> {
    bench.acl().fill(stream.handle, block.address, block.bytes.min(64 << 10), 1)
}

/// A block is used on one stream and given back, and the other stream asks for as much.
pub fn streams(case: &Case<'_>) -> Result<Notes> {
    let bench = &case.bench;
    let (first, second) = (bench.stream(0)?, bench.stream(0)?);
    for bytes in SIZES {
        for (from, to) in [(first, second), (second, first), (first, second)] {
            let block = take(bench, &from, bytes)?;
            write(bench, &from, &block)?;
            bench.free(&from, block)?;
            let block = take(bench, &to, bytes)?;
            write(bench, &to, &block)?;
            bench.free(&to, block)?;
        }
    }
    wait(bench, &first)?;
    wait(bench, &second)?;
    Ok(Notes::new())
}

/// As torch_npu does it: the free comes first, then the kernel leaves the queue.
pub fn torch_queue(case: &Case<'_>) -> Result<Notes> {
    let bench = &case.bench;
    let (first, second) = (bench.stream(0)?, bench.stream(0)?);
    for bytes in SIZES {
        for (from, to) in [(first, second), (second, first)] {
            let late = take(bench, &from, bytes)?;
            bench.free(&from, late)?;
            write(bench, &from, &late)?;
            let block = take(bench, &to, bytes)?;
            write(bench, &to, &block)?;
            bench.free(&to, block)?;
        }
        wait(bench, &first)?;
        wait(bench, &second)?;
    }
    Ok(Notes::new())
}

/// Most of the device is used and given back without a wait; then a block that does not fit beside it is asked for.
pub fn pending(case: &Case<'_>) -> Result<Notes> {
    let bench = &case.bench;
    let stream = bench.stream(0)?;
    let mut blocks = Vec::new();
    for _ in 0..6 {
        let block = take_of_small(bench, &stream, 12 * MIB)?;
        write(bench, &stream, &block)?;
        blocks.push(block);
    }
    blocks.into_iter().try_for_each(|block| bench.free(&stream, block))?;
    // Whether it fits is another clause's matter.
    if let Ok(block) = bench.allocate(&stream, 80 * MIB) {
        write(bench, &stream, &block)?;
        bench.free(&stream, block)?;
    }
    wait(bench, &stream)?;
    Ok(Notes::new())
}
