//! Two devices.

use anyhow::{Result, ensure};

use super::{Case, Notes, ledger::Ledger};

/// Blocks on either device in turn, each written by a task of a stream of its device.
pub fn devices(case: &Case<'_>) -> Result<Notes> {
    let streams = [case.bench.stream(0)?, case.bench.stream(1)?];
    let mut ledger = Ledger::new(&case.bench);
    for _ in 0..3 {
        for bytes in [1000, 4096, 1 << 20] {
            for (device, stream) in streams.iter().enumerate() {
                case.bench.enter(device as u32)?;
                ledger.take(stream, bytes)?;
                check_device(case, device as u32, "a request for a block")?;
                ledger.write(ledger.len() - 1)?;
            }
        }
        ledger.verify_all()?;
        give_all_back(case, &mut ledger)?;
    }
    Ok(Notes::new())
}

/// Gives blocks back from a thread that is on the other device, and from one that is on their own.
fn give_all_back(case: &Case<'_>, ledger: &mut Ledger<'_>) -> Result<()> {
    for index in (0..ledger.len()).rev() {
        let device = (index / 2 % 2) as u32;
        case.bench.enter(device)?;
        ledger.free_from_here(index)?;
        check_device(case, device, "a block was given back")?;
    }
    Ok(())
}

/// The calling thread is still where it was.
fn check_device(case: &Case<'_>, device: u32, after: &str) -> Result<()> {
    let now = case.bench.acl().device()?;
    ensure!(
        now == device as i32,
        "the calling thread was on device {device}, and is on device {now} after {after}"
    );
    Ok(())
}
