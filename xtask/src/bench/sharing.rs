//! `cargo xtask bench sharing`: operators in ordinary memory, in expandable segments, and in memory that is exported to other processes.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::modes::{self, Goals, Mode};

const MODES: [Mode; 3] = [
    Mode { name: "ordinary", arguments: &["run"], variables: &[], goals: Goals::NONE },
    Mode {
        name: "expandable",
        arguments: &["run"],
        variables: &[("PYTORCH_NPU_ALLOC_CONF", "expandable_segments:True")],
        goals: Goals::NONE,
    },
    Mode {
        name: "exported",
        arguments: &["run"],
        variables: &[("CAIRN_BENCH_EXPORTED", "1")],
        goals: Goals::NONE,
    },
];

/// Measures, and writes `sharing.json` below `out`.
pub fn measure(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    let rows = modes::measure(root, toolkit, out, &MODES)?;
    let file = out.join("sharing.json");
    fs::write(&file, serde_json::to_string_pretty(&rows)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))
}
