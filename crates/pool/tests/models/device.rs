//! Streams whose work ends when the model says so; every look at them is a point where threads may
//! change.

use cairn_pool::Progress;
use cairn_pool::clock::{Epoch, StreamIndex};
use shuttle::sync::Mutex;

/// How many streams there are.
pub const STREAMS: usize = 3;

/// The clocks of all streams.
#[derive(Default)]
pub struct Device(Mutex<Marks>);

/// Where streams stand.
#[derive(Clone, Default)]
pub struct Marks {
    submitted: [u64; STREAMS],
    finished: [u64; STREAMS],
    ordered: [[u64; STREAMS]; STREAMS],
    waits: Vec<(Epoch, Epoch)>,
}

impl Progress for Device {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.marks().submitted[stream as usize]
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        self.marks().finished[stream as usize]
    }

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        self.marks().ordered[on as usize][epoch.stream as usize] >= epoch.seq
    }
}

impl Device {
    /// Where streams stand now.
    pub fn marks(&self) -> Marks {
        self.0.lock().unwrap().clone()
    }

    /// Gives a stream work; returns which.
    pub fn submit(&self, stream: usize) -> Epoch {
        self.0.lock().unwrap().submit(stream)
    }

    /// Stream `on` waits for what `of` was given so far, and for what that was ordered after.
    pub fn order(&self, on: usize, of: usize) {
        let mut marks = self.0.lock().unwrap();
        let waited = Epoch { stream: of as StreamIndex, seq: marks.submitted[of] };
        let wait = marks.submit(on);
        marks.waits.push((wait, waited));
        let mut known = marks.ordered[of];
        known[of] = waited.seq;
        for (mark, known) in marks.ordered[on].iter_mut().zip(known) {
            *mark = known.max(*mark);
        }
    }

    /// All waits are dropped, and what they ordered is so no more.
    pub fn break_order(&self) {
        let mut marks = self.0.lock().unwrap();
        marks.waits.clear();
        marks.ordered = Default::default();
    }

    /// Lets the next work of a stream end, if there is any and what it waits for is done.
    pub fn advance(&self, stream: usize) {
        self.0.lock().unwrap().advance(stream);
    }

    /// Lets all work end.
    pub fn finish_all(&self) {
        let mut marks = self.0.lock().unwrap();
        while marks.finished != marks.submitted {
            (0..STREAMS).for_each(|stream| marks.advance(stream));
        }
    }

    /// Panics if a stream has open work.
    pub fn assert_done(&self, stream: usize) {
        let marks = self.marks();
        assert_eq!(marks.finished[stream], marks.submitted[stream]);
    }
}

impl Marks {
    fn submit(&mut self, stream: usize) -> Epoch {
        self.submitted[stream] += 1;
        Epoch { stream: stream as StreamIndex, seq: self.submitted[stream] }
    }

    fn advance(&mut self, stream: usize) {
        let next = self.finished[stream] + 1;
        let held_up = |(wait, waited): &(Epoch, Epoch)| {
            wait.stream as usize == stream
                && wait.seq == next
                && self.finished[waited.stream as usize] < waited.seq
        };
        if next <= self.submitted[stream] && !self.waits.iter().any(held_up) {
            self.finished[stream] = next;
        }
    }

    /// True if what is given to a stream from now on runs after this point.
    pub fn may_use(&self, stream: usize, epoch: Epoch) -> bool {
        let of = epoch.stream as usize;
        of == stream || self.finished[of].max(self.ordered[stream][of]) >= epoch.seq
    }
}
