use super::*;
use crate::decode::{Decoder, tests::entry};
use crate::encode::Encoder;
use crate::entry::{Happening, Site};
use proptest::prelude::*;

/// A record in memory, written as the runtime writes it.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
}

impl File {
    fn new() -> File {
        File { bytes: Header { pid: 9, command: "prog".into(), ..Header::default() }.encode() }
    }

    /// Appends a chain's segments; returns where they begin.
    fn chain(&mut self, chain: u32, thread: u64, payload: &[u8]) -> Vec<usize> {
        let parts: Vec<&[u8]> = payload.chunks(PAYLOAD_BYTES).collect();
        let append = |(ordinal, part): (usize, &&[u8])| {
            let offset = self.bytes.len();
            let segment =
                Segment { chain, ordinal: ordinal as u32, thread, used: part.len() as u32 };
            self.bytes.extend_from_slice(&segment.encode());
            self.bytes.extend_from_slice(part);
            self.bytes.resize(offset + SEGMENT_BYTES, 0);
            offset
        };
        parts.iter().enumerate().map(append).collect()
    }

    /// What is read of the file, made whole as the runtime makes it: in pieces.
    fn read(&self) -> (Vec<Entry<'static>>, Vec<Damage>) {
        let piece = PIECE_SEGMENTS * SEGMENT_BYTES;
        let mut bytes = self.bytes.clone();
        bytes.resize(HEADER_BYTES + (bytes.len() - HEADER_BYTES).next_multiple_of(piece), 0);
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let entries = reader.by_ref().collect();
        (entries, reader.damage().to_vec())
    }
}

fn encode(entries: &[Entry<'_>]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    entries.iter().for_each(|entry| encoder.encode(entry, &mut bytes));
    bytes
}

fn named(time_ns: u64, thread: u64, text: String) -> Entry<'static> {
    let happening = Happening::Touch { name: text.into(), accesses: Vec::new().into() };
    Entry { time_ns, thread, site: Site::default(), happening }
}

#[test]
fn chains_are_merged_by_time() {
    let odd: Vec<_> = (0..50).map(|i| named(2 * i + 1, 7, format!("odd {i}"))).collect();
    let even: Vec<_> = (0..50).map(|i| named(2 * i, 8, format!("even {i}"))).collect();
    let mut file = File::new();
    file.chain(0, 7, &encode(&odd));
    file.bytes.resize(file.bytes.len() + SEGMENT_BYTES, 0);
    file.chain(1, 8, &encode(&even));
    let (entries, damage) = file.read();
    assert_eq!((entries.len(), damage), (100, vec![]));
    assert!(entries.iter().enumerate().all(|(i, entry)| entry.time_ns == i as u64));
    assert_eq!(entries[1].thread, 7);
    assert_eq!(Reader::new(&file.bytes[..]).unwrap().header().command, "prog");
}

#[test]
fn entries_go_on_in_the_next_segment() {
    let entries: Vec<_> = (0..30).map(|i| named(i, 3, i.to_string().repeat(9000))).collect();
    let payload = encode(&entries);
    assert!(payload.len() > 3 * PAYLOAD_BYTES);
    let mut file = File::new();
    let offsets = file.chain(0, 3, &payload);
    assert_eq!(file.read(), (entries.clone(), vec![]));
    // A process that was killed while an entry went on: the next segment counts already, this one does not yet.
    let mut decoder = Decoder::new(3);
    let (mut end, mut whole) = (0, 0);
    while let Ok((_, length)) = decoder.decode(&payload[end..PAYLOAD_BYTES]) {
        (end, whole) = (end + length, whole + 1);
    }
    file.bytes[offsets[0] + USED_OFFSET..][..4].copy_from_slice(&(end as u32).to_le_bytes());
    assert_eq!(file.read(), (entries[..whole].to_vec(), vec![]));
}

#[test]
fn a_file_that_was_cut_off_between_segments_is_damaged() {
    let mut file = File::new();
    file.chain(0, 3, &encode(&[named(1, 3, "a".into())]));
    assert_eq!(file.read().1, vec![]);
    let mut reader = Reader::new(&file.bytes[..]).unwrap();
    assert_eq!((reader.by_ref().count(), reader.damage().len()), (1, 1));
}

#[test]
fn damage_ends_a_chain_and_no_other() {
    let entries = [named(1, 3, "a".into()), named(2, 3, "b".into())];
    let mut file = File::new();
    file.chain(0, 3, &[encode(&entries), vec![0xff]].concat());
    file.chain(1, 4, &encode(&[named(5, 4, "c".into())]));
    let (read, damage) = file.read();
    assert_eq!((read.len(), damage.len(), damage[0].thread), (3, 1, 3));
    let used = HEADER_BYTES + USED_OFFSET;
    file.bytes[used..used + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let (read, damage) = file.read();
    assert_eq!((read.len(), damage.len()), (1, 1));
}

proptest! {
    #[test]
    fn a_file_that_was_cut_off_has_a_prefix(
        entries in proptest::collection::vec(entry(), 1..30),
        cut in 0..2000usize,
    ) {
        let mut file = File::new();
        file.chain(0, 5, &encode(&entries));
        file.bytes.truncate(HEADER_BYTES + SEGMENT_HEADER_BYTES + cut);
        let mut reader = Reader::new(&file.bytes[..]).unwrap();
        let read: Vec<_> = reader.by_ref().collect();
        prop_assert_eq!(&entries[..read.len()], &read[..]);
        prop_assert!(!reader.damage().is_empty());
    }

    #[test]
    fn any_bytes_after_the_header_end_in_entries_or_damage(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut file = File::new();
        file.chain(0, 5, &bytes);
        file.read();
    }
}
