//! A device that is full, and calls of ACL that fail.

use anyhow::{Result, bail, ensure};

use super::{
    Case, Notes,
    breach::{attribute, breach, wait},
    ledger::Ledger,
};
use crate::bench::pool::{Refusal, Stream};

const MIB: u64 = 1 << 20;
/// What the device has.
const DEVICE: u64 = 128 * MIB;

/// Many times what the device has, in rounds that are all alike.
pub fn give_back(case: &Case<'_>) -> Result<Notes> {
    const SIZES: [u64; 6] = [16 * MIB, 8 * MIB + 1, 4 * MIB, MIB, 70_000, 1000];
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    for round in 0..100 {
        for bytes in SIZES {
            if !ledger.try_take(&stream, bytes)? {
                bail!("round {round} of 100: a request for {bytes} bytes: {}", Refusal::Null);
            }
        }
        wait(&case.bench, &stream)?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
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

/// Takes blocks until the pool has none, and writes each. What happens from here on until they are back is a matter of
/// the clause `out-of-memory`.
fn fill_device(
    case: &Case<'_>,
    ledger: &mut Ledger<'_>,
    stream: &Stream,
    bytes: u64,
) -> Result<()> {
    const CLAUSE: &str = "out-of-memory";
    case.enter_stage(CLAUSE);
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
    while take().map_err(|error| attribute(CLAUSE, error))? {}
    Ok(())
}

/// Too much at once; then until nothing is left, every block written; then all over again.
pub fn out_of_memory(case: &Case<'_>) -> Result<Notes> {
    const BLOCK: u64 = 8 * MIB;
    let stream = case.bench.stream(0)?;
    let mut ledger = Ledger::new(&case.bench);
    if ledger.try_take(&stream, 4 * DEVICE)? {
        bail!(
            "a block of {} bytes was given at {:#x}, on a device of {DEVICE} bytes",
            4 * DEVICE,
            ledger.block(0).address
        );
    }
    for round in 0..2 {
        fill_device(case, &mut ledger, &stream, BLOCK)?;
        if ledger.len() < 2 {
            let clause = if round == 0 { "out-of-memory" } else { "give-back" };
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
