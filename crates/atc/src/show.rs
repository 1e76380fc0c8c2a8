//! Modes 1 and 6: what is in a model file.

use crate::convert::{create_folder_of, options, origin, read_file, write_file};
use crate::flags::Flags;
use crate::{Problem, settings};
use bytes::Bytes;
use cairn_graph::offline::{Description, Gears, ModelFile, Pieces, Port};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Writes the graph of a model file, or of a model that `--framework` names, as JSON.
pub fn write_json(flags: &Flags) -> Result<(), Problem> {
    let json = settings::required(flags, "json")?;
    let om = settings::required(flags, "om")?;
    let (bytes, folder) = read_file("om", om)?;
    let graph = match flags.get("framework") {
        "" | "-1" => open("om", om, &bytes)?.graph_json(),
        _ => {
            let graph = options(flags)?.read(origin(flags)?, bytes, Some(&folder))?;
            cairn_graph::offline::graph_json(graph)
        }
    };
    let graph = graph.map_err(|text| Problem::new("E10032", format!("--om={om}: {text}")))?;
    let mut text = serde_json::to_string_pretty(&graph)
        .map_err(|error| Problem::new("E10032", format!("--om={om}: {error}")))?;
    text.push('\n');
    let json = Path::new(json);
    create_folder_of("json", json)?;
    write_file("json", json, &Pieces::from(text.into_bytes()))
}

/// Shows what a model file is.
pub fn print_information(flags: &Flags, out: &mut dyn Write) -> Result<(), Problem> {
    let om = settings::required(flags, "om")?;
    let (bytes, _) = read_file("om", om)?;
    print(&bytes, om, out)
}

/// Shows what the bytes of a model file are.
pub fn print(bytes: &Bytes, path: &str, out: &mut dyn Write) -> Result<(), Problem> {
    let file = open("om", path, bytes)?;
    let _ = out.write_all(information(&file).as_bytes());
    Ok(())
}

fn open<'a>(flag: &str, path: &str, bytes: &'a Bytes) -> Result<ModelFile<'a>, Problem> {
    ModelFile::open(bytes)
        .map_err(|failure| Problem::new("E10041", format!("--{flag}={path}: {}", failure.text)))
}

fn information(file: &ModelFile<'_>) -> String {
    let mut text = String::new();
    let attr = |name: &str| file.attr(name).unwrap_or_else(|| "unknown".to_owned());
    let framework = match attr("framework_type").as_str() {
        "1" => "1 (the graph engine)".to_owned(),
        "5" => "5 (ONNX)".to_owned(),
        other => other.to_owned(),
    };
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<18}: {value}");
    };
    line("model name", &file.name());
    line("soc version", &attr("soc_version"));
    line("framework", &framework);
    line("built by", if file.is_ours() { "Cairn, for CPUs" } else { "another toolkit" });
    line("size of graph", &format!("{} bytes", file.graph_bytes()));
    line("size of weights", &format!("{} bytes", file.weight_bytes()));
    line("command line", &attr("atc_cmdline"));
    if let Some(description) = file.description() {
        describe(&description, &mut line);
    }
    format!(
        "============ Display Model Info start ============\n{text}============ Display Model Info end   ============\n"
    )
}

fn describe(description: &Description, line: &mut impl FnMut(&str, &str)) {
    for (kind, ports) in [("input", &description.inputs), ("output", &description.outputs)] {
        for (at, port) in ports.iter().enumerate() {
            line(&format!("{kind} {at}"), &port_text(port, &description.gears));
        }
    }
    let kind = match &description.gears {
        Gears::None => return,
        Gears::Batch(_) => "dynamic batch size",
        Gears::ImageSize(_) => "dynamic image size",
        Gears::Dims(_) => "dynamic dims",
    };
    let gear = |gear: &Vec<i64>| -> String {
        gear.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
    };
    line(kind, &description.gears.values().iter().map(gear).collect::<Vec<_>>().join(";"));
}

/// What is known of an input or output. The sizes of a model with gears are those of the gears, and no ranges.
fn port_text(port: &Port, gears: &Gears) -> String {
    let format = port.format.name().unwrap_or("?");
    let mut text =
        format!("{}: {} {:?} {format}, {} bytes", port.name, port.dtype, port.dims, port.bytes);
    if !port.ranges.is_empty() && *gears == Gears::None {
        let range = |(low, high): &(i64, i64)| match high {
            -1 => format!("{low}~"),
            high if low == high => low.to_string(),
            high => format!("{low}~{high}"),
        };
        let ranges: Vec<String> = port.ranges.iter().map(range).collect();
        let _ = write!(text, ", range [{}]", ranges.join(", "));
    }
    text
}
