//! How long an operator may run: kept and reported, as no operator is stopped here.

use crate::door::{self, entry, runtime, write};
use cairn_runtime::error::Result;

const US_PER_MS: u64 = 1000;
const US_PER_S: u64 = 1_000_000;

/// Keeps the limit; 0 is none.
fn keep(limit_us: u64) -> Result<u64> {
    let runtime = runtime()?;
    runtime.current_context()?;
    let limit_us = if limit_us == 0 { u64::MAX } else { limit_us };
    runtime.set_op_limit_us(limit_us);
    Ok(limit_us)
}

entry! {
    /// In seconds.
    fn aclrtSetOpExecuteTimeOut(timeout: u32) {
        keep(u64::from(timeout) * US_PER_S).map(drop)
    }

    /// In milliseconds.
    fn aclrtSetOpExecuteTimeOutWithMs(timeout: u32) {
        keep(u64::from(timeout) * US_PER_MS).map(drop)
    }

    /// In microseconds; the limit that holds, `u64::MAX` where there is none.
    fn aclrtSetOpExecuteTimeOutV2(timeout: u64, actual: *mut u64) {
        door::not_null(actual, "actualTimeout")?;
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(actual, "actualTimeout", keep(timeout)?) }
    }

    /// In milliseconds, rounded up; `u32::MAX` where there is none.
    fn aclrtGetOpExecuteTimeout(timeout: *mut u32) {
        door::not_null(timeout, "timeoutMs")?;
        let limit_ms = runtime()?.op_limit_us().div_ceil(US_PER_MS);
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(timeout, "timeoutMs", u32::try_from(limit_ms).unwrap_or(u32::MAX)) }
    }

    /// Limits are multiples of this, in microseconds.
    fn aclrtGetOpTimeOutInterval(interval: *mut u64) {
        door::not_null(interval, "interval")?;
        runtime()?.current_context()?;
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(interval, "interval", 1) }
    }
}
