//! Slices of all candidates in turn, round after round, so that noise of the machine hits all of
//! them; the best slice of each is its figure.

use crate::measure::Figure;
use std::time::{Duration, Instant};

/// One candidate in one workload.
pub struct Entry {
    /// The candidate's name.
    pub name: &'static str,
    /// Runs one slice; the result is nanoseconds per operation.
    pub slice: Box<dyn FnMut() -> f64>,
}

/// How long a comparison takes at the least.
#[derive(Clone, Copy)]
pub struct MinimumLength {
    /// Rounds at the least.
    pub rounds: usize,
    /// Time at the least, for all entries together.
    pub time: Duration,
}

/// Runs the entries in turn. The order rotates by one each round, so that none always comes
/// after the same neighbour.
pub fn run(mut entries: Vec<Entry>, length: MinimumLength) -> Vec<(&'static str, Figure)> {
    let mut times = vec![Vec::new(); entries.len()];
    let start = Instant::now();
    let mut round = 0;
    while round < length.rounds || start.elapsed() < length.time {
        for offset in 0..entries.len() {
            let entry = (offset + round) % entries.len();
            let time = (entries[entry].slice)();
            times[entry].push(time);
        }
        round += 1;
    }
    entries.iter().zip(times).map(|(entry, times)| (entry.name, figure(times))).collect()
}

/// The best and the middle of many slices.
pub fn figure(mut times: Vec<f64>) -> Figure {
    times.sort_by(f64::total_cmp);
    Figure { best: times[0], median: times[times.len() / 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_runs_every_round() {
        let (send, runs) = std::sync::mpsc::channel();
        let entry = |name: &'static str, time: f64| {
            let send = send.clone();
            Entry {
                name,
                slice: Box::new(move || {
                    send.send(name).unwrap();
                    time
                }),
            }
        };
        let figures = run(
            vec![entry("a", 2.0), entry("b", 1.0)],
            MinimumLength { rounds: 3, time: Duration::ZERO },
        );
        assert_eq!(runs.try_iter().collect::<String>(), "abbaab");
        assert_eq!(figures[0].0, "a");
        assert_eq!((figures[0].1.best, figures[1].1.best), (2.0, 1.0));
    }
}
