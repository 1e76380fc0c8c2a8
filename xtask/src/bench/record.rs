//! `cargo xtask bench record`, the part with PyTorch: operators as always, recorded, recorded with stacks, and checked.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use super::modes::{self, Goals, Mode, RECORD};

const MODES: [Mode; 4] = [
    Mode { name: "off", arguments: &["run"], variables: &[], goals: Goals::NONE },
    Mode {
        name: "recorded",
        arguments: &["record", "-o", RECORD],
        variables: &[],
        goals: Goals {
            ordinary: None,
            tiny: None,
            row: Some(("transformer block, sequence 128", 1.05)),
        },
    },
    Mode {
        name: "with stacks",
        arguments: &["record", "--stacks", "-o", RECORD],
        variables: &[],
        goals: Goals::NONE,
    },
    Mode {
        name: "checked",
        arguments: &["check"],
        variables: &[],
        goals: Goals { ordinary: Some(3.0), tiny: Some(10.0), row: None },
    },
];

/// Measures, and adds the figures to `record.json` below `out`.
pub fn measure(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    let file = out.join("record.json");
    let mut figures: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    let rows = modes::measure(root, toolkit, out, &MODES)?;
    figures.as_array_mut().context("record.json is a list")?.extend(rows);
    fs::write(&file, serde_json::to_string_pretty(&figures)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))
}
