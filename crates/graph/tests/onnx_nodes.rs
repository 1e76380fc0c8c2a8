//! The node tests of ONNX's own wheel, read from the folder that `CAIRN_ONNX_NODES` names (`cargo xtask test` sets it);
//! without it there are none. `onnx_nodes.txt` has those that do not pass, each with its reason.

mod support;

use cairn_exec::Target;
use cairn_graph::executable::{CompileOptions, Executable, LoadOptions, RunTensor};
use cairn_graph::ir::Constant;
use cairn_graph::onnx::{self, ReadOptions};
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use support::*;

/// What became of a case.
enum Verdict {
    Passed,
    Refused(String),
    Wrong(String),
}

/// The cases that are known not to pass, with their reasons.
fn known_failures() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("onnx_nodes.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(reason, name)| (name, reason)).collect()
}

/// The reasons for which a case gives another result than the expected one; for all others it is refused.
const OTHER_RESULTS: [&str; 3] = ["random", "tolerance", "unsaturated"];

#[test]
fn node_tests_of_onnx() {
    let Ok(folder) = std::env::var("CAIRN_ONNX_NODES") else {
        println!("CAIRN_ONNX_NODES is not set: no node tests");
        return;
    };
    let only = std::env::var("CAIRN_ONNX_ONLY").unwrap_or_default();
    let machine = Machine::start();
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(&only))
        .collect();
    names.sort();
    let known = known_failures();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut surprises = Vec::new();
    for name in &names {
        let case = Path::new(&folder).join(name);
        let verdict = run_case(&machine, &case);
        let (word, text) = match &verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Refused(text) => ("refused", text.as_str()),
            Verdict::Wrong(text) => ("wrong", text.as_str()),
        };
        let expected = match known.get(name.as_str()) {
            None => "passed",
            Some(reason) if OTHER_RESULTS.contains(reason) => "wrong",
            Some(_) => "refused",
        };
        if word != expected {
            surprises.push(format!("{name}: {word}, expected {expected}: {text}"));
        }
        *counts.entry(word).or_default() += 1;
        println!("{word}\t{name}\t{text}");
    }
    println!("{} cases: {counts:?}", names.len());
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

fn tensors(set: &Path, prefix: &str) -> Result<Vec<Constant>, String> {
    let mut all = Vec::new();
    for at in 0.. {
        let Ok(bytes) = std::fs::read(set.join(format!("{prefix}_{at}.pb"))) else { break };
        all.push(onnx::read_tensor(bytes)?);
    }
    Ok(all)
}

fn run_case(machine: &Machine, case: &Path) -> Verdict {
    let set = case.join("test_data_set_0");
    match outputs_of(machine, case, &set) {
        Err(text) => Verdict::Refused(text),
        Ok(made) => match tensors(&set, "output") {
            Err(text) => Verdict::Refused(text),
            Ok(expected) => match compare(&made, &expected) {
                Ok(()) => Verdict::Passed,
                Err(text) => Verdict::Wrong(text),
            },
        },
    }
}

fn outputs_of(machine: &Machine, case: &Path, set: &Path) -> Result<Vec<Constant>, String> {
    let inputs = tensors(set, "input")?;
    let bytes = std::fs::read(case.join("model.onnx")).unwrap();
    let graph = onnx::read(bytes, &ReadOptions::default())?;
    let text = |failure: cairn_graph::Failure| failure.text;
    let executable = Executable::compile(graph, "model".into(), CompileOptions::default());
    let executable = Arc::new(executable.map_err(text)?);
    let handle = machine.stream();
    let stream = machine.runtime.handles.get::<Stream>(handle).unwrap();
    let target = Target::built_in(machine.runtime, stream);
    let loaded = executable.load(&target, &LoadOptions::default()).map_err(text)?;
    let mut run_inputs = Vec::new();
    for (at, input) in inputs.iter().enumerate().take(executable.inputs.len()) {
        let tensor = RunTensor {
            address: 64,
            bytes: input.bytes.len(),
            dtype: Some(input.desc.dtype),
            dims: Some(input.desc.dims.clone()),
            host: Some(input.bytes.clone()),
            says_host: true,
        };
        run_inputs.push(executable.input(at, &tensor).map_err(text)?);
    }
    let outputs = loaded.run(&target, &run_inputs, &[]).map_err(text)?;
    machine.sync(handle).map_err(|error| error.to_string())?;
    let memory = &machine.runtime.shared.memory;
    let made = outputs.iter().map(|output| {
        let bytes = match output.layout.bytes() {
            0 => Vec::new(),
            count => memory.extent(output.address, count).unwrap().read(),
        };
        let desc = cairn_graph::ir::Desc::from_layout(&output.layout);
        Constant { desc, bytes: bytes.into() }
    });
    Ok(made.collect())
}

fn numbers(constant: &Constant) -> Vec<f64> {
    let item = constant.desc.dtype.size_in_bytes().unwrap();
    let one = |bytes: &[u8]| -> Vec<f64> {
        match constant.desc.dtype {
            DType::Float => vec![f32::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Double => vec![f64::from_le_bytes(bytes.try_into().unwrap())],
            DType::Float16 => vec![half::f16::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Bf16 => vec![half::bf16::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Int8 => vec![(bytes[0] as i8).into()],
            DType::Int16 => vec![i16::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Int32 => vec![i32::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Int64 => vec![i64::from_le_bytes(bytes.try_into().unwrap()) as f64],
            DType::Uint8 | DType::Bool => vec![bytes[0].into()],
            DType::Uint16 => vec![u16::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Uint32 => vec![u32::from_le_bytes(bytes.try_into().unwrap()).into()],
            DType::Uint64 => vec![u64::from_le_bytes(bytes.try_into().unwrap()) as f64],
            DType::Complex64 => {
                bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect()
            }
            _ => bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        }
    };
    constant.bytes.chunks(item).flat_map(one).collect()
}

fn compare(made: &[Constant], expected: &[Constant]) -> Result<(), String> {
    if made.len() != expected.len() {
        return Err(format!("{} outputs, expected {}", made.len(), expected.len()));
    }
    for (at, (made, expected)) in made.iter().zip(expected).enumerate() {
        if made.desc.dtype != expected.desc.dtype || made.desc.dims != expected.desc.dims {
            return Err(format!("output {at} is {}, expected {}", made.desc, expected.desc));
        }
        let tolerance = if made.desc.dtype == DType::Bf16 { 1.0 / 64.0 } else { 1e-3 };
        for (index, (a, b)) in numbers(made).iter().zip(numbers(expected)).enumerate() {
            let close = *a == b
                || (a.is_nan() && b.is_nan())
                || (a - b).abs() <= 1e-7 + tolerance * b.abs();
            if !close {
                return Err(format!("output {at}, element {index}: {a}, expected {b}"));
            }
        }
    }
    Ok(())
}
