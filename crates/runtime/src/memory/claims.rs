//! What the processes under one limit have claimed of it together.
//!
//! Memory is charged when it is touched, and whoever touches the byte over the limit of a control group
//! is killed. So bytes are claimed before they are handed out, and the claims of all processes under the
//! limit stay below it:
//!
//! ```text
//!   this process: publish its new claim ──> read the claims of the others ──> keep it if the sum fits, else withdraw it
//! ```
//!
//! Each process writes its claim into its live page (`live.rs`). Of two processes that claim the last bytes at the same moment at
//! most one gets them, and maybe none: never both. So who gets nothing tries again some times, after pauses that differ
//! from process to process.

use super::system_limits::{SharedLimit, machine_limit};
use crate::live::{LivePage, claims_of_others};
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst, fence};
use std::time::Duration;

/// Claims are rounded up, so that few allocations look at other processes: by an eighth, and by this at least and at most. A
/// thousand processes that use little must not claim much.
const STEPS: [u64; 2] = [1 << 20, 64 << 20];

/// How often a claim is tried that met the claims of others, who may withdraw theirs.
const TRIES: u32 = 4;

/// A process may claim an eighth of the limit more than it uses before it gives claims up: a program that allocates and
/// frees the same memory again and again must not read the claims of others each time.
const IDLE_FRACTION: u64 = 8;

/// Where claims are published and read.
pub trait ClaimStore: Send + Sync {
    /// Publishes the claim of this process.
    fn publish(&self, bytes: u64);
    /// The sum of the claims of all other processes under the limit.
    fn others(&self) -> u64;
    /// Bytes that the machine has free now, whoever has claimed them.
    fn machine_free(&self) -> u64;
}

/// The live pages of this machine.
struct LivePages {
    page: Arc<LivePage>,
    limit_id: u64,
}

impl ClaimStore for LivePages {
    fn publish(&self, bytes: u64) {
        self.page.set_claim(bytes);
    }

    fn others(&self) -> u64 {
        claims_of_others(self.limit_id).iter().map(|(claimed, _)| claimed).sum()
    }

    fn machine_free(&self) -> u64 {
        machine_limit().bytes
    }
}

/// The claim of this process. Lock-free while it covers what is used.
pub struct Claims {
    store: Box<dyn ClaimStore>,
    /// What all claims together may reach.
    max_total: u64,
    claimed: AtomicU64,
    /// The last attempt to grow failed because of the claims of others.
    is_short: AtomicBool,
    growing: Mutex<()>,
}

impl Claims {
    /// Claims on the live pages, under a limit that others may have measured before: then theirs counts,
    /// if it is more, because their own memory was not in use yet.
    pub fn of_processes(page: Arc<LivePage>, shared: &SharedLimit) -> Claims {
        let limit_id = hash_name(&shared.name);
        let measured = claims_of_others(limit_id).iter().map(|(_, total)| *total).max();
        let max_total = shared.bytes.max(measured.unwrap_or(0));
        page.set_limit(limit_id, max_total);
        Claims::new(Box::new(LivePages { page, limit_id }), max_total)
    }

    /// Claims in any store.
    pub fn new(store: Box<dyn ClaimStore>, max_total: u64) -> Claims {
        let growing = Mutex::new(Rank::Claims, ());
        let (claimed, is_short) = (AtomicU64::new(0), AtomicBool::new(false));
        Claims { store, max_total, claimed, is_short, growing }
    }

    /// Makes the claim cover this many bytes. False if others have claimed too much.
    pub fn cover(&self, used: u64) -> bool {
        if used <= self.claimed.load(SeqCst) {
            return true;
        }
        let _growing = self.growing.lock();
        let claimed = self.claimed.load(SeqCst);
        if used <= claimed {
            return true;
        }
        let rounded = round_up(used).min(self.max_total.max(used));
        let granted = (0..TRIES).find_map(|tries| {
            if tries > 0 {
                if used - claimed > self.store.machine_free() {
                    return None;
                }
                self.store.publish(claimed);
                std::thread::sleep(pause(tries));
            }
            [rounded, used].into_iter().find(|bytes| self.try_claim(*bytes, claimed))
        });
        self.is_short.store(granted.is_none(), SeqCst);
        match granted {
            Some(bytes) => self.claimed.store(bytes, SeqCst),
            None => self.store.publish(claimed),
        }
        granted.is_some()
    }

    /// Makes the claim cover bytes that are in use already, whatever others have claimed.
    pub fn set_least(&self, used: u64) {
        let _growing = self.growing.lock();
        if used > self.claimed.load(SeqCst) {
            self.store.publish(used);
            self.claimed.store(used, SeqCst);
        }
    }

    fn try_claim(&self, bytes: u64, before: u64) -> bool {
        self.store.publish(bytes);
        fence(SeqCst);
        let sum = bytes.checked_add(self.store.others());
        sum.is_some_and(|sum| sum <= self.max_total) && bytes - before <= self.store.machine_free()
    }

    /// Gives up what is no longer needed; `used` is called again after the claim was made smaller.
    pub fn shrink(&self, used: impl Fn() -> u64) {
        let idle = (self.max_total / IDLE_FRACTION).max(STEPS[0]);
        if self.claimed.load(SeqCst) <= used().saturating_add(idle) {
            return;
        }
        let _growing = self.growing.lock();
        let claimed = self.claimed.load(SeqCst);
        let smaller = round_up(round_up(used()));
        if smaller >= claimed {
            return;
        }
        self.claimed.store(smaller, SeqCst);
        match used() <= smaller {
            true => self.store.publish(smaller),
            false => self.claimed.store(claimed, SeqCst),
        }
    }

    /// The largest claim that the claims of others leave to this process.
    pub fn max_claim(&self) -> u64 {
        self.max_total.saturating_sub(self.store.others())
    }

    /// The same if the last claim failed, else no limit: so the claims of others are not read.
    pub fn max_claim_if_short(&self) -> u64 {
        if self.is_short.load(SeqCst) { self.max_claim() } else { u64::MAX }
    }
}

/// What is claimed for so many bytes.
fn round_up(used: u64) -> u64 {
    let step = (used / 8).clamp(STEPS[0], STEPS[1]).next_power_of_two();
    (used / step).checked_add(1).and_then(|steps| steps.checked_mul(step)).unwrap_or(used)
}

/// How long this process waits before it tries again.
fn pause(tries: u32) -> Duration {
    let turn = std::process::id() % 8 + 1;
    Duration::from_micros(u64::from(50 * turn * tries))
}

/// A hash of a name (FNV-1a), never 0.
fn hash_name(name: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::thread;

    const MIB: u64 = 1 << 20;

    /// The claims of a few processes, of which this is the one at `own`.
    struct TestClaims {
        claims: std::sync::Arc<Vec<AtomicU64>>,
        own: usize,
        machine_free: u64,
    }

    impl ClaimStore for TestClaims {
        fn publish(&self, bytes: u64) {
            self.claims[self.own].store(bytes, SeqCst);
        }

        fn others(&self) -> u64 {
            let others = self.claims.iter().enumerate().filter(|(index, _)| *index != self.own);
            others.map(|(_, claim)| claim.load(SeqCst)).sum()
        }

        fn machine_free(&self) -> u64 {
            self.machine_free
        }
    }

    fn processes(count: usize, max_total: u64, machine_free: u64) -> Vec<Claims> {
        let claims: std::sync::Arc<Vec<AtomicU64>> =
            std::sync::Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let process = |own| {
            Claims::new(
                Box::new(TestClaims { claims: claims.clone(), own, machine_free }),
                max_total,
            )
        };
        (0..count).map(process).collect()
    }

    #[test]
    fn what_one_process_claims_another_does_not_get() {
        let two = processes(2, 512 * MIB, u64::MAX);
        assert!(two[0].cover(300 * MIB));
        assert!(!two[1].cover(200 * MIB), "the first claimed 320 MiB");
        assert!(two[1].cover(192 * MIB));
        assert!(!two[0].cover(321 * MIB));
        assert_eq!((two[0].max_claim(), two[1].max_claim()), (320 * MIB, 192 * MIB));
        assert_eq!(
            (two[0].max_claim_if_short(), two[1].max_claim_if_short()),
            (320 * MIB, u64::MAX)
        );
        two[1].shrink(|| 130 * MIB);
        assert!(!two[0].cover(400 * MIB), "too little to give up");
        two[0].shrink(|| 10 * MIB);
        assert_eq!(two[0].claimed.load(SeqCst), 14 * MIB);
        assert!(two[1].cover(498 * MIB));
        assert!(!two[1].cover(499 * MIB));
    }

    #[test]
    fn what_the_machine_has_not_is_not_claimed() {
        let one = processes(1, 512 * MIB, 100 * MIB);
        assert!(!one[0].cover(101 * MIB));
        assert!(one[0].cover(100 * MIB));
    }

    #[test]
    fn memory_that_is_taken_again_and_again_is_claimed_once() {
        let two = processes(2, 4096 * MIB, u64::MAX);
        assert!(two[0].cover(500 * MIB));
        two[0].shrink(|| 0);
        assert_eq!(two[0].claimed.load(SeqCst), 512 * MIB);
        assert!(two[0].cover(513 * MIB));
        two[0].shrink(|| 0);
        assert_eq!(two[1].store.others(), 2 * MIB, "more than an eighth of the limit lay idle");
    }

    #[test]
    fn a_claim_that_is_needed_again_stays() {
        let one = processes(1, 512 * MIB, u64::MAX);
        assert!(one[0].cover(400 * MIB));
        let used = AtomicU64::new(0);
        one[0].shrink(|| used.fetch_add(150 * MIB, SeqCst));
        assert_eq!(one[0].store.others(), 0);
        assert!(one[0].claimed.load(SeqCst) >= 400 * MIB);
    }

    #[test]
    fn a_thousand_processes_that_use_little_claim_little() {
        let all = processes(1000, 1024 * MIB, u64::MAX);
        assert!(all.iter().all(|claims| claims.cover(8 << 10)));
        assert!(all[0].cover(20 * MIB) && !all[1].cover(8 * MIB));
    }

    #[test]
    fn those_that_begin_together_get_what_there_is_for_all() {
        let all = processes(16, 16 * MIB + (1 << 19), u64::MAX);
        let start = std::sync::Barrier::new(all.len());
        thread::scope(|scope| {
            for claims in &all {
                scope.spawn(|| {
                    start.wait();
                    assert!(claims.cover(1 << 19));
                });
            }
        });
    }

    #[test]
    fn many_at_once_never_claim_more_than_there_is() {
        let max_total = 1024 * MIB;
        let all = processes(4, max_total, u64::MAX);
        let claimed_bytes: u64 = thread::scope(|scope| {
            let workers: Vec<_> = all
                .iter()
                .map(|claims| {
                    scope.spawn(|| {
                        let mut used = 0;
                        for _ in 0..4000 {
                            if claims.cover(used + MIB) {
                                used += MIB;
                            }
                        }
                        used
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert!(claimed_bytes <= max_total, "{claimed_bytes}");
        assert!(claimed_bytes > max_total / 2, "{claimed_bytes}");
    }
}
