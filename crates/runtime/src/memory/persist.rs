//! How long an allocation tries before it says that there is no memory.

use super::Memory;
use super::arena::{Arena, Attempt};
use super::pressure::{ProgressMonitor, Verdict};
use super::request::Request;
use super::shortage::Cause;
use crate::error::Result;

impl Memory {
    /// Tries until there is memory, or no hope. What pools have free goes back first; then freed memory
    /// leaves the quarantines, as `pressure` allows.
    pub(super) fn persist(
        &self,
        arena: &Arena,
        request: &Request<'_>,
        mut try_once: impl FnMut(bool) -> Attempt,
    ) -> Result<usize> {
        let whole = request.whole().unwrap_or(u64::MAX);
        let mut monitor = None;
        let mut patient = true;
        let mut trimmed = false;
        loop {
            let attempt = try_once(patient);
            if let Attempt::Taken(address) = attempt {
                return Ok(address);
            }
            let full = matches!(attempt, Attempt::QuarantineFull);
            if !full && !std::mem::replace(&mut trimmed, true) && self.trim_pools() {
                continue;
            }
            match attempt {
                Attempt::Exhausted => return Err(self.out_of_memory(arena, request, &Cause::Full)),
                Attempt::Refused(reason) => {
                    return Err(self.out_of_memory(arena, request, &Cause::Refused(reason)));
                }
                Attempt::OverLimit(most) => {
                    return Err(self.out_of_memory(arena, request, &Cause::OverLimit(most)));
                }
                Attempt::Taken(_) | Attempt::QuarantineFull | Attempt::Waiting => {}
            }
            let verdict =
                monitor.get_or_insert_with(|| ProgressMonitor::new(&self.progress)).verdict();
            let released = match verdict {
                Verdict::Quiet | Verdict::Late if full => arena.release_quarantine(0),
                Verdict::Quiet | Verdict::Late => self.release_all(|a| a.release_quarantine(whole)),
                Verdict::Blocked => {
                    let held = self.progress.queued_memory();
                    let need = if full { 0 } else { whole };
                    self.release_all(|a| {
                        // A user function may read host memory that it does not declare.
                        let hidden = held.host_function && std::ptr::eq(a, &*self.host);
                        (std::ptr::eq(a, arena) || !full)
                            && !hidden
                            && a.release_untouched(need, &held)
                    })
                }
                Verdict::Moving | Verdict::Stalled => false,
            };
            let hope = released
                || match verdict {
                    Verdict::Moving | Verdict::Late => true,
                    Verdict::Blocked => !full,
                    Verdict::Quiet | Verdict::Stalled => false,
                };
            match (hope, full) {
                (true, _) => {}
                (false, true) => patient = false,
                (false, false) => return Err(self.out_of_memory(arena, request, &Cause::Full)),
            }
        }
    }

    fn release_all(&self, release: impl Fn(&Arena) -> bool) -> bool {
        self.arenas().filter(|arena| release(arena)).count() > 0
    }
}
