//! The engine over Gloo, on both transports, with ranks as threads and as processes. `CAIRN_TOOLKIT` names the toolkit with the library; without
//! it there are no tests here (`cargo xtask test` sets it), and on one without Gloo they are ignored.

mod cases;
mod ranks;
mod store;

use cairn_comm::engine::gloo::Gloo;
use libtest_mimic::{Arguments, Trial};
use ranks::{Ranks, Run, Wire};
use std::path::PathBuf;

/// The folder of the libraries, if the engine is there.
fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("CAIRN_TOOLKIT")?).join("lib64");
    folder.join("comm/libcairn_comm.so").is_file().then_some(folder)
}

fn main() {
    let arguments = Arguments::from_args();
    let folder = folder();
    if let (Some(folder), Some(child)) = (&folder, ranks::Child::from_env()) {
        return child.run(&Gloo::open(folder).expect("the engine opens"));
    }
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|value| value == "deep");
    let mut trials = Vec::new();
    let has_toolkit = std::env::var_os("CAIRN_TOOLKIT").is_some();
    if !has_toolkit {
        eprintln!("CAIRN_TOOLKIT is not set: the engine is not tested");
    }
    for case in cases::ALL.iter().filter(|_| has_toolkit) {
        for wire in [Wire::Shared, Wire::Tcp] {
            for run in [Run::Threads, Run::Processes] {
                if !case.on.contains(&run) {
                    continue;
                }
                let (name, folder) = (format!("{}::{wire:?}::{run:?}", case.name), folder.clone());
                let ranks = Ranks { case, wire, run, is_deep };
                let trial = Trial::test(name.to_lowercase(), move || {
                    let folder = folder.ok_or("there is no engine")?;
                    let engine = Gloo::open(&folder).map_err(|error| error.to_string())?;
                    ranks.run(&engine).map_err(Into::into)
                });
                trials.push(trial.with_ignored_flag(self::folder().is_none()));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
