//! The communicators of this process, for `npu-smi` and `cairn top`.

use super::event::{Change, Collective, Communicator};
use crate::clock::{Epoch, Progress};
use crate::live::details::CommunicatorFigures;
use crate::lock::{Mutex, Rank};
use std::collections::{BTreeMap, VecDeque};

/// The communicators that this process has joined and not left. Its lock is held for a look at the operators in progress.
pub struct LiveCommunicators(Mutex<BTreeMap<u64, Joined>>);

struct Joined {
    communicator: Communicator,
    submitted: u64,
    /// Operators that may not have ended, in the order of their calls.
    pending: VecDeque<Epoch>,
}

impl LiveCommunicators {
    /// None yet.
    pub fn new() -> LiveCommunicators {
        LiveCommunicators(Mutex::new(Rank::Record, BTreeMap::new()))
    }

    /// The process joined one, or left it; how many it has now.
    pub fn change(&self, communicator: &Communicator, change: Change) -> usize {
        let mut all = self.0.lock();
        match change {
            Change::Created => {
                let communicator = communicator.clone();
                let joined = Joined { communicator, submitted: 0, pending: VecDeque::new() };
                all.insert(joined.communicator.id, joined);
            }
            Change::Destroyed => _ = all.remove(&communicator.id),
        }
        all.len()
    }

    /// An operator is submitted.
    pub fn submit(&self, collective: &Collective, progress: &Progress) {
        if let Some(joined) = self.0.lock().get_mut(&collective.communicator) {
            joined.submitted += 1;
            joined.forget_finished(progress);
            joined.pending.push_back(collective.epoch);
        }
    }

    /// The figures of now, devices by the numbers that `physical` gives.
    pub fn figures(
        &self,
        progress: &Progress,
        physical: impl Fn(u32) -> u32,
    ) -> Vec<CommunicatorFigures> {
        let mut all = self.0.lock();
        let figures = all.values_mut().map(|joined| {
            joined.forget_finished(progress);
            let unfinished = joined.pending.iter().filter(|epoch| !is_finished(progress, **epoch));
            CommunicatorFigures {
                name: joined.communicator.name.clone(),
                rank: joined.communicator.rank,
                size: joined.communicator.size,
                device: physical(joined.communicator.device),
                submitted: joined.submitted,
                finished: joined.submitted - unfinished.count() as u64,
            }
        });
        figures.collect()
    }
}

impl Joined {
    fn forget_finished(&mut self, progress: &Progress) {
        while self.pending.front().is_some_and(|epoch| is_finished(progress, *epoch)) {
            self.pending.pop_front();
        }
    }
}

fn is_finished(progress: &Progress, epoch: Epoch) -> bool {
    progress.finished(epoch.stream) >= epoch.seq
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn operators_are_counted_until_they_are_left() {
        let progress = Progress::new(4);
        let stream = progress.open().unwrap();
        let communicator =
            Communicator { id: 3, name: "world".into(), identity: 1, rank: 1, size: 2, device: 1 };
        let communicators = LiveCommunicators::new();
        assert_eq!(communicators.change(&communicator, Change::Created), 1);
        for ticket in 1..4 {
            let collective = Collective {
                communicator: 3,
                ticket,
                operator: "HcclAllReduce".into(),
                epoch: Epoch { stream, seq: ticket },
                count: 1,
                data_type: 4,
                reduction: Some(0),
                root: None,
                to: Vec::new(),
                from: Vec::new(),
            };
            communicators.submit(&collective, &progress);
        }
        let counts = || {
            let figures = communicators.figures(&progress, |device| device + 4);
            figures.iter().map(|it| (it.device, it.submitted, it.finished)).collect::<Vec<_>>()
        };
        assert_eq!(counts(), [(5, 3, 0)]);
        progress.set_finished(stream, 2);
        assert_eq!(counts(), [(5, 3, 2)]);
        assert_eq!(communicators.change(&communicator, Change::Destroyed), 0);
        assert!(counts().is_empty());
    }
}
