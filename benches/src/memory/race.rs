//! Slices of all candidates in turn, round after round, so that noise of the machine hits all of
//! them; the best slice of each is its figure.

use crate::measure::Figure;
use std::time::{Duration, Instant};

/// One candidate in one workload.
pub struct Lane {
    /// Whose.
    pub name: &'static str,
    /// Runs one slice; the result is nanoseconds per operation.
    pub slice: Box<dyn FnMut() -> f64>,
}

/// How long a race goes on.
#[derive(Clone, Copy)]
pub struct Length {
    /// Rounds at the least.
    pub rounds: usize,
    /// Time at the least, for all lanes together.
    pub time: Duration,
}

/// Runs the lanes against each other. The order turns by one each round, so that nobody always comes
/// after the same neighbour.
pub fn run(mut lanes: Vec<Lane>, length: Length) -> Vec<(&'static str, Figure)> {
    let mut times = vec![Vec::new(); lanes.len()];
    let start = Instant::now();
    let mut round = 0;
    while round < length.rounds || start.elapsed() < length.time {
        for turn in 0..lanes.len() {
            let lane = (turn + round) % lanes.len();
            let time = (lanes[lane].slice)();
            times[lane].push(time);
        }
        round += 1;
    }
    lanes.iter().zip(times).map(|(lane, times)| (lane.name, figure(times))).collect()
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
    fn every_lane_runs_every_round() {
        let (send, runs) = std::sync::mpsc::channel();
        let lane = |name: &'static str, time: f64| {
            let send = send.clone();
            Lane {
                name,
                slice: Box::new(move || {
                    send.send(name).unwrap();
                    time
                }),
            }
        };
        let figures =
            run(vec![lane("a", 2.0), lane("b", 1.0)], Length { rounds: 3, time: Duration::ZERO });
        assert_eq!(runs.try_iter().collect::<String>(), "abbaab");
        assert_eq!(figures[0].0, "a");
        assert_eq!((figures[0].1.best, figures[1].1.best), (2.0, 1.0));
    }
}
