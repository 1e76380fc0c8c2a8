//! How engines are measured: all of them in turn, round after round; the best round counts.

use crate::measure::Figure;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Something that has a model loaded and runs it.
pub trait Engine {
    /// One run, from inputs in its memory to the output in its memory.
    fn run(&mut self);

    /// The output of a run.
    fn output(&mut self) -> Vec<f32>;

    /// Nanoseconds of one run.
    fn run_timed(&mut self) -> f64 {
        let start = Instant::now();
        self.run();
        start.elapsed().as_nanos() as f64
    }
}

/// Runs every engine twice to warm up, then once a round, each time after a pause. Figures come in the order of the
/// engines.
pub fn interleave(rounds: usize, pause: Duration, engines: &mut [&mut dyn Engine]) -> Vec<Figure> {
    for engine in engines.iter_mut() {
        engine.run();
        engine.run();
    }
    let mut times = vec![Vec::with_capacity(rounds); engines.len()];
    for _ in 0..rounds {
        for (engine, times) in engines.iter_mut().zip(&mut times) {
            std::thread::sleep(pause);
            times.push(engine.run_timed());
        }
    }
    times.iter_mut().map(|times| figure(times)).collect()
}

/// The best and the middle of some times.
pub fn figure(times: &mut [f64]) -> Figure {
    times.sort_by(f64::total_cmp);
    Figure { best: times[0], median: times[times.len() / 2] }
}

/// Fails if two outputs of a model are not the same but for rounding.
pub fn assert_agree(what: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}: sizes differ");
    let scale = theirs.iter().fold(1.0f32, |most, one| most.max(one.abs()));
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let difference = (a - b).abs();
        assert!(difference <= 1e-3 * scale, "{what}: element {at} is {a}, and {b} elsewhere");
    }
}

/// The lines of the bench: printed as they come, written as JSON at the end. No goal fails anything.
#[derive(Default)]
pub struct ComparisonReport {
    rows: Vec<Value>,
}

impl ComparisonReport {
    /// A heading.
    pub fn heading(&self, text: &str) {
        println!("\n{text}");
    }

    /// Times beside a peer's, in units of `unit` nanoseconds.
    pub fn times(
        &mut self,
        name: &str,
        ours: Figure,
        (peer, theirs): (&str, Figure),
        (unit, unit_name): (f64, &str),
        goal: Option<f64>,
    ) {
        let ratio = ours.best / theirs.best;
        println!(
            "{name:<40} {:>10.3} {unit_name}  {peer} {:>10.3} {unit_name}  {ratio:5.2}x{}",
            ours.best / unit,
            theirs.best / unit,
            verdict(ratio, goal)
        );
        self.rows.push(json!({
            "name": name, "best_ns": ours.best, "median_ns": ours.median, "peer": peer,
            "peer_best_ns": theirs.best, "peer_median_ns": theirs.median, "ratio": ratio, "goal": goal,
        }));
    }

    /// Bytes beside the fewest there can be.
    pub fn bytes(&mut self, name: &str, planned: u64, bound: u64, goal: f64) {
        let ratio = planned as f64 / bound as f64;
        println!(
            "{name:<40} {planned:>10} bytes  lower bound {bound:>10}  {ratio:.4}x{}",
            verdict(ratio, Some(goal))
        );
        self.rows.push(json!({
            "name": name, "planned_bytes": planned, "lower_bound_bytes": bound, "ratio": ratio, "goal": goal,
        }));
    }

    /// Something that is missing.
    pub fn absent(&mut self, what: &str) {
        println!("absent: {what}");
        self.rows.push(json!({"absent": what}));
    }

    /// Writes the figures.
    pub fn write(&self, path: &std::path::Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(&self.rows)? + "\n")
    }
}

fn verdict(ratio: f64, goal: Option<f64>) -> String {
    match goal {
        None => String::new(),
        Some(goal) if ratio <= goal => format!("  goal {goal}: met"),
        Some(goal) => format!("  goal {goal}: not met"),
    }
}
