//! Compiles and runs the C and C++ programs under `tests/` on a toolkit, and tests the toolkit's
//! scripts and commands. `CAIRN_TOOLKIT` names the toolkit (`cargo xtask toolkit` makes one);
//! without it, what needs one is ignored.

use std::path::Path;

use anyhow::Result;
use cairn_tests::{
    abi, checker, checks, commands, headers, ids, operators, pictures, pools, program, ranks,
    records, replays, shell, structure, symbols,
    toolkit::{self, Toolkit},
};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let root = toolkit::root();
    let toolkit = Toolkit::from_env();
    if toolkit.is_none() {
        eprintln!(
            "CAIRN_TOOLKIT is not set: what needs a toolkit is ignored. `cargo xtask test --no-torch` sets it."
        );
    }
    let trials = source_trials(&root).and_then(|mut trials| {
        trials.extend(toolkit_trials(&root, toolkit)?);
        Ok(trials)
    });
    match trials {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit(),
        Err(error) => {
            eprintln!("the programs cannot be listed: {error:#}");
            std::process::exit(1);
        }
    }
}

/// What needs only the repository and a compiler.
fn source_trials(root: &Path) -> Result<Vec<Trial>> {
    let owned_root = root.to_path_buf();
    let mut trials = vec![
        trial("headers::tables", {
            let root = owned_root.clone();
            move || headers::agree_with_tables(&root)
        }),
        trial("headers::facts", {
            let root = owned_root.clone();
            move || headers::agree_with_facts(&root)
        })
        .with_ignored_flag(abi::facts(root).is_none()),
        trial("headers::op_classes_register_nothing", {
            let root = owned_root.clone();
            move || headers::op_classes_register_nothing(&root)
        }),
        trial("operators::declared", {
            let root = owned_root.clone();
            move || operators::are_declared(&root)
        }),
        trial("structure::named_files_exist", {
            let root = owned_root.clone();
            move || structure::named_files_exist(&root)
        }),
        trial("structure::engine_knows_no_c", {
            let root = owned_root.clone();
            move || structure::engine_knows_no_c(&root)
        }),
        trial("ids", {
            let root = owned_root.clone();
            move || ids::check(&root)
        }),
    ];
    for header in headers::all(root)? {
        let root = owned_root.clone();
        let name = format!("headers::{}", header.display());
        trials.push(trial(&name, move || headers::compiles_alone(&root, &header)));
    }
    Ok(trials)
}

/// Collects trials that need the toolkit.
struct ToolkitTrials {
    toolkit: Option<Toolkit>,
    trials: Vec<Trial>,
}

impl ToolkitTrials {
    fn add(&mut self, name: &str, body: impl FnOnce(&Toolkit) -> Result<()> + Send + 'static) {
        self.add_if(true, name, body);
    }

    /// Adds a trial that is ignored without the toolkit, or if it is not `possible`.
    fn add_if(
        &mut self,
        possible: bool,
        name: &str,
        body: impl FnOnce(&Toolkit) -> Result<()> + Send + 'static,
    ) {
        let toolkit = self.toolkit.clone();
        let trial = trial(name, move || body(&toolkit.expect("ignored without a toolkit")));
        self.trials.push(trial.with_ignored_flag(self.toolkit.is_none() || !possible));
    }
}

/// Programs of the suite that run under `cairn check` also when not everything does.
const CHECKED: [&str; 10] = [
    "c::aclnn_add",
    "c::copies_async",
    "c::event",
    "c::mdl_gears",
    "c::mem_pool_streams",
    "c::pool_threads",
    "cpp::ge_control_new_strings",
    "cpp::ge_run_new_strings",
    "cpp::ge_variables_new_strings",
    "cpp::pool_ge_allocator",
];

/// Pools whose verdicts are compared also when not all are.
const POOLS: [&str; 12] = [
    "across_streams",
    "across_streams_acl",
    "bad_advice",
    "cairn_ge",
    "frees_twice",
    "header_in_block",
    "host_memory",
    "misaligned",
    "plain",
    "right",
    "right_acl",
    "stale_size",
];

fn toolkit_trials(root: &Path, toolkit: Option<Toolkit>) -> Result<Vec<Trial>> {
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|value| value == "deep");
    let mut trials = ToolkitTrials { toolkit, trials: Vec::new() };
    for program in program::all(root)? {
        for index in 0..program.environments.len() {
            let name = program.trial(&program.environments[index]);
            let program = program.clone();
            trials.add(&name, {
                let program = program.clone();
                move |toolkit| program.test(toolkit, index)
            });
            if program.is_checked && (is_deep || program.is_example || CHECKED.contains(&&*name)) {
                trials
                    .add(&format!("checked::{name}"), move |toolkit| program.check(toolkit, index));
            }
        }
    }
    for source in checks::all(root)? {
        let name = format!("check::{}", source.file_stem().unwrap_or_default().to_string_lossy());
        trials.add(&name, move |toolkit| checks::reports(toolkit, &source));
    }
    for source in checks::right(root)? {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        trials.add(&format!("check::right::{stem}"), move |toolkit| {
            checks::has_no_findings(toolkit, &source)
        });
    }
    trials.add("checker::options", checker::options);
    trials.add("checker::of_a_record", checker::of_a_record);
    trials.add("checker::while_it_runs", checker::while_it_runs);
    trials.add("checker::short_records", checker::short_records);
    trials.add("checker::killed", checker::killed);
    trials.add("checker::children", checker::children);
    trials.add("checker::closed_descriptors", checker::closed_descriptors);
    trials.add("checker::full", checker::full);
    trials.add("ranks::environment", ranks::environment);
    trials.add("ranks::end_together", ranks::end_together);
    trials.add("ranks::interrupted", ranks::interrupted);
    trials.add("ranks::no_orphans", ranks::no_orphans);
    let has_engine = trials.toolkit.as_ref().is_some_and(|it| ranks::has_engine(&it.dir));
    trials.add_if(has_engine, "ranks::records", ranks::records);
    trials.add_if(has_engine, "ranks::checked", ranks::checked);
    trials.add_if(has_engine, "ranks::shown", ranks::shown);
    for source in pools::all(root)? {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !is_deep && !POOLS.contains(&&*stem) {
            continue;
        }
        let name = format!("pools::{stem}");
        trials.add(&name, move |toolkit| pools::verdicts(toolkit, &source));
    }
    trials.add("pools::own", pools::own);
    trials.add("pools::every_clause_is_broken", pools::every_clause_is_broken);
    trials.add("pools::files_and_errors", pools::files_and_errors);
    for list in symbols::lists(root)? {
        let name = format!("symbols::{}", list.file_stem().unwrap_or_default().to_string_lossy());
        trials.add(&name, move |toolkit| symbols::resolves(toolkit, &list));
    }
    let owned_root = root.to_path_buf();
    trials.add("operators::exported", move |toolkit| operators::are_exported(&owned_root, toolkit));
    trials.add("symbols::names", symbols::names);
    let owned_root = root.to_path_buf();
    trials.add("symbols::graph_engine", move |toolkit| symbols::graph_engine(&owned_root, toolkit));
    trials.add("symbols::pool", symbols::pool);
    for shell in shell::SHELLS {
        let is_installed = shell::is_installed(shell);
        trials.add_if(is_installed, &format!("shell::{shell}"), move |toolkit| {
            shell::set_env(toolkit, shell)
        });
        let name = format!("shell::{shell}_gcc");
        trials.add_if(is_installed, &name, move |toolkit| shell::gcc_line(toolkit, shell));
    }
    trials.add("shell::moved", shell::moved);
    trials.add("shell::kept_path", shell::kept_path);
    trials.add("shell::parts", shell::parts);
    trials.add_if(shell::is_installed("cmake"), "shell::cmake", shell::cmake);
    trials.add("commands::cairn_run", commands::cairn_run);
    trials.add("commands::doctor", commands::doctor);
    trials.add("commands::npu_smi_list", commands::smi_list);
    trials.add("commands::npu_smi_live", commands::smi_live);
    trials.add("commands::atc", commands::atc);
    trials.add("commands::top", commands::top);
    trials.add("pictures::commands", pictures::commands);
    trials.add("pictures::events_and_marks", pictures::events_and_marks);
    trials.add("records::commands", records::commands);
    trials.add("records::killed", records::killed);
    trials.add("records::ended_by_a_signal", records::ended_by_a_signal);
    trials.add("records::children", records::children);
    trials.add("records::closed_descriptors", records::closed_descriptors);
    trials.add("records::full", records::full);
    trials.add("records::stacks", records::stacks);
    trials.add("replays::allocators", replays::allocators);
    trials.add("replays::failures", replays::failures);
    trials.add("replays::diff", replays::diff);
    trials.add("replays::ci", replays::ci);
    Ok(trials.trials)
}

fn trial(name: &str, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || body().map_err(|error| Failed::from(format!("{error:#}"))))
}
