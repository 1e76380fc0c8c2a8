//! Protected device memory (`CAIRN_MEMORY=no-host-access`): the addresses that users see are reserved and can never be touched;
//! the bytes lie elsewhere, at a fixed distance. Only [`super::raw`] knows, which adds it.
//!
//! ```text
//!  addresses of the user                      the bytes
//!  ┌───────────── no access ─────────────┐    ┌───── readable, writable ────────┐
//!  │ a touch by the program faults       │    │ tasks and copies work here      │
//!  └─────────────────────────────────────┘    └─────────────────────────────────┘
//!  start ─────────────────────────── distance ──────> start + distance
//! ```
//!
//! On an NPU a touch of device memory by the host is a fault; on a CPU it would just work, and the mistake would travel.

use crate::record::{Event, Kind, Site, Spine, site, stack};
use crate::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many ranges there may be: more than a process has devices.
const MAX_RANGES: usize = 32;

/// A range of protected addresses.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    distance: AtomicUsize,
}

static RANGES: [Range; MAX_RANGES] = [const {
    Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0), distance: AtomicUsize::new(0) }
}; MAX_RANGES];

/// How many of them are in use; the others are empty.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Protects a range of addresses whose bytes lie `distance` further on. False if there are too many ranges.
pub(super) fn add(start: usize, bytes: usize, distance: usize) -> bool {
    let number = COUNT.fetch_add(1, Ordering::AcqRel);
    let Some(range) = RANGES.get(number) else {
        COUNT.fetch_sub(1, Ordering::AcqRel);
        return false;
    };
    range.distance.store(distance, Ordering::Relaxed);
    range.start.store(start, Ordering::Relaxed);
    range.end.store(start + bytes, Ordering::Release);
    true
}

/// The range is gone: its addresses are anybody's.
pub(super) fn remove(start: usize) {
    for range in &RANGES {
        if range.start.load(Ordering::Relaxed) == start {
            range.end.store(0, Ordering::Release);
            range.start.store(0, Ordering::Relaxed);
        }
    }
}

/// Where the byte of an address of the user lies.
#[inline]
pub(super) fn resolve(address: usize) -> usize {
    match COUNT.load(Ordering::Relaxed) {
        0 => address,
        _ => find(address).map_or(address, |distance| address.wrapping_add(distance)),
    }
}

/// The distance of a protected address to its byte.
#[cold]
fn find(address: usize) -> Option<usize> {
    let count = COUNT.load(Ordering::Acquire).min(MAX_RANGES);
    (RANGES[..count].iter())
        .find(|range| {
            address < range.end.load(Ordering::Acquire)
                && address >= range.start.load(Ordering::Relaxed)
        })
        .map(|range| range.distance.load(Ordering::Relaxed))
}

/// Who is told of a touch.
static SPINE: OnceLock<Arc<Spine>> = OnceLock::new();

/// From now on a touch of protected memory is emitted here.
pub(super) fn watch(spine: &Arc<Spine>) {
    let _ = SPINE.set(spine.clone());
}

/// The program itself touched an address, which faults: if the address is protected, it is emitted, and this returns true. The
/// door calls it in the handler of the signal. The thread was in code of the program, which holds no lock of the engine, and the
/// process is about to end: nothing is lost where this allocates. The stack of calls is taken only if `has_room` says that the
/// handler's own stack is long enough for that.
pub fn report_touch(address: usize, writes: bool, has_room: bool) -> bool {
    let Some(spine) = SPINE.get().filter(|_| find(address).is_some()) else { return false };
    if spine.has_listener(Kind::HostFault) {
        let stack = if has_room { stack::take_at_fault() } else { 0 };
        let site = Site { stack, ..site::current() };
        let emit = || spine.emit(Kind::HostFault, || Event::HostFault { address, writes });
        site::with_site(site, emit);
    }
    spine.flush();
    true
}
