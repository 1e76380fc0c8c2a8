//! `npu-smi`: devices, memory and processes, in the text that scripts parse.

mod fields;
mod machine;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use machine::Machine;

/// The driver version that the tool and the runtime report.
const VERSION: &str = "25.5.0";

/// Show the devices of this machine.
#[derive(Parser)]
#[command(
    name = "npu-smi",
    arg_required_else_help = true,
    disable_help_subcommand = true,
    disable_version_flag = true
)]
struct Arguments {
    /// Print the version
    #[arg(short, long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Show devices and processes, or one kind of detail with -t
    Info(Query),
}

#[derive(clap::Args)]
struct Query {
    /// List the devices
    #[arg(short, conflicts_with_all = ["mapping", "kind", "npu", "chip"])]
    list: bool,
    /// Show how devices, chips and logical ids belong together
    #[arg(short, conflicts_with_all = ["kind", "npu", "chip"])]
    mapping: bool,
    /// The kind of detail
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<fields::Kind>,
    /// The device
    #[arg(short = 'i', value_name = "ID")]
    npu: Option<usize>,
    /// The chip of the device; there is one, 0
    #[arg(short = 'c', value_name = "CHIP")]
    chip: Option<usize>,
}

/// Answers the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.version {
        println!("npu-smi version: {VERSION}");
        return ExitCode::SUCCESS;
    }
    let Some(Command::Info(query)) = arguments.command else {
        eprintln!("npu-smi: nothing asked; try `npu-smi info`");
        return ExitCode::FAILURE;
    };
    let answer = Machine::read().and_then(|machine| query.answer(&machine));
    match answer {
        Ok(text) => {
            crate::show(&text);
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("npu-smi: {text}");
            ExitCode::FAILURE
        }
    }
}

impl Query {
    fn answer(&self, machine: &Machine) -> Result<String, String> {
        if let Some(chip) = self.chip.filter(|chip| *chip != 0) {
            return Err(format!("there is no chip {chip}: every device has one chip, 0"));
        }
        if let Some(npu) = self.npu.filter(|npu| *npu >= machine.devices.len()) {
            return Err(format!(
                "there is no NPU {npu}: the ids are 0 to {}",
                machine.devices.len() - 1
            ));
        }
        match (self.kind, self.npu) {
            (Some(kind), Some(npu)) => Ok(fields::detail(machine, kind, npu, self.chip.is_some())),
            (Some(kind), None) => Err(format!("-t {} needs a device: add -i ID", kind.name())),
            (None, Some(_)) => Err("-i needs a kind of detail: add -t board".into()),
            (None, None) if self.list => Ok(fields::list(machine)),
            (None, None) if self.mapping => Ok(fields::mapping(machine)),
            (None, None) => Ok(table::render(machine)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(words: &str) -> Result<String, String> {
        let words = std::iter::once("npu-smi").chain(words.split_ascii_whitespace());
        let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
        let Some(Command::Info(query)) = arguments.command else { panic!("no query") };
        query.answer(&Machine::example())
    }

    #[test]
    fn questions_find_their_answers() {
        assert!(answer_to("info").unwrap().contains("Hugepages-Usage"));
        assert!(answer_to("info -l").unwrap().contains("Total Count"));
        assert!(answer_to("info -m").unwrap().contains("Chip Logic ID"));
        assert!(answer_to("info -t board -i 1").unwrap().contains("Chip Count"));
        assert!(answer_to("info -i 1 -c 0 -t board").unwrap().contains("Chip Name"));
        assert!(answer_to("info -t usages -i 0").unwrap().contains("HBM Usage Rate(%)"));
    }

    #[test]
    fn wrong_arguments_are_explained() {
        for (words, text) in [
            ("info -t board -i 2", "no NPU 2: the ids are 0 to 1"),
            ("info -t board -i 0 -c 1", "no chip 1"),
            ("info -t board", "add -i ID"),
            ("info -i 0", "add -t board"),
            ("info -t nonsense -i 0", "nonsense"),
            ("info -i x -t board", "'x'"),
        ] {
            let answer = answer_to(words).unwrap_err();
            assert!(answer.contains(text), "{words}: {answer}");
        }
    }
}
