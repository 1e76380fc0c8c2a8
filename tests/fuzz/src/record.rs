//! Bytes as a record.

use cairn_record::Reader;
use cairn_record::layout::{Header, SEGMENT_BYTES, Segment};

/// Reads the bytes as a record: as they are, and as the entries of one thread.
///
/// # Panics
/// When reading does, never ends, or an error is empty.
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
}

fn read(bytes: &[u8]) {
    match Reader::new(bytes) {
        Ok(mut reader) => {
            // An entry takes at least three bytes: tag, time and site.
            let count = reader.by_ref().count();
            assert!(count <= bytes.len() / 3, "{count} entries in {} bytes", bytes.len());
            assert!(reader.damage().iter().all(|damage| !damage.reason.is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
