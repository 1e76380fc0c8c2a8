use super::{
    figures::Figures,
    requests::{Requests, Selection},
    times::Times,
    *,
};
use crate::record_builder::{Builder, MIB, example};
use cairn_record::entry::*;
use cairn_record::trace::Request;

fn requests(record: &Builder, selection: Selection) -> Requests {
    let bytes = record.bytes();
    requests::read(|| Ok(Reader::new(&bytes[..])?), selection).unwrap()
}

fn sizes(requests: &Requests) -> Vec<u64> {
    let bytes = |request: &Request| match request {
        Request::Take { bytes, .. } => Some(*bytes / MIB),
        Request::Free { .. } => None,
    };
    requests.trace.requests().iter().filter_map(bytes).collect()
}

#[test]
fn which_requests_are_replayed() {
    let record = example();
    let chosen = |selection| requests(&record, selection);
    assert_eq!(sizes(&chosen(Selection::Allocator)), [1]);
    // The segment of the pool, host memory, and what the program's allocator cuts into blocks are no requests.
    assert_eq!(sizes(&chosen(Selection::Device)), [2]);
    assert_eq!(sizes(&chosen(Selection::Pool)), [3, 1]);
    assert_eq!(sizes(&chosen(Selection::All)), [2, 3, 1, 1]);
    let auto = chosen(Selection::Auto);
    assert_eq!((auto.selection, sizes(&auto)), (Selection::Allocator, vec![1]));
    assert_eq!(auto.capacity, 64 * MIB);
    // Blocks end with their segment; what is live at the end has no free.
    assert_eq!(chosen(Selection::All).trace.requests().len(), 4 + 3);
}

#[test]
fn regions_are_requests_and_what_they_lie_in_is_none() {
    let mut record = Builder::default();
    let region = |address, bytes, change| Happening::Region {
        device: 0,
        address,
        bytes,
        domain: "torch".into(),
        change,
    };
    record
        .alloc("aclrtMalloc", MemoryKind::Device(0), 0x10_0000, 20 * MIB)
        .add("", region(0x10_0000, MIB, Change::Created))
        .add("", region(0x20_0000, 2 * MIB, Change::Created))
        .add("", region(0x10_0000, 0, Change::Destroyed))
        .add("", region(0x10_0000, 3 * MIB, Change::Created))
        .alloc("aclrtMalloc", MemoryKind::Device(0), 0x900_0000, 5 * MIB)
        .add("", Happening::Device { device: 0, change: Change::Destroyed, capacity: 0 });
    let auto = requests(&record, Selection::Auto);
    assert_eq!((auto.selection, sizes(&auto)), (Selection::Region, vec![1, 2, 3]));
    assert_eq!(auto.trace.requests().len(), 6);
    assert_eq!(sizes(&requests(&record, Selection::All)), [1, 2, 3, 5]);
    assert_eq!(sizes(&requests(&record, Selection::Device)), [5]);
}

#[test]
fn streams_are_numbered_by_device() {
    let mut record = Builder::default();
    let mut alloc = |device, address, stream| {
        record.add(
            "aclrtMalloc",
            Happening::Alloc {
                kind: MemoryKind::Device(device),
                address,
                bytes: 100,
                purpose: Purpose::User,
                owner: Owner::default(),
                stream,
            },
        );
    };
    alloc(0, 0x1000, Some(1900));
    alloc(1, 0x2000, Some(1900));
    alloc(0, 0x3000, None);
    record.add(
        "aclrtFree",
        Happening::Free {
            kind: MemoryKind::Device(0),
            address: 0x3000,
            bytes: 100,
            stream: Some(1900),
        },
    );
    let requests = requests(&record, Selection::Auto);
    assert_eq!(requests.selection, Selection::All);
    assert_eq!(requests.trace.to_string(), "a 0 100\na 1 100 1 1\na 2 100 2\nf 2 0\n");
}

#[test]
fn a_record_without_such_requests_says_which_it_has() {
    let mut record = Builder::default();
    let why = |record: &Builder, asked| requests(record, asked).why_none(asked);
    assert_eq!(
        why(&record, Selection::Auto),
        "has no requests that can be replayed: nobody took memory"
    );
    record.alloc("aclrtMallocHost", MemoryKind::Pinned, 0x7000, 4096).alloc(
        "aclrtMallocHost",
        MemoryKind::Pinned,
        0x9000,
        4096,
    );
    assert_eq!(
        why(&record, Selection::Auto),
        "has no requests that can be replayed; it has 2 of pinned host memory, which no pool of a device gives"
    );
    record.alloc("aclrtMalloc", MemoryKind::Device(0), 0x10_0000, MIB);
    assert_eq!(
        why(&record, Selection::Pool),
        "has no requests of the kind `--requests pool`; it has 1 of devices (`device`), 2 of pinned host memory, which no pool of a device gives"
    );
}

/// Two files on four allocators.
fn replayed() -> Vec<Replayed> {
    let times = |median_ns, p99_ns| Some(Times { median_ns, p99_ns });
    let good = Figures {
        peak_reserved: 10 * MIB,
        peak_live: 8 * MIB,
        alloc: times(45, 300),
        free: times(40, 1500),
        ..Figures::default()
    };
    let bad = Figures {
        peak_reserved: 8 * MIB,
        failures: 2,
        first_failure: Some("request 7 for 100 bytes: the pool gave null".into()),
        overlap: Some(
            "a block of 1 bytes was given at 0x10, inside of the live block 0x0 of 32 bytes".into(),
        ),
        ..Figures::default()
    };
    let spec = |text: &str| text.parse::<AllocatorSpec>().unwrap();
    let allocators = vec![
        (spec("cairn"), Ok(good)),
        (spec("so:/opt/libpool.so"), Ok(bad)),
        (spec("so:/opt/libheap.so"), Ok(Figures { peak_live: 8 * MIB, ..Figures::default() })),
        (spec("ge:/opt/libpool.so:make"), Err("the process crashed (SIGSEGV)".into())),
    ];
    let one = |file: &str, selection, allocators| Replayed {
        file: file.into(),
        selection,
        takes: 12,
        frees: 10,
        streams: if selection.is_some() { 3 } else { 1 },
        peak_live: 8 * MIB,
        is_damaged: selection.is_some(),
        max_ratio: Some(1.5),
        allocators,
    };
    vec![
        one("run.cairn", Some(Selection::Allocator), allocators.clone()),
        one("bert.trc", None, allocators[..1].to_vec()),
    ]
}

#[test]
fn figures_as_text() {
    let text = text::render(&replayed());
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn figures_as_json() {
    let text = json::render(&replayed());
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn a_library_may_be_too_wasteful() {
    let mut replayed = replayed().swap_remove(1);
    let spec: AllocatorSpec = "so:lib.so".parse().unwrap();
    let mut fault = |peak_reserved, failures, max_ratio| {
        let figures = Figures { peak_reserved, peak_live: 100, failures, ..Figures::default() };
        replayed.max_ratio = max_ratio;
        assert_eq!(replayed.fault(&AllocatorSpec::Cairn, &Ok(figures.clone())), None);
        assert_eq!(figures.remark().is_some(), peak_reserved < 100);
        assert_eq!(figures.ratio().is_some(), peak_reserved > 0);
        replayed.fault(&spec, &Ok(figures))
    };
    assert_eq!(fault(900, 1, None), None);
    assert_eq!(fault(150, 0, Some(1.5)), None);
    assert!(fault(151, 0, Some(1.5)).unwrap().starts_with("it reserves 1.510 times"));
    assert_eq!(fault(100, 1, Some(1.5)).unwrap(), "1 requests failed");
    assert_eq!(fault(0, 0, None), None);
    assert!(fault(0, 0, Some(1.5)).unwrap().starts_with("its blocks are not device memory"));
    assert!(fault(99, 0, Some(1.5)).unwrap().starts_with("not all of its blocks are device"));
    assert!(parse_ratio("0").is_err() && parse_ratio("nan").is_err() && parse_ratio("2").is_ok());
}

#[test]
fn a_file_that_is_neither_is_named() {
    let folder = crate::private_folder::PrivateFolder::create().unwrap();
    let path = folder.path().join("file");
    for (bytes, reason) in [
        (&b"\xff\xfe"[..], "it is no text"),
        (b"a 0 ten\n", "line 1: `ten` is no number of bytes"),
        (b"# nothing\n", "it has no requests"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = format!("{:#}", read(&path, Selection::Auto).err().unwrap());
        assert!(error.contains("is neither a record") && error.contains(reason), "{error}");
    }
    fs::write(&path, example().bytes()).unwrap();
    assert_eq!(read(&path, Selection::Pool).unwrap().trace.blocks(), 2);
    let mut future = example().bytes();
    future[8] = 9;
    fs::write(&path, future).unwrap();
    let error = read(&path, Selection::Auto).err().unwrap().to_string();
    assert!(error.contains("has version 9"), "{error}");
}
