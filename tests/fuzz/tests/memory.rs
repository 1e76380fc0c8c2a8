//! How much memory reading a model or a record takes, counted by the allocator.

use cairn_graph::model::read;
use cairn_graph::offline::Aipp;
use cairn_graph::onnx;
use cairn_record::Reader;
use cairn_record::layout::{Header, PAYLOAD_BYTES, SEGMENT_BYTES, Segment};
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
        check(name, &field(7, &graph), |bytes| {
            read(bytes.to_vec())
                .map_or_else(|error| error, |graph| format!("{} nodes", graph.len()))
        });
    }
    for (name, bytes) in onnx_models() {
        check(name, &bytes, |bytes| {
            onnx::read(bytes.to_vec(), &onnx::ReadOptions::default())
                .map_or_else(|error| error, |graph| format!("{} nodes", graph.len()))
        });
    }
    let keys = format!("aipp_op {{ {} }}", "mean_chn_0: 1 ".repeat(MANY));
    for (name, text) in [
        ("images", "aipp_op { aipp_mode: static input_format: RGB888_U8 } ".repeat(MANY / 10)),
        ("keys of an image", keys),
        ("blocks", "a { ".repeat(MANY)),
    ] {
        check(name, text.as_bytes(), |bytes| {
            let text = std::str::from_utf8(bytes).unwrap();
            Aipp::parse(text).map_or_else(|error| error.to_string(), |_| "read".to_owned())
        });
    }
    records_are_bounded_by_their_length();
}

/// A record of one thread with these bytes for entries.
fn record_of(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Header::default().encode();
    for (ordinal, part) in payload.chunks(PAYLOAD_BYTES).enumerate() {
        let (begin, used) = (bytes.len(), part.len() as u32);
        let segment = Segment { chain: 0, ordinal: ordinal as u32, thread: 1, used };
        bytes.extend_from_slice(&segment.encode());
        bytes.extend_from_slice(part);
        bytes.resize(begin + SEGMENT_BYTES, 0);
    }
    bytes
}

fn records_are_bounded_by_their_length() {
    const MANY: usize = 200_000;
    // Tag, time, and a new site: its name, thread and stack.
    let entry = |tag: u8, body: &[u8]| [&[tag, 0, 0, 0, 0, 0, 0], body].concat();
    let many = [(MANY & 0x7f) as u8 | 0x80, (MANY >> 7 & 0x7f) as u8 | 0x80, (MANY >> 14) as u8];
    let list = |before: &[u8], item: &[u8]| [before, &many, &item.repeat(MANY)].concat();
    let records = [
        ("steps", entry(17, &list(&[1, 1, 0], &[0, 0]))),
        ("accesses", entry(5, &[list(&[1, 1, 0, 1, 1], &[0, 0, 0]), vec![0]].concat())),
        ("frames", entry(23, &list(&[1], &[0, 1, 0]))),
        ("regions", entry(18, &list(&[1, 1, 0], &[0]))),
        ("sites", entry(24, &[]).repeat(MANY)),
        ("missing", entry(18, &[1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x7f])),
    ];
    for (name, payload) in records {
        let bytes = record_of(&payload);
        let before = CURRENT.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut reader = Reader::new(&bytes[..]).expect("the header is valid");
        let count = reader.by_ref().count();
        let peak = PEAK.load(Relaxed) - before;
        println!(
            "{name}: {:.1} bytes for each of {}: {count} entries, {:?}",
            peak as f64 / bytes.len() as f64,
            bytes.len(),
            reader.damage()
        );
        assert_eq!(count == 0, name == "missing", "{name}: {:?}", reader.damage());
        assert!(peak <= 200 * bytes.len(), "{name}: {peak} for {}", bytes.len());
    }
}

/// Reads bytes, and fails if that takes much more memory than they have.
fn check(name: &str, bytes: &[u8], read: impl Fn(&[u8]) -> String) {
    let before = CURRENT.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut outcome = read(bytes);
    let peak = PEAK.load(Relaxed) - before;
    outcome.truncate(outcome.floor_char_boundary(100));
    println!(
        "{name}: {:.1} bytes for each of {}: {outcome}",
        peak as f64 / bytes.len() as f64,
        bytes.len()
    );
    let most = if name == FUNCTIONS { 64 << 20 } else { 100 * bytes.len() + (2 << 20) };
    assert!(peak <= most, "{name}: {peak} for {}", bytes.len());
}

/// The model whose functions would add 2^40 nodes: a fixed number of them is read.
const FUNCTIONS: &str = "functions of functions";

/// A field with a number below 128.
fn small(tag: u8, value: u8) -> Vec<u8> {
    vec![tag << 3, value]
}

/// Models of ONNX that are large, or say that something in them is.
fn onnx_models() -> Vec<(&'static str, Vec<u8>)> {
    const MANY: usize = 50_000;
    let input = |tag, name: &[u8]| {
        let shape = field(2, &field(1, &small(1, 2)));
        field(tag, &[field(1, name), field(2, &field(1, &[small(1, 1), shape].concat()))].concat())
    };
    let node = |kind: &[u8], from: &[&[u8]], to: &[u8]| {
        let from: Vec<u8> = from.iter().flat_map(|name| field(1, name)).collect();
        field(1, &[from, field(2, to), field(4, kind)].concat())
    };
    let model = |body: &[u8], more: &[u8]| {
        let graph = [body.to_vec(), input(11, b"x"), input(12, b"y")].concat();
        let opset = field(8, &small(2, 17));
        [small(1, 8), opset, field(7, &graph), more.to_vec()].concat()
    };
    let int64s = |name: &[u8], values: &[i64]| {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        field(
            5,
            &[small(1, values.len() as u8), small(2, 7), field(8, name), field(9, &data)].concat(),
        )
    };
    let relu = node(b"Relu", &[b"x"], b"y");
    let chain: Vec<u8> = (0..MANY)
        .flat_map(|at| {
            let (from, to) = (format!("{at:x}"), format!("{:x}", at + 1));
            let from = if at == 0 { "x".to_owned() } else { from };
            node(b"Relu", &[from.as_bytes()], if at + 1 == MANY { b"y" } else { to.as_bytes() })
        })
        .collect();
    let functions: Vec<u8> = (0..40u8)
        .flat_map(|at| {
            let (name, next) = ([b'f', b'A' + at], [b'f', b'B' + at]);
            let call = |from: &[u8], to: &[u8]| {
                let domain = if at == 39 { Vec::new() } else { field(7, b"my") };
                let kind: &[u8] = if at == 39 { b"Relu" } else { &next };
                field(7, &[field(1, from), field(2, to), field(4, kind), domain].concat())
            };
            let body = [call(b"a", b"b"), call(b"b", b"c")].concat();
            let opsets =
                [field(9, &small(2, 17)), field(9, &[field(1, b"my"), small(2, 1)].concat())];
            field(
                25,
                &[
                    field(1, &name),
                    field(4, b"a"),
                    field(5, b"c"),
                    body,
                    opsets.concat(),
                    field(10, b"my"),
                ]
                .concat(),
            )
        })
        .collect();
    let opset = field(8, &[field(1, b"my"), small(2, 1)].concat());
    let call =
        field(1, &[field(1, b"x"), field(2, b"y"), field(4, b"fA"), field(7, b"my")].concat());
    let huge = [1i64 << 20, 1 << 20];
    vec![
        ("a chain", model(&chain, &[])),
        (
            "nodes that nobody reads",
            model(&[relu.clone(), node(b"Relu", &[b"x"], b"z").repeat(MANY)].concat(), &[]),
        ),
        (
            "nodes of a type that is not known",
            model(&node(b"Odd", &[b"x"], b"z").repeat(MANY), &[]),
        ),
        ("empty nodes", model(&field(1, &[]).repeat(MANY), &[])),
        (
            "empty attributes",
            model(
                &field(
                    1,
                    &[
                        field(1, b"x"),
                        field(2, b"y"),
                        field(4, b"Relu"),
                        field(5, &[]).repeat(MANY),
                    ]
                    .concat(),
                ),
                &[],
            ),
        ),
        ("empty constants", model(&[relu.clone(), field(5, &[]).repeat(MANY)].concat(), &[])),
        ("many inputs", model(&[relu.clone(), field(11, &[]).repeat(MANY)].concat(), &[])),
        (
            "a constant of many elements",
            model(
                &[
                    int64s(b"s", &huge),
                    node(b"ConstantOfShape", &[b"s"], b"w"),
                    node(b"Add", &[b"x", b"w"], b"y"),
                ]
                .concat(),
                &[],
            ),
        ),
        (
            "a constant that is expanded",
            model(
                &[int64s(b"s", &huge), int64s(b"w", &[1]), node(b"Expand", &[b"w", b"s"], b"y")]
                    .concat(),
                &[],
            ),
        ),
        (
            "a constant that is repeated",
            model(
                &[int64s(b"s", &[1 << 40]), int64s(b"w", &[1]), node(b"Tile", &[b"w", b"s"], b"y")]
                    .concat(),
                &[],
            ),
        ),
        (FUNCTIONS, model(&call, &[functions, opset].concat())),
    ]
}
