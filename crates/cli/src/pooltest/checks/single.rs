//! One thread; streams do not matter.

use anyhow::{Result, ensure};

use super::{
    super::clause::LOAD,
    Case, Notes,
    breach::{breach, breach_with, refused, wait},
    ledger::Ledger,
    numbers::Numbers,
};
use crate::bench::pool::{Refusal, Stream};

/// Sizes at and beside the borders that pools round to.
const SIZES: [u64; 20] = [
    1, 2, 31, 32, 33, 63, 64, 100, 511, 512, 513, 4095, 4096, 4097, 65_537, 1_048_575, 1_048_577,
    3_145_745, 16_777_216, 33_554_433,
];

/// What to do about a factory that makes nothing good.
const FACTORY: &str = "The factory is called once for every stream (cairn/factory.h), and each time makes an allocator that works: never null, no exception, and in a descriptor the object and the functions alloc, free and get-address.";

/// The library was loaded; an allocator can be made for a stream, ended, and made for another.
pub fn load(case: &Case<'_>) -> Result<Notes> {
    case.enter_stage_with(LOAD, Some(FACTORY));
    let make = || -> Result<()> {
        let stream = case.bench.stream(0)?;
        case.bench.unregister(&stream)?;
        case.bench.stream(0)?;
        Ok(())
    };
    make().map_err(|error| breach_with(LOAD, FACTORY, format!("{error:#}")))?;
    Ok(Notes::new())
}

/// All sizes at a time, each written to its last byte. Then half as much again of each, and the same backwards: memory that is
/// used again has to be long enough for the new request.
pub fn sizes(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    let longer = SIZES.map(|bytes| bytes + bytes.div_ceil(2));
    let backwards = SIZES.iter().rev().copied();
    let rounds = [SIZES.to_vec(), longer.to_vec(), backwards.collect(), SIZES.to_vec()];
    for sizes in rounds {
        for bytes in sizes {
            ledger.take(&stream, bytes)?;
            ledger.write(ledger.len() - 1)?;
            ledger.verify(ledger.len() - 1)?;
        }
        ledger.verify_all()?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}

/// A request for nothing, between blocks that stay.
pub fn zero(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for _ in 0..3 {
        ledger.take(&stream, 4096)?;
        ledger.write(ledger.len() - 1)?;
        let before = ledger.len();
        if ledger.try_take(&stream, 0)? {
            ledger.free(before)?;
        }
    }
    ledger.verify_all()?;
    ledger.free_all()?;
    Ok(Notes::new())
}

/// Where blocks begin, also after odd sizes, and when memory is used again.
pub fn alignment(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    let mut notes = Notes::new();
    for _ in 0..3 {
        for bytes in SIZES {
            ledger.take(&stream, bytes)?;
            let address = ledger.block(ledger.len() - 1).address;
            ensure!(
                address.is_multiple_of(32),
                "a block of {bytes} bytes begins at {address:#x}, which is no multiple of 32"
            );
            if !address.is_multiple_of(64) && notes.is_empty() {
                notes.push(format!(
                    "a block of {bytes} bytes begins at {address:#x}, which is a multiple of 32 and not of 64"
                ));
            }
        }
        ledger.free_all()?;
    }
    Ok(notes)
}

/// Random blocks; only where they lie is looked at.
pub fn overlap(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    let mut numbers = Numbers::new(case.seed);
    for _ in 0..600 {
        step(&mut ledger, &mut numbers, &[stream], 22, false)?;
    }
    ledger.free_all()?;
    Ok(Notes::new())
}

/// Random blocks; each is written, and compared before it goes back.
pub fn contents(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    let mut numbers = Numbers::new(case.seed);
    for _ in 0..300 {
        step(&mut ledger, &mut numbers, &[stream], 20, true)?;
    }
    ledger.verify_all()?;
    ledger.free_all()?;
    Ok(Notes::new())
}

/// Random blocks on three streams, several sequences.
pub fn random(case: &Case<'_>) -> Result<Notes> {
    let streams = [case.bench.stream(0)?, case.bench.stream(0)?, case.bench.stream(0)?];
    for round in 0..3 {
        let mut ledger = Ledger::new(&case.bench);
        let seed = case.seed.wrapping_add(round);
        let mut numbers = Numbers::new(seed);
        for number in 0..300 {
            let stepped = step(&mut ledger, &mut numbers, &streams, 21, true);
            stepped.map_err(|error| error.context(format!("seed {seed}, step {number}")))?;
        }
        ledger.verify_all()?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}

/// Takes a block or gives one back, as chance has it; between 0 and about 60 are held.
fn step(
    ledger: &mut Ledger<'_>,
    numbers: &mut Numbers,
    streams: &[Stream],
    shift: u32,
    is_written: bool,
) -> Result<()> {
    if ledger.len() == 0 || numbers.below(60) >= ledger.len() {
        let stream = streams[numbers.below(streams.len())];
        ledger.take(&stream, numbers.size(shift))?;
        return match is_written {
            true => ledger.write(ledger.len() - 1),
            false => Ok(()),
        };
    }
    let index = numbers.below(ledger.len());
    if is_written {
        ledger.verify(index)?;
    }
    ledger.free(index)
}

/// Blocks are taken, written by tasks and given back, twice, so that the pool sees its own lists again.
pub fn host_access(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for _ in 0..2 {
        for bytes in [100, 4096, 70_000, 2 << 20] {
            ledger.take(&stream, bytes)?;
            ledger.take(&stream, bytes)?;
        }
        ledger.write_all()?;
        wait(&case.bench, &stream)?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}

/// Blocks at addresses that were just freed, that are held, and that are nowhere.
pub fn advise(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    ledger.take(&stream, 1 << 20)?;
    ledger.take(&stream, 4096)?;
    let (freed, held) = (ledger.block(0).address, ledger.block(1).address);
    ledger.free(0)?;
    for (near, bytes) in [(freed, 1 << 20), (held, 4096), (held, 3 << 20), (0x1000, 512)] {
        let taken = ledger.try_take_near(&stream, bytes, near);
        // Wherever the block lies, it is the advice that put it there.
        if !taken.map_err(|error| breach("advise", format!("{error:#}")))? {
            return Err(refused(bytes, &Refusal::Null));
        }
    }
    ledger.write_all()?;
    ledger.verify_all()?;
    ledger.free_all()?;
    Ok(Notes::new())
}

/// Blocks that are held when the process ends.
pub fn exit(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for bytes in [1000, 4096, 1 << 20, 8 << 20] {
        ledger.take(&stream, bytes)?;
        ledger.take(&stream, bytes)?;
    }
    ledger.write_all()?;
    for _ in 0..4 {
        ledger.free(0)?;
    }
    Ok(Notes::new())
}
