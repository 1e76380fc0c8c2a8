//! `cargo xtask bench`: our figures beside the peers', in one run; JSON under `target/bench/`.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{
    step::{self, announce, cargo},
    target_dir, toolkit,
};

const BENCHES: [&str; 1] = ["runtime"];

/// Runs the named bench, or all.
pub fn run(root: &Path, name: Option<&str>) -> Result<()> {
    if let Some(name) = name
        && !BENCHES.contains(&name)
    {
        bail!("no bench is named {name}: there are {}", BENCHES.join(", "));
    }
    let toolkit = toolkit::assemble(root, &toolkit::default_dir(root))?;
    let out = target_dir(root).join("bench");
    for bench in BENCHES.iter().filter(|b| name.is_none_or(|n| n == **b)) {
        announce(&format!("bench {bench}"));
        let mut command =
            cargo(root, &["run", "--quiet", "--release", "-p", "cairn-benches", "--", bench]);
        step::run(command.env("CAIRN_TOOLKIT", &toolkit).env("CAIRN_BENCH_OUT", &out))?;
        println!("figures in {}", out.join(format!("{bench}.json")).display());
    }
    Ok(())
}
