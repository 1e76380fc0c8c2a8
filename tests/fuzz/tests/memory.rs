//! How much memory reading a model takes, counted by the allocator.

use cairn_graph::model::read;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct CountingAllocator;

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; the rest only counts.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let current = CURRENT.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(current, Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        CURRENT.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A length-delimited field of a message.
fn field(tag: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut number in [(tag << 3 | 2) as usize, body.len()] {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes.extend_from_slice(body);
    bytes
}

/// An attribute of the graph.
fn attr(name: &str, value: &[u8]) -> Vec<u8> {
    field(11, &[field(1, name.as_bytes()), field(2, value)].concat())
}

/// One test, so that nothing else runs in this process while it counts.
#[test]
fn memory_is_bounded_by_the_length() {
    const MANY: usize = 300_000;
    let op = |body: &[u8]| field(6, &[field(1, b"n"), field(2, b"Kind"), body.to_vec()].concat());
    let list = |tag, body: &[u8], val_type| {
        attr("a", &field(1, &[field(tag, body).repeat(MANY), vec![0xa0, 1, val_type]].concat()))
    };
    let numbered = |n: usize| format!("{n:x}");
    let models = [
        ("nodes", field(6, &[]).repeat(MANY)),
        (
            "named nodes",
            (0..MANY).flat_map(|n| field(6, &field(1, numbered(n).as_bytes()))).collect(),
        ),
        ("unfed inputs", op(&field(5, &[]).repeat(MANY))),
        ("inputs from one output", {
            let edges = field(5, b"n:0").repeat(MANY);
            op(&[edges, field(34, &[])].concat())
        }),
        ("descriptions", op(&field(33, &[]).repeat(MANY))),
        ("outputs", field(5, &[]).repeat(MANY)),
        ("attributes", (0..MANY).flat_map(|n| attr(&numbered(n), &[0x18, 1])).collect()),
        ("texts", list(2, &[], 1)),
        ("tensors", list(9, &[], 7)),
        ("graphs", list(10, &[], 8)),
        ("named", list(11, &[], 9)),
        ("numbers", attr("a", &field(1, &[field(3, &vec![1; MANY]), vec![0xa0, 1, 2]].concat()))),
        ("lists", attr("a", &field(14, &field(1, &[]).repeat(MANY)))),
        ("sizes", op(&field(33, &field(3, &field(1, &vec![1; MANY]))))),
        ("names", {
            let names = field(1, &[field(2, b"").repeat(MANY)].concat());
            let positions: Vec<u8> =
                (0..MANY).flat_map(|n| [n as u8 | 0x80, (n >> 7) as u8 & 0x7f]).collect();
            let entry =
                |name: &[u8], value: &[u8]| field(10, &[field(1, name), field(2, value)].concat());
            op(&[
                entry(b"_input_name_key", &names),
                entry(b"_input_name_value", &field(1, &field(3, &positions))),
            ]
            .concat())
        }),
    ];
    for (name, graph) in models {
        let bytes = field(7, &graph);
        let before = CURRENT.load(Relaxed);
        PEAK.store(before, Relaxed);
        let result = read(&bytes);
        let peak = PEAK.load(Relaxed) - before;
        let outcome =
            result.as_ref().map_or_else(String::clone, |graph| format!("{} nodes", graph.len()));
        println!(
            "{name}: {:.1} bytes for each of {}: {outcome}",
            peak as f64 / bytes.len() as f64,
            bytes.len()
        );
        assert!(peak <= 100 * bytes.len() + (2 << 20), "{name}: {peak} for {}", bytes.len());
        drop(result);
    }
}
