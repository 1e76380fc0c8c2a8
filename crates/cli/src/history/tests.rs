use super::*;
use crate::record_builder::{Builder, MIB, example};
use cairn_record::entry::{MemoryKind, Purpose};
use std::borrow::Cow;

fn history(record: &Builder) -> History {
    let bytes = record.bytes();
    History::read(Reader::new(&bytes[..]).unwrap())
}

#[test]
fn blocks_lie_in_what_was_taken() {
    let history = history(&example());
    let blocks = history.lives.blocks();
    let at = |address: usize| blocks.iter().rposition(|block| block.address == address).unwrap();
    let external = &blocks[at(0x200_0000)];
    assert!(matches!(external.kind, MemoryKind::External { .. }));
    let outer = external.parent.unwrap();
    assert!(blocks[outer].is_outer() && blocks[outer].is_divided);
    assert_eq!((blocks[outer].address, blocks[outer].bytes), (0x200_0000, 4 * MIB));
    let segment = blocks.iter().position(|b| b.purpose == Purpose::PoolSegment).unwrap();
    let workspace =
        blocks.iter().find(|b| b.purpose == Purpose::Workspace && b.parent == Some(segment));
    assert_eq!(workspace.unwrap().freed_ns, blocks[segment].freed_ns, "it ends with its segment");
}

#[test]
fn what_is_divided_counts_by_what_is_inside() {
    let history = history(&example());
    let time_ns = history.lives.blocks().iter().map(|block| block.made_ns).max().unwrap();
    let shares = history.lives.shares(Some(0), time_ns);
    let of = |purpose| {
        shares.iter().filter(|(b, _)| b.purpose == purpose).map(|(_, bytes)| bytes).sum::<u64>()
    };
    assert_eq!(of(Purpose::Workspace), 3 * MIB);
    assert_eq!(of(Purpose::Const), MIB);
    assert_eq!(of(Purpose::PoolSegment), 4 * MIB, "what is left of 8 MiB");
}

#[test]
fn a_freed_block_waits_for_its_stream() {
    let mut record = Builder::default();
    let block = MemoryKind::External { device: 0, object: 7, block: 1 };
    let alloc = |kind| Happening::Alloc {
        kind,
        address: 0x1000,
        bytes: 64,
        purpose: Purpose::Workspace,
        owner: Owner::default(),
        stream: Some(1),
    };
    record.add("aclnnAdd", alloc(MemoryKind::Device(0))).add("aclnnAdd", alloc(block));
    record.submit(1, "aclnnAdd");
    record.add(
        "aclnnAdd",
        Happening::Free { kind: block, address: 0x1000, bytes: 64, stream: Some(1) },
    );
    record.end_task(1);
    let history = history(&record);
    let life = history.lives.blocks().last().unwrap();
    let task = history.runs.get(Epoch { stream: 1, seq: 1 }).unwrap();
    assert!(life.freed_ns < life.reusable_ns);
    assert_eq!(life.reusable_ns, task.ended_ns);
}

#[test]
fn regions_and_ranges_end() {
    let mut record = Builder::default();
    let region = |bytes, change| Happening::Region {
        device: 0,
        address: 0x1040,
        bytes,
        domain: "cache".into(),
        change,
    };
    let mark = |range, text, change| Happening::Mark { range, text: Cow::Borrowed(text), change };
    record
        .alloc("aclrtMalloc", MemoryKind::Device(0), 0x1000, 4096)
        .add("", mark(3, "step", Change::Created))
        .add("", region(64, Change::Created))
        .add("", mark(0, "here", Change::Created))
        .add("", region(0, Change::Destroyed))
        .add("", mark(3, "", Change::Destroyed))
        .add("", mark(4, "open", Change::Created));
    let history = history(&record);
    let life = history.lives.blocks().last().unwrap();
    assert_eq!((life.purpose, life.parent, life.bytes), (Purpose::Region, Some(0), 64));
    assert!(life.freed_ns > Some(life.made_ns));
    let marks: Vec<_> =
        history.marks.iter().map(|m| (&*m.text, m.ended_ns.map(|end| end - m.began_ns))).collect();
    assert_eq!(marks, [("step", Some(4000)), ("here", Some(0)), ("open", None)]);
}
