//! How long an allocation tries before it fails with out of memory.

use super::Memory;
use super::arena::{Arena, Attempt};
use super::pressure::{ProgressMonitor, ProgressState};
use super::request::Request;
use super::shortage::Cause;
use crate::error::Result;

impl Memory {
    /// Tries until there is memory, or waiting cannot help. Pools give back what they have free first, and what other processes let go
    /// of is taken back; then freed memory
    /// leaves the quarantines, as `pressure` allows. `try_once` gets whether to respect the limit of the quarantine.
    pub(super) fn retry_allocation(
        &self,
        arena: &Arena,
        request: &Request<'_>,
        mut try_once: impl FnMut(bool) -> Attempt,
    ) -> Result<usize> {
        let bytes = request.padded_bytes().unwrap_or(u64::MAX);
        let mut monitor = None;
        let mut respect_limit = true;
        let mut trimmed = false;
        loop {
            let attempt = try_once(respect_limit);
            if let Attempt::Taken(address) = attempt {
                return Ok(address);
            }
            let quarantine_full = matches!(attempt, Attempt::QuarantineFull);
            if !quarantine_full && !std::mem::replace(&mut trimmed, true) {
                self.settle_shared();
                self.trim_pools();
                continue;
            }
            match attempt {
                Attempt::Exhausted => return Err(self.out_of_memory(arena, request, &Cause::Full)),
                Attempt::Refused(reason) => {
                    return Err(self.out_of_memory(arena, request, &Cause::Refused(reason)));
                }
                Attempt::OverLimit(limit) => {
                    return Err(self.out_of_memory(arena, request, &Cause::OverLimit(limit)));
                }
                Attempt::Taken(_) | Attempt::QuarantineFull | Attempt::Waiting => {}
            }
            let state = monitor
                .get_or_insert_with(|| ProgressMonitor::new(&self.progress))
                .wait_and_check();
            self.vmm.release_unmapped();
            let released = match state {
                ProgressState::Quiet | ProgressState::Late if quarantine_full => {
                    arena.release_quarantine(0)
                }
                ProgressState::Quiet | ProgressState::Late => {
                    self.release_all(|a| a.release_quarantine(bytes))
                }
                ProgressState::Blocked => {
                    self.vmm.release_untouched();
                    let queued = self.progress.queued_memory();
                    let need = if quarantine_full { 0 } else { bytes };
                    self.release_all(|a| {
                        // A user function may read host memory that it does not declare.
                        let may_be_read = queued.host_function && std::ptr::eq(a, &*self.host);
                        (std::ptr::eq(a, arena) || !quarantine_full)
                            && !may_be_read
                            && a.release_untouched(need, &queued)
                    })
                }
                ProgressState::Running | ProgressState::Stalled => false,
            };
            let retry = released
                || match state {
                    ProgressState::Running | ProgressState::Late => true,
                    ProgressState::Blocked => !quarantine_full,
                    ProgressState::Quiet | ProgressState::Stalled => false,
                };
            match (retry, quarantine_full) {
                (true, _) => {}
                (false, true) => respect_limit = false,
                (false, false) => return Err(self.out_of_memory(arena, request, &Cause::Full)),
            }
        }
    }

    fn release_all(&self, release: impl Fn(&Arena) -> bool) -> bool {
        self.arenas().filter(|arena| release(arena)).count() > 0
    }
}
