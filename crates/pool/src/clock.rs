//! How far streams have come: epochs and clocks.

use smallvec::SmallVec;

/// Process-wide number of a stream. The index of a dead stream is reused, its sequence goes on.
pub type StreamIndex = u32;

/// A point in a stream: everything up to and including task `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The stream.
    pub stream: StreamIndex,
    /// The task, counted from 1.
    pub seq: u64,
}

/// How far each stream is known to have come. Small: most clocks know one or two streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    epochs: SmallVec<[Epoch; 2]>,
}

impl Clock {
    /// An empty clock: nothing is known of any stream.
    pub fn new() -> Clock {
        Clock::default()
    }

    /// True if `epoch` is in the past of this clock.
    pub fn covers(&self, epoch: Epoch) -> bool {
        self.get(epoch.stream) >= epoch.seq
    }

    /// How far the stream is known to have come; 0 when nothing is known.
    pub fn get(&self, stream: StreamIndex) -> u64 {
        match self.find(stream) {
            Ok(at) => self.epochs[at].seq,
            Err(_) => 0,
        }
    }

    /// Adds one epoch and everything before it on that stream.
    pub fn raise(&mut self, epoch: Epoch) {
        match self.find(epoch.stream) {
            Ok(at) => self.epochs[at].seq = self.epochs[at].seq.max(epoch.seq),
            Err(at) => self.epochs.insert(at, epoch),
        }
    }

    /// Adds all that the other clock knows.
    pub fn join(&mut self, other: &Clock) {
        for &epoch in &other.epochs {
            self.raise(epoch);
        }
    }

    /// Removes the epochs for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(Epoch) -> bool) {
        self.epochs.retain(|epoch| keep(*epoch));
    }

    /// The epochs, by stream.
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The position of a stream's epoch, or where it would be inserted.
    fn find(&self, stream: StreamIndex) -> Result<usize, usize> {
        self.epochs.binary_search_by_key(&stream, |epoch| epoch.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn clock() -> impl Strategy<Value = Vec<(u32, u64)>> {
        proptest::collection::vec((0u32..6, 1u64..20), 0..8)
    }

    fn build(epochs: &[(u32, u64)]) -> (Clock, BTreeMap<u32, u64>) {
        let (mut clock, mut model) = (Clock::new(), BTreeMap::new());
        for &(stream, seq) in epochs {
            clock.raise(Epoch { stream, seq });
            let latest = model.entry(stream).or_insert(0);
            *latest = seq.max(*latest);
        }
        (clock, model)
    }

    proptest! {
        #[test]
        fn a_clock_is_a_map_of_maxima(a in clock(), b in clock()) {
            let ((mut ca, mut ma), (cb, mb)) = (build(&a), build(&b));
            ca.join(&cb);
            for (&stream, &seq) in &mb {
                let latest = ma.entry(stream).or_insert(0);
                *latest = seq.max(*latest);
            }
            for stream in 0..6 {
                let latest = ma.get(&stream).copied().unwrap_or(0);
                prop_assert_eq!(ca.get(stream), latest);
                for seq in 1..20 {
                    prop_assert_eq!(ca.covers(Epoch { stream, seq }), seq <= latest);
                }
            }
            prop_assert!(ca.epochs().windows(2).all(|w| w[0].stream < w[1].stream));
        }
    }
}
