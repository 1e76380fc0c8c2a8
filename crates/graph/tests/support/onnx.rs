//! Models of ONNX, read, compiled and run, and their outputs compared.

use super::Machine;
use cairn_exec::Target;
use cairn_graph::executable::{CompileOptions, Executable, LoadOptions, RunTensor};
use cairn_graph::ir::Constant;
use cairn_graph::onnx::{self, ReadOptions};
use cairn_runtime::stream::Stream;
use cairn_tensor::DType;
use std::sync::Arc;

/// Options under which all sizes of the inputs of a model are open.
pub fn open_sizes(bytes: &[u8]) -> Result<ReadOptions, String> {
    let graph = onnx::read(bytes.to_vec(), &ReadOptions::default())?;
    let mut options = ReadOptions::default();
    for id in graph.inputs() {
        let node = graph.node(id).unwrap();
        let desc = &node.output_descs[0];
        if desc.has_rank() {
            options.input_dims.insert(node.name.clone(), vec![-1; desc.dims.len()]);
        }
    }
    Ok(options)
}

/// What a model makes of these inputs.
pub fn outputs_of(
    machine: &Machine,
    bytes: Vec<u8>,
    options: &ReadOptions,
    inputs: &[Constant],
) -> Result<Vec<Constant>, String> {
    let graph = onnx::read(bytes, options)?;
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

/// The elements as numbers, those of complex ones in pairs.
pub fn numbers(constant: &Constant) -> Vec<f64> {
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

/// Fails if outputs differ by more than ONNX's own tests allow; types and sizes are equal.
pub fn compare(made: &[Constant], expected: &[Constant]) -> Result<(), String> {
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
