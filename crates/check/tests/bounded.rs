//! The checker's memory: at most a sixteenth of the devices', however many bytes a program touches in pieces.

use cairn_check::{Checker, Tool};
use cairn_record::entry::{Change, Happening, MemoryKind, Owner, Purpose, TaskKind};
use cairn_record::{Access, Clock, Entry, Mode, Site};
use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, which counts.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for this function.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MEMORY: usize = 1 << 40;
const CAPACITY: u64 = 1 << 30;

fn entry(time_ns: u64, happening: Happening<'static>) -> Entry<'static> {
    let site = Site { entry: "call".into(), thread: 1, stack: 0 };
    Entry { time_ns, thread: 1, site, happening }
}

#[test]
fn accesses_in_pieces_take_no_more_than_a_sixteenth() {
    let mut checker = Checker::new(&Tool::ALL);
    checker.entry(&entry(
        1,
        Happening::Device { device: 0, change: Change::Created, capacity: CAPACITY },
    ));
    checker.entry(&entry(
        2,
        Happening::Alloc {
            kind: MemoryKind::Device(0),
            address: MEMORY,
            bytes: CAPACITY,
            purpose: Purpose::User,
            owner: Owner::default(),
            stream: None,
        },
    ));
    let before = LIVE.load(Ordering::Relaxed);
    let mut most = 0;
    for seq in 1..150_000u64 {
        // Nothing is ever waited for; a piece is written in parts by one stream and read by another.
        let address = MEMORY + (seq as usize * 7919 * 64) % (CAPACITY as usize - 4096);
        let access = Access {
            address,
            element: 4,
            dims: [(3, 24), (2, 8)].into_iter().collect(),
            mode: if seq % 3 == 0 { Mode::Read } else { Mode::ReadWrite },
            indexed: false,
        };
        let submit = Happening::Submit {
            stream: (seq % 2) as u32,
            device: 0,
            seq,
            name: "task".into(),
            task: TaskKind::Work,
            accesses: Cow::Owned(vec![access.clone(), Access { address: address + 100, ..access }]),
            ordered: Cow::Owned(Clock::new()),
        };
        checker.entry(&entry(seq + 2, submit));
        most = most.max(LIVE.load(Ordering::Relaxed).saturating_sub(before));
    }
    let limit = (CAPACITY / 16) as usize;
    assert!(most <= limit, "{most} bytes, and {limit} are allowed");
    assert!(most >= limit / 8, "{most} bytes: it forgets more than it has to");
    let rules: Vec<_> = checker.findings().list().iter().map(|finding| finding.rule).collect();
    assert!(rules.iter().all(|rule| *rule == "order" || *rule == "uninitialised"), "{rules:?}");
}
