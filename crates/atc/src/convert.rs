//! Mode 0: a model file from a model of somebody's.

use crate::flags::Flags;
use crate::{Problem, settings, weights};
use bytes::Bytes;
use cairn_graph::offline::{Aipp, ConvertError, ConvertOptions, Origin, Pieces, ShapeOptions};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

impl From<ConvertError> for Problem {
    fn from(ConvertError { code, text }: ConvertError) -> Problem {
        Problem { code, text }
    }
}

/// What `--framework` names, for reading a model.
pub fn origin(flags: &Flags) -> Result<Origin, Problem> {
    match flags.get("framework") {
        "1" => Ok(Origin::GraphEngine),
        "5" => Ok(Origin::Onnx),
        "0" => Err(Problem::new(
            "E10007",
            "--framework=0: models of Caffe are not read here: convert the model to ONNX first",
        )),
        "3" => Err(Problem::new(
            "E10007",
            "--framework=3: models of TensorFlow are not read here: convert the model to ONNX first (tf2onnx)",
        )),
        "" => Err(Problem::new(
            "E10007",
            "--framework is missing: 5 for ONNX, 1 for a model of the graph engine",
        )),
        value => Err(Problem::new(
            "E10007",
            format!("--framework={value}: expected 5 (ONNX) or 1 (a model of the graph engine)"),
        )),
    }
}

/// The texts of a command line that say how a model is built.
pub fn options(flags: &Flags) -> Result<ConvertOptions, Problem> {
    let text = |name: &str| flags.get(name).to_owned();
    Ok(ConvertOptions {
        shapes: ShapeOptions {
            input_shape: text("input_shape"),
            input_shape_range: text("input_shape_range"),
            dynamic_batch_size: text("dynamic_batch_size"),
            dynamic_image_size: text("dynamic_image_size"),
            dynamic_dims: text("dynamic_dims"),
        },
        input_format: text("input_format"),
        out_nodes: text("out_nodes"),
        output_type: text("output_type"),
        insert_op_conf: text("insert_op_conf"),
        aipp: aipp(flags)?,
        ..ConvertOptions::default()
    })
}

/// What the file of `--insert_op_conf` says.
fn aipp(flags: &Flags) -> Result<Aipp, Problem> {
    let path = flags.get("insert_op_conf");
    if path.is_empty() {
        return Ok(Aipp::default());
    }
    let wrong = |reason: &dyn std::fmt::Display| {
        Problem::new("E10001", format!("--insert_op_conf={path}: {reason}"))
    };
    let (bytes, _) = read_file("insert_op_conf", path)?;
    let text =
        String::from_utf8(bytes.to_vec()).map_err(|_| wrong(&"the file is no text in UTF-8"))?;
    Aipp::parse(&text).map_err(|error| wrong(&error))
}

/// The bytes of the file that a flag names, and the folder it is in.
pub fn read_file(flag: &str, path: &str) -> Result<(Bytes, PathBuf), Problem> {
    let wrong = |error: std::io::Error| Problem::new("E13000", format!("--{flag}={path}: {error}"));
    let path = Path::new(path);
    if path.is_dir() {
        return Err(wrong(std::io::ErrorKind::IsADirectory.into()));
    }
    let bytes = cairn_graph::open_file(path).map_err(wrong)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((bytes, folder.unwrap_or(Path::new(".")).to_owned()))
}

/// Builds the model that the flags name, and writes its file.
pub fn build(
    flags: &Flags,
    arguments: &[String],
    out: &mut dyn Write,
    warnings: &mut Vec<String>,
) -> Result<(), Problem> {
    let path = settings::required(flags, "model")?;
    let origin = origin(flags)?;
    let file = output_file(settings::required(flags, "output")?)?;
    let soc = settings::soc_version(flags)?;
    if !flags.get("weight").is_empty() {
        warnings.push(format!(
            "--weight={} has no effect: it is for models of Caffe",
            flags.get("weight")
        ));
    }
    let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
    let attrs = vec![
        ("soc_version", soc.to_owned()),
        ("framework_type", flags.get("framework").to_owned()),
        ("atc_cmdline", format!("atc {}", arguments.join(" "))),
    ];
    let mut options = ConvertOptions { name: name.unwrap_or_default(), attrs, ..options(flags)? };
    if options.input_format.is_empty() && origin == Origin::Onnx {
        let has_any_sizes = !options.shapes.dynamic_dims.is_empty();
        options.input_format = if has_any_sizes { "ND" } else { "NCHW" }.to_owned();
    }
    let mut step = || {
        let _ = out.write_all(b".").and_then(|()| out.flush());
    };
    log::info!("atc: {path}: computed in the model's own types, whatever precision is asked for");
    let placement = weights::placement(flags.get("external_weight"), &options.name);
    let mut convert = || -> Result<_, Problem> {
        let (bytes, folder) = read_file("model", path)?;
        step();
        let graph = options.read(origin, bytes, Some(&folder))?;
        step();
        let model = options.build(graph)?;
        step();
        Ok(model.into_file(&placement))
    };
    let converted = convert();
    let _ = writeln!(out);
    let (content, weights) = converted?;
    create_folder_of("output", &file)?;
    weights::write("output", &file, &weights)?;
    write_file("output", &file, &content)?;
    if flags.get("display_model_info") == "1" {
        let path = file.to_string_lossy();
        crate::show::print(&read_file("output", &path)?.0, &path, out)?;
    }
    Ok(())
}

/// The file of the model: the path of `--output` with `.om` after it.
fn output_file(path: &str) -> Result<PathBuf, Problem> {
    let is_folder = path.ends_with('/') || Path::new(path).is_dir();
    match is_folder {
        true => Err(Problem::new(
            "E10021",
            format!("--output={path}: expected the path of a file without '.om', not a folder"),
        )),
        false => Ok(PathBuf::from(format!("{path}.om"))),
    }
}

fn unwritable(flag: &str, path: &Path, error: &std::io::Error) -> Problem {
    Problem::new("E13001", format!("--{flag}: {}: {error}", path.display()))
}

/// Creates the folder of a file, and those that it is in.
pub fn create_folder_of(flag: &str, file: &Path) -> Result<(), Problem> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        None => Ok(()),
        Some(folder) => fs::create_dir_all(folder).map_err(|error| unwritable(flag, file, &error)),
    }
}

/// Writes a file beside its old version and renames it, so that a failure leaves no half of it.
pub fn write_file(flag: &str, path: &Path, content: &Pieces) -> Result<(), Problem> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let write = || content.write_to(&mut fs::File::create(&fresh)?);
    let written = write().and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written.map_err(|error| unwritable(flag, path, &error))
}
