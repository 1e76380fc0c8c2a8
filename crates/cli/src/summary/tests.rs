use super::*;
use crate::record_builder::{Builder, MIB, example};
use cairn_record::entry::*;

fn summarize(bytes: &[u8]) -> figures::Summary {
    figures::summarize(|| Ok(Reader::new(bytes)?)).unwrap()
}

#[test]
fn a_record_as_text() {
    let text = text::render(&summarize(&example().bytes()));
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn a_record_as_json() {
    let text = json::render(&[summarize(&example().bytes())]);
    assert_eq!(text, include_str!("golden.json"), "\n{text}");
}

#[test]
fn blocks_end_with_their_segment_and_their_device() {
    let summary = summarize(&example().bytes());
    let pool = summary.pools[&figures::Pool::Own(0, 1)];
    assert_eq!((pool.peak_live, pool.live, pool.reserved), (4 * MIB, 0, 0));
    let device = summary.places.iter().find(|place| place.device == Some(0)).unwrap();
    assert_eq!((device.peak, device.live_at_end), (14 * MIB, 2 * MIB));
    let mut record = example();
    record.add("", Happening::Device { device: 0, change: Change::Destroyed, capacity: 0 });
    let summary = summarize(&record.bytes());
    assert!(summary.places.iter().all(|place| place.live_at_end == 0));
}

#[test]
fn an_address_that_is_allocated_again_is_counted_once() {
    let mut record = Builder::default();
    for _ in 0..3 {
        record.alloc("aclrtMalloc", MemoryKind::Device(1), 0x1000, 512);
    }
    let summary = summarize(&record.bytes());
    assert_eq!((summary.places[0].peak, summary.places[0].live_at_end), (512, 512));
    assert!(!summary.counts.ended_in_order);
}

#[test]
fn an_empty_record_has_a_summary() {
    let summary = summarize(&Builder::default().bytes());
    assert!(text::render(&summary).starts_with("./prog --fast (process 42): 0 entries in 0 ns"));
}

/// A rank of two with one allreduce, which takes 1 us, after `later` tasks of 3 us each.
fn rank(rank: u32, later: u64) -> figures::Summary {
    let mut record = Builder::default();
    record.join(1, 77, rank, 2);
    for _ in 0..later {
        record.task(9, "aclnnAdd", Outcome::Done);
    }
    record.collective(1, 1, "HcclAllReduce", 1, |_| {});
    record.submit(1, "HcclAllReduce").add("", Happening::Start { stream: 1, seq: 1 });
    let began_ns = 5_000_000 + 1000 * (later * 3 + 4);
    for _ in 0..(4 - 3 * later) {
        record.add("", Happening::Exit);
    }
    record.add("", Happening::End { stream: 1, seq: 1, began_ns, outcome: Outcome::Done });
    summarize(&record.bytes())
}

#[test]
fn ranks_that_wait_for_each_other() {
    let mut both = [rank(0, 0), rank(1, 1)];
    find_waits(&mut both);
    let figures = |at: usize| {
        let it: &communicators::CommunicatorFigures = &both[at].communicators[0];
        (it.operators, it.inside_ns, it.waited_ns)
    };
    assert_eq!((figures(0), figures(1)), ((1, 5000, Some(3000)), (1, 2000, Some(0))));
    let text = text::render(&both[0]);
    let expected = "
Communicators
  name     rank  operators  bytes  time inside  waiting for ranks
  world  0 of 2          1    0 B      5.00 us             60.0 %
";
    assert!(text.contains(expected), "{text}");
    let mut alone = [rank(0, 0)];
    find_waits(&mut alone);
    assert_eq!(alone[0].communicators[0].waited_ns, None);
    assert!(json::render(&both).starts_with('['));
}
