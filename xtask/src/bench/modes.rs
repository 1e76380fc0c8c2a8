//! The same PyTorch operators (`benches/ops/modes.py`) in several ways of running them, in turns.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{step::announce, venv};

/// Microseconds of each row.
type Times = BTreeMap<String, f64>;

/// The row of a tiny operator.
const TINY: &str = "tiny x + y";

/// Rounds: in each, every mode runs once, so that noise meets all of them.
const ROUNDS: usize = 3;

/// One way to run a program. The first of a list is what the others are compared with.
pub struct Mode {
    pub name: &'static str,
    /// What `cairn` is told before the program; `RECORD` stands for the path of a record.
    pub arguments: &'static [&'static str],
    pub variables: &'static [(&'static str, &'static str)],
    /// What it may cost, by the first mode.
    pub goals: Goals,
}

/// The argument that stands for the path of a record.
pub const RECORD: &str = "RECORD";

/// What a mode may cost.
pub struct Goals {
    pub ordinary: Option<f64>,
    pub tiny: Option<f64>,
    /// Of this row alone.
    pub row: Option<(&'static str, f64)>,
}

impl Goals {
    pub const NONE: Goals = Goals { ordinary: None, tiny: None, row: None };

    fn of(&self, row: &str) -> Option<f64> {
        match self.row {
            Some((name, goal)) if name == row => Some(goal),
            _ if row == TINY => self.tiny,
            _ => self.ordinary,
        }
    }
}

/// Measures all of them; the figures as rows of JSON.
pub fn measure(root: &Path, toolkit: &Path, out: &Path, modes: &[Mode]) -> Result<Vec<Value>> {
    let program = Program {
        cairn: toolkit.join("bin/cairn"),
        python: venv::ensure(root)?,
        script: root.join("benches/ops/modes.py"),
        record: out.join("ops.cairn"),
    };
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut best: Vec<Times> = vec![Times::new(); modes.len()];
    for round in 1..=ROUNDS {
        announce(&format!("operators in {} ways, round {round} of {ROUNDS}", modes.len()));
        for (mode, best) in modes.iter().zip(&mut best) {
            for (row, time) in program.run(mode)? {
                let known = best.entry(row).or_insert(f64::INFINITY);
                *known = known.min(time);
            }
        }
    }
    Ok(print(modes, &best))
}

struct Program {
    cairn: PathBuf,
    python: PathBuf,
    script: PathBuf,
    record: PathBuf,
}

impl Program {
    /// One process.
    fn run(&self, mode: &Mode) -> Result<Times> {
        let mut command = Command::new(&self.cairn);
        for argument in mode.arguments {
            match *argument {
                RECORD => command.arg(&self.record),
                argument => command.arg(argument),
            };
        }
        command.arg("--").arg(&self.python).arg(&self.script);
        // A queue's own thread would spin beside what is measured, on a core that it wants.
        command.env("CAIRN_WORKERS", "1").env("TASK_QUEUE_ENABLE", "0");
        command.envs(mode.variables.iter().copied());
        let output = command.output().context("cannot start python")?;
        let _ = fs::remove_file(&self.record);
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("{}: {text}{}", mode.name, String::from_utf8_lossy(&output.stderr));
        }
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("modes.py printed {text}"))
    }
}

/// Prints ratios to the times of the first mode; the same as rows of JSON.
fn print(modes: &[Mode], best: &[Times]) -> Vec<Value> {
    print!("{:34}", "");
    modes.iter().for_each(|mode| print!(" {:>12}", mode.name));
    println!();
    let mut rows = Vec::new();
    for (row, first) in &best[0] {
        let ratios: Vec<f64> = best.iter().map(|times| times[row] / first).collect();
        print!("{row:34} {first:9.1} us");
        ratios[1..].iter().for_each(|ratio| print!(" {ratio:11.2}x"));
        println!();
        for (mode, ratio) in modes.iter().zip(&ratios).skip(1) {
            let goal = mode.goals.of(row);
            if let Some(goal) = goal.filter(|goal| ratio > goal) {
                println!("  {}: {ratio:.2}x, and the goal is {goal}x", mode.name);
            }
            let name = format!("{row}, {}", mode.name);
            rows.push(json!({"name": name, "off_us": first, "ratio": ratio, "goal": goal}));
        }
    }
    rows
}
