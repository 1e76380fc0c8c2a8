//! The command `atc`: converts models of ONNX and of the graph engine into files that `aclmdl*` loads.
//!
//! `flags.rs` has the table of flags and reads command lines, `settings.rs` checks values, `convert.rs` builds,
//! `show.rs` shows models, `weights.rs` writes weights beside them, `options.rs` has the same under the keys of `aclgrph*`. The work is that of `cairn_graph::offline`.

#![forbid(unsafe_code)]

mod convert;
mod flags;
mod options;
mod settings;
mod show;
mod weights;

use flags::Flags;
pub use options::{build_options, in_build_keys, in_parser_keys, parser_options};
use std::io::Write;
pub use weights::save_model;

/// The status of a process whose conversion failed.
const FAILED: i32 = 255;

/// What is printed then, before the reason.
const RUN_FAILED: &str =
    "ATC run failed, Please check the detail log, Try 'atc --help' for more information";

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The number of the message.
    pub code: &'static str,
    /// A sentence that names flag and value.
    pub text: String,
}

impl Problem {
    fn new(code: &'static str, text: impl Into<String>) -> Problem {
        Problem { code, text: text.into() }
    }
}

/// The number of the level that `--log` of a command line names, for `ASCEND_GLOBAL_LOG_LEVEL`.
pub fn log_level(arguments: &[String]) -> Option<&'static str> {
    match Flags::parse(arguments).ok()?.get("log") {
        "debug" => Some("0"),
        "info" => Some("1"),
        "warning" => Some("2"),
        "error" => Some("3"),
        _ => None,
    }
}

/// Runs a command line without the program's name; gives the status of the process.
pub fn run(arguments: &[String], out: &mut dyn Write, errors: &mut dyn Write) -> i32 {
    let parsed = Flags::parse(arguments);
    if parsed.as_ref().is_ok_and(|flags| flags.is_on("help")) {
        let _ = out.write_all(flags::help().as_bytes());
        return 0;
    }
    let _ = writeln!(out, "ATC start working now, please wait for a moment.");
    let _ = out.flush();
    let flags = match parsed {
        Ok(flags) => flags,
        Err(text) => {
            let _ = writeln!(errors, "ERROR: {text}");
            let _ = writeln!(out, "{RUN_FAILED}");
            return FAILED;
        }
    };
    let mut warnings = Vec::new();
    let outcome = execute(&flags, arguments, out, &mut warnings);
    let status = match outcome {
        Ok(()) => {
            let _ = writeln!(out, "ATC run success, welcome to the next use.");
            0
        }
        Err(Problem { code, text }) => {
            log::error!("atc: {code}: {text}");
            let _ = writeln!(out, "{RUN_FAILED}");
            let _ = writeln!(out, "{code}: {text}");
            FAILED
        }
    };
    for warning in warnings {
        log::warn!("atc: {warning}");
        let _ = writeln!(out, "WARNING: {warning}");
    }
    let _ = out.flush();
    status
}

fn execute(
    flags: &Flags,
    arguments: &[String],
    out: &mut dyn Write,
    warnings: &mut Vec<String>,
) -> Result<(), Problem> {
    settings::check(flags, warnings)?;
    settings::check_empty(flags)?;
    match settings::mode(flags)? {
        settings::Mode::Build => convert::build(flags, arguments, out, warnings),
        settings::Mode::Json => show::write_json(flags),
        settings::Mode::Information => show::print_information(flags, out),
    }
}

#[cfg(test)]
mod tests;
