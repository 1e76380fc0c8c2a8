use super::*;
use crate::encode::Encoder;
use crate::entry::{Happening, Site};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// A file in memory that grows while it is read.
#[derive(Clone, Default)]
struct Growing(Rc<RefCell<Vec<u8>>>);

impl Source for Growing {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0.borrow()[..]).read_at(offset, buffer)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }
}

impl Growing {
    fn new() -> Growing {
        Growing(Rc::new(RefCell::new(Header::default().encode())))
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// A segment with its header; `used` may be busy.
    fn segment(&self, chain: u32, ordinal: u32, used: u32) -> usize {
        let mut file = self.0.borrow_mut();
        let offset = file.len();
        file.extend_from_slice(
            &Segment { chain, ordinal, thread: u64::from(chain), used }.encode(),
        );
        file.resize(offset + SEGMENT_BYTES, 0);
        offset
    }
}

/// A thread that writes as the runtime does, one step at a time.
struct Writer {
    file: Growing,
    chain: u32,
    encoder: Encoder,
    segment: Option<(usize, usize)>,
    ordinal: u32,
    /// The bytes of the entry that is being made, once the clock was read.
    entry: Vec<u8>,
    step: usize,
    written: Vec<(u64, u32)>,
}

impl Writer {
    fn new(file: &Growing, chain: u32) -> Writer {
        Writer {
            file: file.clone(),
            chain,
            encoder: Encoder::default(),
            segment: None,
            ordinal: 0,
            entry: Vec::new(),
            step: 0,
            written: Vec::new(),
        }
    }

    fn publish(&self, (offset, used): (usize, usize), busy: u32) {
        self.file.store(offset + USED_OFFSET, &(used as u32 | busy).to_le_bytes());
    }

    fn new_segment(&mut self, busy: u32) -> (usize, usize) {
        let segment = (self.file.segment(self.chain, self.ordinal, busy), 0);
        self.ordinal += 1;
        segment
    }

    /// The next step of an entry whose text has this many bytes.
    fn step(&mut self, now_ns: u64, text: usize) {
        match self.step {
            0 => match self.segment.filter(|(_, used)| *used < PAYLOAD_BYTES) {
                Some(segment) => self.publish(segment, BUSY),
                None => self.segment = Some(self.new_segment(BUSY)),
            },
            1 => {
                let name = format!("{}", now_ns).repeat(text / 5 + 1).into();
                let happening = Happening::Touch { name, accesses: Vec::new().into() };
                let entry = Entry { time_ns: now_ns, thread: 0, site: Site::default(), happening };
                self.encoder.encode(&entry, &mut self.entry);
                self.written.push((now_ns, self.chain));
            }
            _ => self.append(),
        }
        self.step = (self.step + 1) % 3;
    }

    /// All that is left at once: the order of the stores is what a kill at any moment tests in the runtime.
    fn append(&mut self) {
        let bytes = std::mem::take(&mut self.entry);
        let mut rest = &bytes[..];
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let taken = self.segment.take();
            let (offset, used) = taken.unwrap_or_else(|| self.new_segment(0));
            let part = rest.len().min(PAYLOAD_BYTES - used);
            self.file.store(offset + SEGMENT_HEADER_BYTES + used, &rest[..part]);
            rest = &rest[part..];
            segments.push((offset, used + part));
        }
        segments.iter().rev().for_each(|segment| self.publish(*segment, 0));
        self.segment = segments.pop();
    }
}

/// What happens in each step of a test: a thread goes on, or the follower looks.
#[derive(Clone, Debug)]
enum Action {
    Step(usize, usize),
    Poll,
}

fn action() -> impl Strategy<Value = Action> {
    let long = prop_oneof![4 => 0..20usize, 1 => 10_000..90_000usize];
    prop_oneof![
        5 => (0..3usize, long).prop_map(|(thread, text)| Action::Step(thread, text)),
        1 => Just(Action::Poll)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// However threads and looks interleave, entries come in the order of time, each once, none missing.
    #[test]
    fn entries_come_once_and_in_order(actions in proptest::collection::vec(action(), 1..200)) {
        let file = Growing::new();
        let mut writers: Vec<_> = (0..3).map(|chain| Writer::new(&file, chain)).collect();
        let mut follower = Follower::new(file.clone()).unwrap();
        let (mut read, mut done) = (Vec::new(), Vec::new());
        // A step takes longer than a store needs to be seen.
        let time = |step: usize| (step as u64 + 1) * 2 * MARGIN_NS;
        for (step, action) in actions.iter().enumerate() {
            match action {
                Action::Step(thread, text) => writers[*thread].step(time(step), *text),
                Action::Poll => {
                    follower.poll(time(step)).unwrap();
                    while let Some(entry) = follower.next_entry() {
                        read.push((entry.time_ns, entry.thread as u32));
                    }
                    done.extend(follower.take_done());
                }
            }
        }
        let before = read.len();
        follower.finish().unwrap();
        while let Some(entry) = follower.next_entry() {
            read.push((entry.time_ns, entry.thread as u32));
        }
        follower.finish().unwrap();
        prop_assert_eq!(follower.damage(), &[]);
        // An entry whose clock was read and that was never stored is none.
        let mut expected: Vec<_> = Vec::new();
        for writer in &mut writers {
            if !writer.entry.is_empty() {
                writer.written.pop();
            }
            expected.extend(&writer.written);
        }
        expected.sort_unstable();
        prop_assert_eq!(&read, &expected);
        prop_assert!(before <= read.len());
        done.extend(follower.take_done());
        let all = done.len();
        done.sort_unstable();
        done.dedup();
        prop_assert_eq!(done.len(), all, "a segment was done with twice");
    }
}

#[test]
fn an_entry_waits_for_threads_that_may_still_write_an_earlier_one() {
    let file = Growing::new();
    let mut writers = [Writer::new(&file, 0), Writer::new(&file, 1)];
    let mut follower = Follower::new(file.clone()).unwrap();
    let mut read_at = |now_ns: u64| {
        follower.poll(now_ns).unwrap();
        std::iter::from_fn(|| follower.next_entry()).map(|entry| entry.time_ns).collect::<Vec<_>>()
    };
    let ms = 1_000_000;
    (0..3).for_each(|_| writers[0].step(10 * ms, 1));
    (0..3).for_each(|_| writers[1].step(11 * ms, 1));
    assert_eq!(read_at(20 * ms), [], "new chains were last known to be silent at 0");
    assert_eq!(read_at(21 * ms), [10 * ms, 11 * ms]);
    // The second one has read the clock and is interrupted.
    (0..2).for_each(|_| writers[1].step(30 * ms, 1));
    (0..3).for_each(|_| writers[0].step(40 * ms, 1));
    assert_eq!(read_at(50 * ms), []);
    writers[1].step(60 * ms, 1);
    assert_eq!(read_at(70 * ms), [30 * ms, 40 * ms]);
    assert_eq!(read_at(80 * ms), []);
}
