//! `cargo xtask bench record`, the part with PyTorch: operators as always, recorded, recorded with stacks, and checked.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{step::announce, venv};

/// Microseconds of each row.
type Times = BTreeMap<String, f64>;

/// How a program is run: the arguments of `cairn` before the program, and what it may cost: on ordinary operators, and on tiny ones.
struct Mode {
    name: &'static str,
    arguments: &'static [&'static str],
    goals: Option<(f64, f64)>,
}

const MODES: [Mode; 4] = [
    Mode { name: "off", arguments: &["run"], goals: None },
    Mode { name: "recorded", arguments: &["record", "-o"], goals: None },
    Mode { name: "with stacks", arguments: &["record", "--stacks", "-o"], goals: None },
    Mode { name: "checked", arguments: &["check"], goals: Some((3.0, 10.0)) },
];

/// Rounds: in each, every mode runs once, so that noise meets all of them.
const ROUNDS: usize = 3;

/// The row whose goal is 5 % when it is recorded.
const BLOCK: &str = "transformer block, sequence 128";

/// The row of a tiny operator.
const TINY: &str = "tiny x + y";

/// Measures, and adds the figures to `record.json` below `out`.
pub fn measure(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    let python = venv::ensure(root)?;
    let mut best: Vec<Times> = vec![Times::new(); MODES.len()];
    for round in 1..=ROUNDS {
        announce(&format!("operators in four ways, round {round} of {ROUNDS}"));
        for (mode, best) in MODES.iter().zip(&mut best) {
            for (row, time) in run(root, toolkit, &python, mode, out)? {
                let known = best.entry(row).or_insert(f64::INFINITY);
                *known = known.min(time);
            }
        }
    }
    let file = out.join("record.json");
    let mut figures: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let rows = print(&best);
    figures.as_array_mut().context("record.json is a list")?.extend(rows);
    fs::write(&file, serde_json::to_string_pretty(&figures)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))
}

/// One process.
fn run(root: &Path, toolkit: &Path, python: &Path, mode: &Mode, out: &Path) -> Result<Times> {
    let record = out.join("ops.cairn");
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(mode.arguments);
    if mode.arguments.contains(&"record") {
        command.arg(&record);
    }
    command.arg("--").arg(python).arg(root.join("benches/ops/modes.py"));
    // A queue's own thread would spin beside the checker, on a core that it wants.
    command.env("CAIRN_WORKERS", "1").env("TASK_QUEUE_ENABLE", "0");
    let output = command.output().context("cannot start python")?;
    let _ = fs::remove_file(&record);
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{}: {text}{}", mode.name, String::from_utf8_lossy(&output.stderr));
    }
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).with_context(|| format!("modes.py printed {text}"))
}

/// Prints ratios to the time without any of it; the same as rows of JSON.
fn print(best: &[Times]) -> Vec<Value> {
    println!(
        "{:34} {:>12} {:>12} {:>12} {:>12}",
        "", MODES[0].name, "recorded", "with stacks", "checked"
    );
    let mut rows = Vec::new();
    for (row, off) in &best[0] {
        let ratios: Vec<f64> = best.iter().map(|times| times[row] / off).collect();
        print!("{row:34} {off:9.1} us");
        ratios[1..].iter().for_each(|ratio| print!(" {ratio:11.2}x"));
        println!();
        for (mode, ratio) in MODES.iter().zip(&ratios).skip(1) {
            let goal = match (mode.name, mode.goals) {
                ("recorded", _) if row == BLOCK => Some(1.05),
                (_, Some((_, tiny))) if row == TINY => Some(tiny),
                (_, Some((ordinary, _))) => Some(ordinary),
                _ => None,
            };
            if let Some(goal) = goal.filter(|goal| ratio > goal) {
                println!("  {}: {ratio:.2}x, and the goal is {goal}x", mode.name);
            }
            let name = format!("{row}, {}", mode.name);
            rows.push(json!({"name": name, "off_us": off, "ratio": ratio, "goal": goal}));
        }
    }
    rows
}
