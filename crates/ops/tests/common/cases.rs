//! The cases of `tests/walk/cases.txt`, read and run: at least one for every operator with an IR name.

#![allow(dead_code)]

use cairn_ops::{Arg, Error, Memory, Node, NodeArgs, Plan, SizeCallback, Tensor, nodes};
use cairn_tensor::parallel::SingleThread;
use cairn_tensor::{DType, Layout};
use std::cell::Cell;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/walk/cases.txt");
const ADDRESS_SPACING: usize = 1 << 20;
const ALIGN: usize = 64;

/// An input tensor.
#[derive(Clone)]
pub struct Input {
    pub layout: Layout,
    pub bytes: Vec<u8>,
    /// Its values are known before the operator is planned.
    pub is_known: bool,
    values: Values,
    seed: u64,
}

#[derive(Clone)]
enum Values {
    /// These, again and again.
    List(Vec<f64>),
    /// Random ones from this range.
    Range(f64, f64),
}

/// One line of the file.
pub struct Case {
    pub node: &'static Node,
    pub line: String,
    pub inputs: Vec<Option<Input>>,
    pub attributes: Vec<(String, Arg)>,
    pub outputs: Vec<Layout>,
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(FILE).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(case).collect()
}

fn case(line: &str) -> Case {
    let fields: Vec<&str> = line.split(';').map(str::trim).collect();
    let attributes = fields[2].split_whitespace().map(|one| {
        let (name, value) = one.split_once('=').unwrap();
        (name.to_owned(), attribute(value))
    });
    Case {
        node: nodes()[fields[0]],
        line: line.to_owned(),
        inputs: (1..).zip(fields[1].split_whitespace()).map(input).collect(),
        attributes: attributes.collect(),
        outputs: fields[3].split_whitespace().map(|one| parse_tensor(one).0).collect(),
    }
}

fn attribute(text: &str) -> Arg {
    if let Some(dtype) = text.strip_prefix('!') {
        return Arg::Int(i64::from(self::dtype(dtype).number()));
    }
    if let Some(list) = text.strip_prefix('[') {
        let list = list.trim_end_matches(']').split(',').filter(|one| !one.is_empty());
        return Arg::Ints(list.map(|one| one.parse().unwrap()).collect());
    }
    match (text, text.parse::<i64>(), text.parse::<f64>()) {
        ("true" | "false", ..) => Arg::Flag(text == "true"),
        (_, Ok(value), _) => Arg::Int(value),
        (_, _, Ok(value)) => Arg::Float(value),
        _ => Arg::Text(text.to_owned()),
    }
}

fn dtype(text: &str) -> DType {
    match text {
        "f32" => DType::Float,
        "f16" => DType::Float16,
        "bf16" => DType::Bf16,
        "f64" => DType::Double,
        "i64" => DType::Int64,
        "i32" => DType::Int32,
        "i16" => DType::Int16,
        "i8" => DType::Int8,
        "u8" => DType::Uint8,
        "bool" => DType::Bool,
        "c64" => DType::Complex64,
        other => panic!("{other}"),
    }
}

/// The layout that a text begins with, and the rest of the text.
fn parse_tensor(text: &str) -> (Layout, &str) {
    let (kind, rest) = text.split_once('[').unwrap();
    let (dims, rest) = rest.split_once(']').unwrap();
    let dims: Vec<usize> =
        dims.split(',').filter(|one| !one.is_empty()).map(|one| one.parse().unwrap()).collect();
    (Layout::contiguous(dtype(kind), &dims), rest)
}

fn input((seed, text): (u64, &str)) -> Option<Input> {
    if text == "-" {
        return None;
    }
    let without_prefix = text.trim_start_matches("const:").trim_start_matches("host:");
    let (layout, rest) = parse_tensor(without_prefix);
    let values = match (rest.strip_prefix('='), rest.strip_prefix(':')) {
        (Some(list), _) => Values::List(list.split(',').map(|one| one.parse().unwrap()).collect()),
        (_, Some(range)) => {
            let (low, high) = range.split_once("..").unwrap();
            Values::Range(low.parse().unwrap(), high.parse().unwrap())
        }
        _ if layout.dtype == DType::Bool => Values::Range(0.0, 2.0),
        _ if layout.dtype.is_integer() => Values::Range(-5.0, 6.0),
        _ => Values::Range(-2.0, 2.0),
    };
    let bytes = values.bytes(&layout, seed);
    Some(Input { layout, bytes, is_known: without_prefix.len() < text.len(), values, seed })
}

impl Values {
    fn bytes(&self, layout: &Layout, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let values = (0..layout.count()).map(|at| match self {
            Values::List(values) => values[at % values.len()],
            Values::Range(low, high) => low + (high - low) * next(),
        });
        values.flat_map(|value| encode(layout.dtype, value)).collect()
    }
}

fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::Float => (value as f32).to_ne_bytes().to_vec(),
        DType::Double => value.to_ne_bytes().to_vec(),
        DType::Float16 => half::f16::from_f64(value).to_ne_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(value).to_ne_bytes().to_vec(),
        DType::Int64 => (value.floor() as i64).to_ne_bytes().to_vec(),
        DType::Int32 => (value.floor() as i32).to_ne_bytes().to_vec(),
        DType::Int16 => (value.floor() as i16).to_ne_bytes().to_vec(),
        DType::Bool => vec![u8::from(value >= 1.0)],
        DType::Int8 => (value.floor() as i8).to_ne_bytes().to_vec(),
        DType::Uint8 => vec![value as u8],
        DType::Complex64 => [value as f32, (0.5 - value) as f32].map(f32::to_ne_bytes).concat(),
        other => panic!("{other}"),
    }
}

impl Input {
    /// The same kind of values with other sizes.
    pub fn with_dims(&self, dims: &[usize]) -> Input {
        let layout = Layout::contiguous(self.layout.dtype, dims);
        Input { layout, bytes: self.values.bytes(&layout, self.seed), ..self.clone() }
    }

    /// The same kind of values of another type.
    pub fn with_dtype(&self, dtype: DType) -> Input {
        let layout = self.layout.with_dtype(dtype);
        Input { layout, bytes: self.values.bytes(&layout, self.seed), ..self.clone() }
    }

    /// A range of the elements, in one dimension.
    pub fn piece(&self, range: std::ops::Range<usize>) -> Input {
        let item = self.layout.item();
        let layout = Layout::contiguous(self.layout.dtype, &[range.len()]);
        let bytes = self.bytes[range.start * item..range.end * item].to_vec();
        Input { layout, bytes, ..self.clone() }
    }
}

impl Case {
    /// The same case with other random numbers.
    pub fn reseeded(&self, round: u64) -> Case {
        let reseed = |input: &Option<Input>| {
            let input = input.as_ref()?;
            let seed = input.seed + 100 * round;
            Some(Input { bytes: input.values.bytes(&input.layout, seed), seed, ..input.clone() })
        };
        Case {
            node: self.node,
            line: self.line.clone(),
            inputs: self.inputs.iter().map(reseed).collect(),
            attributes: self.attributes.clone(),
            outputs: self.outputs.clone(),
        }
    }

    /// The tensors as the table takes them, each at an address of its own.
    pub fn tensors(&self) -> (Vec<Option<Tensor>>, Vec<Tensor>) {
        let address = |at: usize| (at + 1) * ADDRESS_SPACING;
        let inputs = self.inputs.iter().enumerate().map(|(at, input)| {
            let input = input.as_ref()?;
            let constant = input.is_known.then(|| input.bytes.clone().into());
            Some(Tensor { layout: input.layout, address: address(at), constant })
        });
        let first = self.inputs.len();
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs.map(|(at, layout)| Tensor::new(*layout, address(first + at)));
        (inputs.collect(), outputs.collect())
    }

    /// The call with these tensors, planned.
    pub fn plan_with(&self, inputs: &[Option<Tensor>], outputs: &[Tensor]) -> Result<Plan, Error> {
        self.node.plan(&NodeArgs { inputs, outputs, attributes: &self.attributes })
    }

    /// The call, planned.
    pub fn plan(&self) -> Result<Plan, Error> {
        let (inputs, outputs) = self.tensors();
        self.plan_with(&inputs, &outputs)
    }

    /// Runs it on outputs that are full of `fill`: their bytes.
    pub fn run(&self, fill: u8) -> Result<Vec<Vec<u8>>, String> {
        self.run_sized(fill, &|_, _| {})
    }

    /// As [`Case::run`]; `sized` gets the sizes that values decide.
    pub fn run_sized(&self, fill: u8, sized: &SizeCallback<'_>) -> Result<Vec<Vec<u8>>, String> {
        let plan = self.plan().map_err(|error| error.text().to_owned())?;
        let mut buffers: Vec<Buffer> = Vec::new();
        for one in &plan.uses {
            let arg_index = one.argument.0 + one.argument.1;
            buffers.push(match self.inputs.get(arg_index) {
                Some(input) => Buffer::of(&input.as_ref().expect("a use of an input").bytes),
                None => Buffer::of(&vec![fill; one.bytes]),
            });
        }
        let mut workspace = Buffer::of(&vec![0x77; plan.workspace]);
        {
            let uses: Vec<&[Cell<u8>]> = buffers.iter_mut().map(Buffer::cells).collect();
            let memory = Memory {
                uses: &uses,
                workspace: workspace.cells(),
                parallel: &SingleThread,
                sized,
                groups: &[],
                epilogue: None,
                overflow: Default::default(),
            };
            plan.run(&memory).map_err(|fault| fault.0)?;
        }
        let mut results: Vec<Vec<u8>> =
            self.outputs.iter().map(|layout| vec![fill; layout.bytes()]).collect();
        for (one, buffer) in plan.uses.iter().zip(&mut buffers) {
            let arg_index = one.argument.0 + one.argument.1;
            if let Some(at) = arg_index.checked_sub(self.inputs.len()) {
                results[at] = buffer.cells().iter().map(Cell::get).collect();
            }
        }
        Ok(results)
    }
}

/// Bytes that begin on a multiple of [`ALIGN`].
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    fn of(bytes: &[u8]) -> Buffer {
        let mut padded = vec![0; bytes.len() + ALIGN];
        let start = padded.as_ptr().align_offset(ALIGN);
        padded[start..start + bytes.len()].copy_from_slice(bytes);
        Buffer { bytes: padded, start }
    }

    fn cells(&mut self) -> &[Cell<u8>] {
        let end = self.start + self.bytes.len() - ALIGN;
        Cell::from_mut(&mut self.bytes[self.start..end]).as_slice_of_cells()
    }
}
