//! Streams whose tasks finish when the model says so; every access to them is a point where the scheduler
//! may switch threads.

use cairn_pool::Progress;
use cairn_pool::clock::{Epoch, StreamIndex};
use shuttle::sync::Mutex;

/// How many streams there are.
pub const STREAMS: usize = 3;

/// The clocks of all streams.
#[derive(Default)]
pub struct Device(Mutex<State>);

/// How far streams have come, and what they wait for.
#[derive(Clone, Default)]
pub struct State {
    submitted: [u64; STREAMS],
    finished: [u64; STREAMS],
    ordered: [[u64; STREAMS]; STREAMS],
    /// A task, and the task of another stream that it waits for.
    waits: Vec<(Epoch, Epoch)>,
}

impl Progress for Device {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.state().submitted[stream as usize]
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        self.state().finished[stream as usize]
    }

    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        self.state().ordered[stream as usize][epoch.stream as usize] >= epoch.seq
    }
}

impl Device {
    /// The state of all streams now.
    pub fn state(&self) -> State {
        self.0.lock().unwrap().clone()
    }

    /// Submits a task to a stream; returns its epoch.
    pub fn submit(&self, stream: usize) -> Epoch {
        self.0.lock().unwrap().submit(stream)
    }

    /// Lets stream `waiter` wait for all tasks of `awaited` so far, and for what those are ordered after.
    pub fn order(&self, waiter: usize, awaited: usize) {
        let mut state = self.0.lock().unwrap();
        let epoch = Epoch { stream: awaited as StreamIndex, seq: state.submitted[awaited] };
        let wait = state.submit(waiter);
        state.waits.push((wait, epoch));
        let mut ordered = state.ordered[awaited];
        ordered[awaited] = epoch.seq;
        for (seq, new) in state.ordered[waiter].iter_mut().zip(ordered) {
            *seq = new.max(*seq);
        }
    }

    /// Drops all waits, and with them what they ordered.
    pub fn break_order(&self) {
        let mut state = self.0.lock().unwrap();
        state.waits.clear();
        state.ordered = Default::default();
    }

    /// Lets the next task of a stream finish, if there is one and what it waits for is finished.
    pub fn advance(&self, stream: usize) {
        self.0.lock().unwrap().advance(stream);
    }

    /// Lets all tasks finish.
    pub fn finish_all(&self) {
        let mut state = self.0.lock().unwrap();
        while state.finished != state.submitted {
            (0..STREAMS).for_each(|stream| state.advance(stream));
        }
    }

    /// Panics if a stream has unfinished tasks.
    pub fn assert_done(&self, stream: usize) {
        let state = self.state();
        assert_eq!(state.finished[stream], state.submitted[stream]);
    }
}

impl State {
    fn submit(&mut self, stream: usize) -> Epoch {
        self.submitted[stream] += 1;
        Epoch { stream: stream as StreamIndex, seq: self.submitted[stream] }
    }

    fn advance(&mut self, stream: usize) {
        let next = self.finished[stream] + 1;
        let is_blocked = |(wait, awaited): &(Epoch, Epoch)| {
            wait.stream as usize == stream
                && wait.seq == next
                && self.finished[awaited.stream as usize] < awaited.seq
        };
        if next <= self.submitted[stream] && !self.waits.iter().any(is_blocked) {
            self.finished[stream] = next;
        }
    }

    /// True if what is submitted to a stream from now on runs after this epoch.
    pub fn may_use(&self, stream: usize, epoch: Epoch) -> bool {
        let other = epoch.stream as usize;
        other == stream || self.finished[other].max(self.ordered[stream][other]) >= epoch.seq
    }
}
