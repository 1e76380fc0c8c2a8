//! Values of flags, checked before any work.

use crate::Problem;
use crate::flags::{Effect, Flag, Flags, Values};

/// What the command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Builds a model.
    Build,
    /// Writes a model as JSON.
    Json,
    /// Shows what a model file is.
    Information,
}

/// Checks every flag that was set; what has no effect is named in a warning.
pub fn check(flags: &Flags, warnings: &mut Vec<String>) -> Result<(), Problem> {
    for (flag, value) in flags.set().filter(|(_, value)| !value.is_empty()) {
        check_value(flag, value)?;
        let name = flag.name;
        match flag.effect {
            Effect::Full => {}
            Effect::Refused(reason) => {
                return Err(Problem::new("E10001", format!("--{name}={value}: {reason}")));
            }
            Effect::None => {
                warnings.push(format!("--{name}={value} has no effect: there is no NPU to tune"));
            }
            Effect::Precision => warnings.push(format!(
                "--{name}={value} has no effect: the model is computed in its own types"
            )),
        }
    }
    if !flags.get("precision_mode").is_empty() && !flags.get("precision_mode_v2").is_empty() {
        return Err(Problem::new(
            "E10009",
            "--precision_mode and --precision_mode_v2 exclude each other",
        ));
    }
    check_formats(flags)
}

/// Gears of any sizes are for inputs without a format, those of images for images.
fn check_formats(flags: &Flags) -> Result<(), Problem> {
    let format = flags.get("input_format");
    let expected = [("dynamic_dims", &["ND"][..]), ("dynamic_image_size", &["NCHW", "NHWC"])];
    for (gears, formats) in expected {
        let value = flags.get(gears);
        if !value.is_empty() && !format.is_empty() && !formats.contains(&format) {
            let (one, text) = (formats.join(" or "), format!("--{gears}={value}"));
            return Err(Problem::new(
                "E10001",
                format!("--input_format={format}: expected {one} with {text}"),
            ));
        }
    }
    Ok(())
}

/// Refuses flags whose value is empty on the command line.
pub fn check_empty(flags: &Flags) -> Result<(), Problem> {
    const SIZES: [&str; 5] = [
        "input_shape",
        "input_shape_range",
        "dynamic_batch_size",
        "dynamic_image_size",
        "dynamic_dims",
    ];
    match flags.set().find(|(flag, value)| value.is_empty() && SIZES.contains(&flag.name)) {
        Some((flag, _)) => {
            Err(Problem::new("E10004", format!("--{}= is empty: expected sizes", flag.name)))
        }
        None => Ok(()),
    }
}

fn check_value(flag: &Flag, value: &str) -> Result<(), Problem> {
    let wrong = |code, expected: &str| {
        Err(Problem::new(code, format!("--{}={value}: expected {expected}", flag.name)))
    };
    match flag.values {
        Values::Text => Ok(()),
        Values::Number if value.parse::<i64>().is_ok() => Ok(()),
        Values::Number => wrong("E10003", "a whole number"),
        Values::Bit if matches!(value, "0" | "1") => Ok(()),
        Values::Bit => wrong("E10006", "0 or 1"),
        Values::Truth if matches!(value, "true" | "false") => Ok(()),
        Values::Truth => wrong("E10005", "true or false"),
        Values::Switch if matches!(value, "true" | "false" | "1" | "0") => Ok(()),
        Values::Switch => wrong("E10005", "true or false"),
        Values::OneOf(values) if values.contains(&value) => Ok(()),
        Values::OneOf(values) => {
            let code = if flag.name == "log" { "E10010" } else { "E10001" };
            wrong(code, &values.join(", "))
        }
    }
}

/// The mode.
pub fn mode(flags: &Flags) -> Result<Mode, Problem> {
    let not_here = |what: &str| {
        Err(Problem::new(
            "E10001",
            format!("--mode={}: {what} is not supported", flags.get("mode")),
        ))
    };
    match flags.get("mode") {
        "" | "0" => Ok(Mode::Build),
        "1" => Ok(Mode::Json),
        "6" => Ok(Mode::Information),
        "3" => not_here("checking a model without building it"),
        "5" => not_here("turning the text of a dumped graph into JSON"),
        "7" => not_here("writing an archive (om2)"),
        "30" => not_here("building for another product (exeom)"),
        value => Err(Problem::new("E10001", format!("--mode={value}: expected 0, 1 or 6"))),
    }
}

/// The value of a flag that must be set.
pub fn required<'a>(flags: &'a Flags, name: &str) -> Result<&'a str, Problem> {
    let code = if name == "soc_version" { "E10054" } else { "E10004" };
    match flags.get(name) {
        "" => Err(Problem::new(code, format!("--{name} is missing"))),
        value => Ok(value),
    }
}

/// The name of the chip: any that Ascend has; it decides nothing about the model.
pub fn soc_version(flags: &Flags) -> Result<&str, Problem> {
    let name = required(flags, "soc_version")?;
    let is_name = |rest: &str| {
        rest.starts_with(|first: char| first.is_ascii_digit())
            && rest.chars().all(|one| one.is_ascii_alphanumeric() || one == '_' || one == '-')
    };
    match name.strip_prefix("Ascend").is_some_and(is_name) {
        true => Ok(name),
        false => Err(Problem::new(
            "E10001",
            format!(
                "--soc_version={name}: expected a name as Ascend310P3; `npu-smi info` shows one"
            ),
        )),
    }
}
