//! How figures are taken: many short batches, so that a noisy machine leaves some of them alone. The
//! best batch is the figure, the median stands beside it.

use serde_json::{Value, json};
use std::time::Instant;

/// Nanoseconds per operation over many batches.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The best batch.
    pub best: f64,
    /// The batch in the middle.
    pub median: f64,
}

/// Times `batches` runs of `batch`, which does `operations` operations. `before` is called before each and not timed.
pub fn time_batches(
    batches: usize,
    operations: usize,
    mut before: impl FnMut(),
    mut batch: impl FnMut(),
) -> Figure {
    let mut times: Vec<f64> = (0..batches)
        .map(|_| {
            before();
            let start = Instant::now();
            batch();
            start.elapsed().as_nanos() as f64 / operations as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Figure { best: times[0], median: times[times.len() / 2] }
}

/// The lines of one bench: printed as they come, written as JSON at the end.
pub struct Report {
    rows: Vec<Value>,
}

impl Report {
    /// An empty report with its heading printed.
    pub fn new() -> Report {
        println!("{:<46} {:>12} {:>12}  compared with", "", "best", "median");
        Report { rows: Vec::new() }
    }

    /// A figure alone, with its goal.
    pub fn single(&mut self, name: &str, ours: Figure, goal: &str) {
        println!("{name:<46} {:>12} {:>12}  goal: {goal}", time(ours.best), time(ours.median));
        self.rows.push(
            json!({"name": name, "best_ns": ours.best, "median_ns": ours.median, "goal": goal}),
        );
    }

    /// A figure beside its peer from the same run; the ratio is ours over the peer's time.
    pub fn compare(&mut self, name: &str, ours: Figure, peer: &str, theirs: Figure, goal: &str) {
        let ratio = ours.best / theirs.best;
        println!(
            "{name:<46} {:>12} {:>12}  {peer} {}: {ratio:.2}x the time{}",
            time(ours.best),
            time(ours.median),
            time(theirs.best),
            if goal.is_empty() { String::new() } else { format!("  (goal: {goal})") },
        );
        self.rows.push(json!({
            "name": name, "best_ns": ours.best, "median_ns": ours.median, "goal": goal,
            "peer": peer, "peer_best_ns": theirs.best, "peer_median_ns": theirs.median, "ratio": ratio,
        }));
    }

    /// A figure that is no time, such as bytes.
    pub fn number(&mut self, name: &str, value: f64, unit: &str) {
        println!("{name:<46} {value:>12.1} {unit}");
        self.rows.push(json!({"name": name, "value": value, "unit": unit}));
    }

    /// Writes the figures.
    pub fn write(&self, path: &std::path::Path) -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(&self.rows)? + "\n")
    }
}

fn time(ns: f64) -> String {
    match ns {
        n if n < 1e4 => format!("{n:.1} ns"),
        n if n < 1e7 => format!("{:.1} us", n / 1e3),
        n => format!("{:.2} ms", n / 1e6),
    }
}
