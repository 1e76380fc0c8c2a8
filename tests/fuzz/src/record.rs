//! Bytes as a record.

use cairn_check::report::{self, NoStacks};
use cairn_check::{Checker, Tool};
use cairn_record::layout::{Header, SEGMENT_BYTES, Segment};
use cairn_record::{Follower, Reader};

/// Reads the bytes as a record: as they are, and as the entries of one thread.
///
/// # Panics
/// When reading or checking does, never ends, or an error is empty.
pub fn record(data: &[u8]) {
    read(data);
    let mut bytes = Header::default().encode();
    for (ordinal, part) in data.chunks(SEGMENT_BYTES - 64).enumerate() {
        let begin = bytes.len();
        let used = part.len() as u32;
        let segment = Segment { chain: 0, ordinal: ordinal as u32, thread: 1, used };
        bytes.extend_from_slice(&segment.encode());
        bytes.extend_from_slice(part);
        bytes.resize(begin + SEGMENT_BYTES, 0);
    }
    read(&bytes);
    follow(&bytes);
}

/// Reads and checks a record.
fn read(bytes: &[u8]) {
    match Reader::new(bytes) {
        Ok(mut reader) => {
            let mut checker = Checker::new(&Tool::ALL);
            let mut count = 0;
            for entry in reader.by_ref() {
                checker.entry(&entry);
                count += 1;
            }
            // An entry takes at least three bytes: tag, time and site.
            assert!(count <= bytes.len() / 3, "{count} entries in {} bytes", bytes.len());
            assert!(reader.damage().iter().all(|damage| !damage.reason.is_empty()));
            checker.finish(true);
            let text = report::text(checker.findings(), &NoStacks);
            assert!(text.contains("cairn check: "), "{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Reads a record as one that is still written: as many entries come in the end.
fn follow(bytes: &[u8]) {
    let mut follower = Follower::new(bytes).expect("its header is right");
    let mut count = 0;
    for now_ns in [1, 1 << 20, 1 << 40, u64::MAX] {
        follower.poll(now_ns).expect("bytes can be read");
        count += std::iter::from_fn(|| follower.next_entry()).count();
    }
    follower.finish().expect("bytes can be read");
    count += std::iter::from_fn(|| follower.next_entry()).count();
    assert_eq!(count, Reader::new(bytes).expect("its header is right").count());
}
