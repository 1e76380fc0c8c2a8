//! `fault:...`: makes requests fail or take longer, to test how a program handles that.

use super::Layer;
use super::fault_spec::{FaultSpec, Trigger};
use crate::error::{Code, Error, Result};
use crate::memory::allocator::{Allocator, RawBlock};
use crate::memory::request::Request;
use crate::stream::Stream;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{self, Arc};
use std::time::Duration;

/// Fails the requests that its [`FaultSpec`] chooses, as if memory were out, and delays all of them if it
/// says so. The requests of all threads that it concerns are numbered from 1; the number alone decides, so a sequence of
/// calls meets the same faults in every run.
pub struct Fault {
    spec: FaultSpec,
    requests: AtomicU64,
    sleep: fn(Duration),
}

impl Fault {
    /// Faults as described.
    pub fn new(spec: FaultSpec) -> Fault {
        let sleep = if sync::REAL_TIME { std::thread::sleep } else { |_| () };
        Fault { spec, requests: AtomicU64::new(0), sleep }
    }
}

impl Trigger {
    /// True if the request with this number, counted from 1, fails.
    pub fn hits(&self, request: u64) -> bool {
        match *self {
            Trigger::Nth(nth) => request == nth,
            Trigger::Every(every) => request.is_multiple_of(every),
            Trigger::Chance { p, seed } => {
                let draw = hash(seed ^ hash(request)) >> 11;
                (draw as f64) < p * (1u64 << 53) as f64
            }
        }
    }
}

/// A hash of 64 bits: two rounds of multiply and xor-shift.
fn hash(word: u64) -> u64 {
    let xor_shift = |word: u64| word ^ (word >> 32);
    let first =
        xor_shift(word.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    xor_shift(xor_shift(first).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

impl Layer for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        if !self.spec.concerns(request.purpose, &request.owner) {
            return below.allocate(request);
        }
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.spec.delay.is_zero() {
            (self.sleep)(self.spec.delay);
        }
        if self.spec.trigger.is_some_and(|trigger| trigger.hits(number)) {
            return Err(Error::new(
                Code::MemoryAllocation,
                format!(
                    "out of memory by an injected fault: request {number}, of {} bytes from {}, fails because of {}",
                    request.bytes,
                    below.name(),
                    self.spec
                ),
            ));
        }
        below.allocate(request)
    }

    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        below.free(block, stream)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::memory::purpose::{Owner, Purpose};
    use std::cell::Cell;

    fn hits(trigger: Trigger, requests: u64) -> Vec<u64> {
        (1..=requests).filter(|&request| trigger.hits(request)).collect()
    }

    thread_local! {
        static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    struct NullAllocator;

    impl Allocator for NullAllocator {
        fn name(&self) -> String {
            "nothing".into()
        }
        fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
            Ok(RawBlock::new(0, request.bytes, 0))
        }
        fn free(&self, _: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_request_is_delayed_and_no_free() {
        let delay = Duration::from_millis(2);
        let sleep = |time| SLEPT.with(|slept| slept.set(slept.get() + time));
        let spec = FaultSpec { trigger: Some(Trigger::Nth(2)), delay, ..FaultSpec::default() };
        let fault = Fault { sleep, ..Fault::new(spec) };
        let block = fault.allocate(&Request::bytes(1), &NullAllocator).unwrap();
        assert_eq!(SLEPT.get(), delay);
        fault.allocate(&Request::bytes(1), &NullAllocator).unwrap_err();
        fault.free(block, None, &NullAllocator).unwrap();
        assert_eq!(SLEPT.get(), 2 * delay);
    }

    #[test]
    fn only_the_chosen_purpose_and_operator_are_counted() {
        let spec = FaultSpec {
            trigger: Some(Trigger::Nth(2)),
            purpose: Some(Purpose::Workspace),
            operator: Some("sort".into()),
            ..FaultSpec::default()
        };
        let fault = Fault::new(spec);
        let request = |purpose, operator| {
            let owner = Owner { operator, ..Owner::default() };
            fault.allocate(&Request::bytes(1).purpose(purpose, owner), &NullAllocator).is_ok()
        };
        assert!(request(Purpose::Workspace, Some("Sort")));
        assert!(request(Purpose::Workspace, Some("TopKV2")));
        assert!(request(Purpose::Workspace, None));
        assert!(request(Purpose::HostCopy, Some("Sort")));
        assert!(!request(Purpose::Workspace, Some("Sort")));
        assert!(request(Purpose::Workspace, Some("Sort")));
    }

    #[test]
    fn numbers_choose_the_requests() {
        assert_eq!(hits(Trigger::Nth(3), 1000), [3]);
        assert_eq!(hits(Trigger::Every(400), 1000), [400, 800]);
        assert_eq!(hits(Trigger::Every(1), 3), [1, 2, 3]);
    }

    #[test]
    fn chance_is_the_same_for_a_seed_and_near_its_rate() {
        let chance = |p, seed| hits(Trigger::Chance { p, seed }, 100_000);
        assert_eq!(chance(0.01, 7), chance(0.01, 7));
        assert_ne!(chance(0.01, 7), chance(0.01, 8));
        for seed in 0..8 {
            let hits = chance(0.01, seed).len();
            assert!((800..1200).contains(&hits), "{hits} of 100000 with seed {seed}");
        }
        assert_eq!((chance(0.0, 1).len(), chance(1.0, 1).len()), (0, 100_000));
    }
}
