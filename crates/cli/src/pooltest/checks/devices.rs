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
                let now = case.bench.acl().device()?;
                ensure!(
                    now == device as i32,
                    "the calling thread was on device {device}, and is on device {now} after a request for a block"
                );
                ledger.write(ledger.len() - 1)?;
            }
        }
        ledger.verify_all()?;
        ledger.free_all()?;
    }
    Ok(Notes::new())
}
