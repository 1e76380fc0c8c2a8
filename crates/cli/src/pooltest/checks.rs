//! In the child: a workload for each clause. One that finds nothing wrong returns notes; an error says what is wrong.

mod breach;
mod devices;
mod ledger;
mod numbers;
mod shortage;
mod single;
mod streams;
mod threads;

use std::{fs, path::Path};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::clause::{EXIT, LOAD};
use crate::bench::{pool::Bench, spec::AllocatorSpec};
use breach::Breach;

/// What a workload is given.
struct Case<'a> {
    bench: Bench,
    seed: u64,
    result: &'a Path,
}

impl Case<'_> {
    /// What comes now is another clause's matter: that one is broken if the process does not come out of it.
    fn enter_stage(&self, clause: &str) {
        self.enter_stage_with(clause, None);
    }

    /// The same with what to do then, where the clause's own lesson does not fit.
    fn enter_stage_with(&self, clause: &str, lesson: Option<&str>) {
        let _ = fs::write(self.result, json!({"stage": clause, "lesson": lesson}).to_string());
    }

    /// Over.
    fn leave_stage(&self) {
        let _ = fs::remove_file(self.result);
    }
}

/// Remarks that break nothing.
type Notes = Vec<String>;

/// Runs the workload of a clause. Until it is done, the file of the result has its stage.
pub fn perform(spec: &AllocatorSpec, clause: &str, seed: u64, result: &Path) -> Result<Value> {
    let check: fn(&Case<'_>) -> Result<Notes> = match clause {
        LOAD => single::load,
        "sizes" => single::sizes,
        "zero" => single::zero,
        "alignment" => single::alignment,
        "overlap" => single::overlap,
        "contents" => single::contents,
        "host-access" => single::host_access,
        "advise" => single::advise,
        "random" => single::random,
        EXIT => single::exit,
        "devices" => devices::devices,
        "threads" => threads::threads,
        "streams" => streams::streams,
        "torch-queue" => streams::torch_queue,
        "pending" => streams::pending,
        "give-back" => shortage::give_back,
        "frees-once" => shortage::frees_once,
        "out-of-memory" => shortage::out_of_memory,
        "recovery" => shortage::recovery,
        "faults" => shortage::faults,
        _ => bail!("there is no clause `{clause}`"),
    };
    let outcome = Bench::open(spec).and_then(|bench| check(&Case { bench, seed, result }));
    Ok(match outcome {
        Ok(notes) => json!({"notes": notes}),
        Err(error) => {
            let breach = error.downcast_ref::<Breach>();
            let (of, lesson) = (breach.map(|one| one.clause), breach.and_then(|one| one.lesson));
            json!({"broken": format!("{error:#}"), "of": of, "lesson": lesson})
        }
    })
}
