//! `cargo xtask bench comm`: collectives of PyTorch on `hccl` beside the same on its own `gloo`, in the same processes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    step::{announce, run},
    venv,
};

/// What is measured with a number of ranks.
struct Plan {
    ranks: usize,
    /// Further arguments of `comm.py`.
    arguments: &'static [&'static str],
}

const PLANS: [Plan; 3] = [
    Plan { ranks: 2, arguments: &["--steps-of", "12"] },
    Plan { ranks: 4, arguments: &["--steps-of", "2"] },
    Plan { ranks: 8, arguments: &["--few"] },
];

/// The greatest ratios to gloo that count as met: of a collective, and of a step of training.
const COLLECTIVE_GOAL: f64 = 0.7;
const STEP_GOAL: f64 = 1.0;

/// Measures with each number of ranks, prints which goals are met and writes `comm.json` below `out`.
pub fn measure(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    let python = venv::ensure(root)?;
    let folder = out.join("comm");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut reports = Vec::new();
    for plan in &PLANS {
        announce(&format!("collectives, {} ranks", plan.ranks));
        let file = folder.join(format!("{}.json", plan.ranks));
        let mut command = Command::new(toolkit.join("bin/cairn"));
        command.args(["run", "--"]).arg(&python).args(["-m", "torch.distributed.run"]);
        command.args(["--standalone", "--nproc-per-node", &plan.ranks.to_string()]);
        command.arg(root.join("benches/comm/comm.py")).arg("--out").arg(&file);
        command.args(plan.arguments).stdin(Stdio::null());
        command.env("CAIRN_DEVICES", plan.ranks.to_string());
        command.env("CAIRN_WORKERS", "1").env("OMP_NUM_THREADS", "1");
        // A thread of torch_npu's own spins beside its queue, on a core that all ranks want.
        command.env("TASK_QUEUE_ENABLE", "0");
        run(&mut command)?;
        let text = fs::read_to_string(&file)
            .with_context(|| format!("comm.py wrote no {}", file.display()))?;
        reports.push(serde_json::from_str::<Value>(&text)?);
    }
    summarise(&reports);
    fs::write(out.join("comm.json"), serde_json::to_string_pretty(&reports)?)?;
    Ok(())
}

/// Prints how many rows meet their goals, and those that do not.
fn summarise(reports: &[Value]) {
    let (mut met, mut missed) = (0, Vec::new());
    for report in reports {
        let ranks = report["ranks"].as_u64().unwrap_or_default();
        for row in report["rows"].as_array().into_iter().flatten() {
            let (name, ratio) = (row["name"].as_str().unwrap_or_default(), number(&row["ratio"]));
            let size = row["bytes"].as_u64();
            let goal = if size.is_some() { COLLECTIVE_GOAL } else { STEP_GOAL };
            if ratio <= goal {
                met += 1;
            } else {
                let size = size.map_or_else(String::new, |size| format!(" of {size} bytes"));
                missed.push(format!("{name}{size} on {ranks} ranks: {ratio:.2}x (goal {goal})"));
            }
        }
    }
    println!("{met} rows meet their goals, {} do not", missed.len());
    for line in missed {
        println!("  {line}");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}
