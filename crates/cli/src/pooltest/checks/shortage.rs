//! A device that is full, and calls of ACL that fail.

use anyhow::{Result, bail, ensure};

use super::{
    Case, Notes,
    breach::{attribute, breach, refused_with_room, wait},
    ledger::Ledger,
};
use crate::bench::pool::{Refusal, Stream};

const MIB: u64 = 1 << 20;
/// The clause that a full device is a matter of.
const OUT_OF_MEMORY: &str = "out-of-memory";
/// What the device has.
const DEVICE: u64 = 128 * MIB;

/// Many times what the device has, in rounds that are all alike.
pub fn give_back(case: &Case<'_>) -> Result<Notes> {
    const SIZES: [u64; 6] = [16 * MIB, 8 * MIB + 1, 4 * MIB, MIB, 70_000, 1000];
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for round in 0..100 {
        for bytes in SIZES {
            match ledger.try_take(&stream, bytes)? {
                true => {}
                false if round == 0 => return Err(refused_with_room(OUT_OF_MEMORY, bytes)),
                false => {
                    bail!("round {round} of 100: a request for {bytes} bytes: {}", Refusal::Null)
                }
            }
        }
        wait(&case.bench, &stream)?;
        ledger.free_all()?;
    }
    for bytes in [1, 100, 1000, 4096, 64 << 10, MIB] {
        repeat_one(case, &mut ledger, &stream, bytes)?;
    }
    Ok(Notes::new())
}

/// One block at a time, always of the same size, in several phases. A pool that has more from the device after each phase than
/// after the one before grows for ever.
fn repeat_one(case: &Case<'_>, ledger: &mut Ledger<'_>, stream: &Stream, bytes: u64) -> Result<()> {
    const PHASES: u64 = 5;
    /// Pools round to this much at least.
    const LEAST: u64 = 512;
    // More than a segment of usual pools: of 2 MiB for small blocks, of 20 MiB for large ones.
    let phase = if bytes < 64 << 10 { 9 * MIB / 4 } else { 25 * MIB };
    let rounds = phase / bytes.max(LEAST);
    let mut free = Vec::new();
    for round in 0..PHASES * rounds {
        if !ledger.try_take(stream, bytes)? {
            bail!(
                "one block of {bytes} bytes was taken and given back {round} times; then: {}",
                Refusal::Null
            );
        }
        ledger.free_all()?;
        if (round + 1) % rounds == 0 {
            wait(&case.bench, stream)?;
            free.push(case.bench.acl().free_memory()?);
        }
    }
    let lost = free[0].saturating_sub(free[free.len() - 1]);
    let always_grows = free.is_sorted_by(|before, after| before > after);
    ensure!(
        !always_grows,
        "one block of {bytes} bytes was taken and given back {} times, and the pool took {lost} bytes more from the device meanwhile",
        (PHASES - 1) * rounds
    );
    Ok(())
}

/// The device is filled twice: a pool gives memory back to ACL when it has to, if not before.
pub fn frees_once(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for bytes in [16 * MIB, 5 * MIB] {
        fill_device(case, &mut ledger, &stream, bytes)?;
        ledger.free_all()?;
        case.leave_stage();
    }
    Ok(Notes::new())
}

/// One block while there is room: what is wrong with it is wrong with all, and no matter of a full device.
fn take_one(ledger: &mut Ledger<'_>, stream: &Stream) -> Result<()> {
    if ledger.try_take(stream, 4096)? {
        ledger.free(ledger.len() - 1)?;
    }
    Ok(())
}

/// Takes blocks until the pool has none, and writes each. What happens from here on until they are back is a matter of
/// the clause `out-of-memory`.
fn fill_device(
    case: &Case<'_>,
    ledger: &mut Ledger<'_>,
    stream: &Stream,
    bytes: u64,
) -> Result<()> {
    take_one(ledger, stream)?;
    case.enter_stage(OUT_OF_MEMORY);
    let mut take = || -> Result<bool> {
        let is_taken = ledger.try_take(stream, bytes)?;
        if is_taken {
            let last = ledger.len() - 1;
            ledger.write(last)?;
            ledger.verify(last)?;
            ensure!(
                ledger.len() as u64 <= DEVICE / bytes,
                "{} blocks of {bytes} bytes were given, on a device of {DEVICE} bytes",
                ledger.len()
            );
        }
        Ok(is_taken)
    };
    while take().map_err(|error| attribute(OUT_OF_MEMORY, error))? {}
    Ok(())
}

/// Too much at once; then until nothing is left, every block written; then all over again.
pub fn out_of_memory(case: &Case<'_>) -> Result<Notes> {
    const BLOCK: u64 = 8 * MIB;
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    take_one(&mut ledger, &stream)?;
    let taken = ledger.try_take(&stream, 4 * DEVICE);
    if taken.map_err(|error| attribute(OUT_OF_MEMORY, error))? {
        bail!(
            "a block of {} bytes was given at {:#x}, on a device of {DEVICE} bytes",
            4 * DEVICE,
            ledger.block(0).address
        );
    }
    for round in 0..2 {
        fill_device(case, &mut ledger, &stream, BLOCK)?;
        if ledger.len() == 0 && round == 0 {
            return Err(refused_with_room(OUT_OF_MEMORY, BLOCK));
        }
        if ledger.len() < 2 {
            let clause = if round == 0 { OUT_OF_MEMORY } else { "give-back" };
            let text = format!(
                "only {} blocks of {BLOCK} bytes were given, of the {DEVICE} bytes of the device",
                ledger.len()
            );
            return Err(breach(clause, text));
        }
        ledger.verify_all()?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}

/// Small blocks fill the device; once they are back, one block of half the device must fit.
pub fn recovery(case: &Case<'_>) -> Result<Notes> {
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    fill_device(case, &mut ledger, &stream, MIB)?;
    if ledger.len() == 0 {
        return Err(refused_with_room(OUT_OF_MEMORY, MIB));
    }
    ledger.free_all()?;
    case.leave_stage();
    if !ledger.try_take(&stream, MIB)? {
        let text = format!("everything was given back, and a request for {MIB} bytes is refused");
        return Err(breach("give-back", text));
    }
    ledger.free_all()?;
    for bytes in [3 * MIB, DEVICE / 2] {
        if !ledger.try_take(&stream, bytes)? {
            bail!(
                "nothing is held, and a request for {bytes} of the {DEVICE} bytes of the device is refused"
            );
        }
        ledger.free_all()?;
    }
    Ok(Notes::new())
}

/// A call of ACL fails somewhere: the request is refused at most, and succeeds when it is made again.
pub fn faults(case: &Case<'_>) -> Result<Notes> {
    const SIZES: [u64; 8] = [1000, 4096, MIB, 8 * MIB, 3000, 16 * MIB, 512, 4 * MIB];
    const TRIES: usize = 4;
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for _ in 0..2 {
        for bytes in SIZES {
            let mut tries = 0;
            while !ledger.try_take(&stream, bytes)? {
                tries += 1;
                ensure!(
                    tries < TRIES,
                    "one call of aclrtMalloc failed, and a request for {bytes} bytes is refused again and again"
                );
            }
        }
        ledger.write_all()?;
        ledger.verify_all()?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}
