//! One engine with one model, in a process of its own: answers each line of its input with a number.

use super::onnxruntime::Session;
use super::ours::LoadedModel;
use serde_json::Value;
use std::io::{BufRead, Error, Result, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A tensor of a model, with its numbers in a file.
pub struct Tensor {
    pub name: String,
    pub is_float: bool,
    pub dims: Vec<i64>,
    pub bytes: Vec<u8>,
}

/// A model: its file, its inputs, and its outputs as PyTorch computes them.
pub struct Model {
    pub file: PathBuf,
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
}

impl Model {
    fn read(folder: &Path, name: &str) -> Result<Model> {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json")))?;
        let described: Value = serde_json::from_str(&text)?;
        let tensors = |kind: &str| -> Result<Vec<Tensor>> {
            let list = described[kind].as_array().cloned().unwrap_or_default();
            (list.iter())
                .map(|one| {
                    let key = one["name"].as_str().unwrap_or_default();
                    let dims = one["dims"].as_array().cloned().unwrap_or_default();
                    Ok(Tensor {
                        name: key.to_owned(),
                        is_float: one["type"].as_str().is_none_or(|name| name == "float32"),
                        dims: dims.iter().filter_map(Value::as_i64).collect(),
                        bytes: std::fs::read(folder.join(format!("{name}.{key}.bin")))?,
                    })
                })
                .collect()
        };
        let file = folder.join(format!("{name}.onnx"));
        Ok(Model { file, inputs: tensors("inputs")?, outputs: tensors("outputs")? })
    }

    /// The largest difference of an output to what is expected, by the largest number of that.
    fn error(&self, outputs: &[Vec<u8>]) -> f32 {
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            let words = bytes.chunks_exact(4);
            words.map(|one| f32::from_le_bytes(one.try_into().expect("four bytes"))).collect()
        };
        let mut worst = 0.0f32;
        for (output, expected) in outputs.iter().zip(&self.outputs) {
            let (output, expected) = (numbers(output), numbers(&expected.bytes));
            assert_eq!(output.len(), expected.len(), "as many numbers as expected");
            let scale = expected.iter().fold(1.0f32, |most, one| most.max(one.abs()));
            for (one, other) in output.iter().zip(&expected) {
                let error = (one - other).abs() / scale;
                worst = if error.is_nan() { f32::NAN } else { worst.max(error) };
            }
        }
        worst
    }
}

/// A loaded model.
pub trait Engine {
    fn run(&mut self);
    /// The bytes of the outputs of the last run.
    fn outputs(&mut self) -> Vec<Vec<u8>>;
}

/// Arguments: engine, folder, model, threads. The first line that it writes has the nanoseconds of the load.
pub fn serve(arguments: &[String]) -> Result<()> {
    let [engine, folder, name, threads] = arguments else {
        return Err(Error::other("expected an engine, a folder, a model and threads"));
    };
    let threads = threads.parse().map_err(Error::other)?;
    let folder = Path::new(folder);
    let model = Model::read(folder, name)?;
    let mut out = std::io::stdout();
    let mut loaded: Box<dyn Engine> = match engine.as_str() {
        "ours" => {
            let acl = super::ours::start();
            let start = Instant::now();
            let loaded = LoadedModel::load(acl, &folder.join(format!("{name}.om")));
            writeln!(out, "{}", start.elapsed().as_nanos())?;
            Box::new(loaded.with_tensors(&model))
        }
        _ => {
            let saved = folder.join(format!("{name}.optimised.onnx"));
            let save_to = (engine == "onnxruntime-build").then_some(&*saved);
            let ort = super::onnxruntime::start();
            let start = Instant::now();
            let session = Session::new(&ort, &model.file, threads, save_to);
            writeln!(out, "{}", start.elapsed().as_nanos())?;
            if save_to.is_some() {
                let _ = std::fs::remove_file(&saved);
                return Ok(());
            }
            Box::new(session.with_tensors(&model))
        }
    };
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "run" => {
                let start = Instant::now();
                loaded.run();
                writeln!(out, "{}", start.elapsed().as_nanos())?;
            }
            "error" => {
                let outputs = loaded.outputs();
                writeln!(out, "{}", model.error(&outputs))?;
            }
            _ => writeln!(out, "{}", peak_memory()?)?,
        }
    }
    Ok(())
}

/// The most bytes that this process ever had in memory.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    number.map(|number| number * 1024).ok_or_else(|| Error::other("no VmHWM"))
}
