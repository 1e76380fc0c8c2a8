use super::*;
use crate::record_builder::{MIB, example};
use cairn_record::Reader;

fn history() -> History {
    let bytes = example().bytes();
    History::read(Reader::new(&bytes[..]).unwrap())
}

#[test]
fn segments_are_covered_by_their_blocks() {
    let history = history();
    for time_ns in (0..history.end_ns).step_by(1000) {
        for segment in take(&history, time_ns).segments {
            let mut at = segment.address;
            for block in &segment.blocks {
                assert_eq!(block.address, at);
                at += block.size;
            }
            assert_eq!(at, segment.address + segment.total_size);
        }
    }
}

#[test]
fn the_peak_has_what_was_live() {
    let history = history();
    let snapshot = take(&history, Moment::Peak.time_ns(&history, Some(0)));
    let total: u64 = snapshot.segments.iter().map(|segment| segment.total_size).sum();
    assert_eq!(total, 14 * MIB);
    let trace = &snapshot.device_traces[0];
    assert!(
        trace.iter().all(|entry| entry.action != Action::SegmentFree),
        "nothing after the moment"
    );
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    // `tests/torch/test_pictures.py` reads snapshots with Python.
    assert!(bytes.starts_with(&[0x80, 2]) && bytes.ends_with(b"u."));
    for text in ["segments", "aclrtMalloc", "frames"] {
        let count = bytes.windows(text.len()).filter(|part| *part == text.as_bytes()).count();
        assert_eq!(count, 1, "{text} is written once");
    }
}

#[test]
fn what_is_allocated_is_freed_once() {
    let history = history();
    let snapshot = take(&history, history.end_ns);
    let count = |action| snapshot.device_traces[0].iter().filter(|e| e.action == action).count();
    assert!(count(Action::Alloc) > 0);
    assert_eq!(count(Action::FreeRequested), count(Action::FreeCompleted));
    assert!(count(Action::FreeRequested) <= count(Action::Alloc));
    assert!(snapshot.device_traces[0].is_sorted_by_key(|entry| entry.time_ns));
}
