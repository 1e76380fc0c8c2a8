//! One node of ONNX on its way to nodes of the graph engine: what its converter reads and makes.

use super::builder::{Builder, Value};
use super::graph::net_output;
use super::tensor::{self, ExternalData};
use super::wire::{AttributeProto, NodeProto};
use crate::ir::{Attr, Attrs, Constant, Desc};
use cairn_tensor::DType;

/// Turns a node into nodes of the graph engine; gives its outputs, in order. Those that the model does not name may be
/// left out at the end.
pub type Convert = fn(&mut Conversion<'_>) -> Result<Vec<Value>, String>;

/// A node that is being converted.
pub struct Conversion<'a> {
    /// The version of the operator set that the model imports for the node's domain.
    pub opset: i64,
    node: &'a NodeProto,
    inputs: Vec<Option<Value>>,
    builder: &'a mut Builder,
    external: &'a ExternalData,
    /// The name that the node's own nodes begin with.
    label: String,
    added: Vec<usize>,
}

/// Attributes of a node of the graph engine.
pub fn attrs<const N: usize>(entries: [(&str, Attr); N]) -> Attrs {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Tensors of more elements are refused where a conversion computes with their sizes.
const MAX_ELEMENTS: i64 = 1 << 48;

impl From<i64> for Attr {
    fn from(value: i64) -> Attr {
        Attr::Int(value)
    }
}

impl From<f32> for Attr {
    fn from(value: f32) -> Attr {
        Attr::Float(value)
    }
}

impl From<bool> for Attr {
    fn from(value: bool) -> Attr {
        Attr::Flag(value)
    }
}

impl From<&str> for Attr {
    fn from(value: &str) -> Attr {
        Attr::Text(value.as_bytes().to_vec())
    }
}

impl From<Vec<i64>> for Attr {
    fn from(values: Vec<i64>) -> Attr {
        Attr::Ints(values)
    }
}

impl From<Vec<f32>> for Attr {
    fn from(values: Vec<f32>) -> Attr {
        Attr::Floats(values)
    }
}

impl From<DType> for Attr {
    fn from(dtype: DType) -> Attr {
        Attr::Type(dtype as i64)
    }
}

impl<'a> Conversion<'a> {
    /// A node with the values of its inputs; `None` for those that it leaves out.
    pub fn new(
        node: &'a NodeProto,
        opset: i64,
        inputs: Vec<Option<Value>>,
        builder: &'a mut Builder,
        external: &'a ExternalData,
        label: String,
    ) -> Conversion<'a> {
        Conversion { opset, node, inputs, builder, external, label, added: Vec::new() }
    }

    /// Converts the node. What becomes one node keeps the name; of several, each is named after it.
    pub fn run(mut self, convert: Convert) -> Result<Vec<Value>, String> {
        let outputs = convert(&mut self)?;
        if let [only] = self.added[..] {
            self.builder.rename(only, &self.label);
        }
        Ok(outputs)
    }

    /// The ONNX name of the operator.
    pub fn operator(&self) -> &str {
        &self.node.op_type
    }

    /// The name that the node's own nodes begin with.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How many inputs the node names.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// How many outputs the node names, those that it leaves out in between with them.
    pub fn output_count(&self) -> usize {
        self.node.output.len()
    }

    /// Whether somebody may read this output.
    pub fn wants_output(&self, at: usize) -> bool {
        self.node.output.get(at).is_some_and(|name| !name.is_empty())
    }

    /// An input that must be there.
    pub fn input(&self, at: usize) -> Result<Value, String> {
        self.optional(at).ok_or_else(|| format!("input {at} is missing"))
    }

    /// An input that may be left out.
    pub fn optional(&self, at: usize) -> Option<Value> {
        self.inputs.get(at).cloned().flatten()
    }

    /// All inputs from this one on; none may be left out.
    pub fn inputs_from(&self, first: usize) -> Result<Vec<Value>, String> {
        (first..self.inputs.len()).map(|at| self.input(at)).collect()
    }

    /// The integers of an input that has to be known now.
    pub fn known_ints(&self, at: usize, what: &str) -> Result<Vec<i64>, String> {
        let value = self.input(at)?;
        value.ints().ok_or_else(|| format!("input {at} ({what}) is not a constant"))
    }

    fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    /// Whether an attribute is set.
    pub fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// An attribute that is an integer, or its default.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).and_then(|attribute| attribute.i).unwrap_or(default)
    }

    /// An attribute that is a number, or its default.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).and_then(|attribute| attribute.f).unwrap_or(default)
    }

    /// An attribute that is text, or its default.
    pub fn text(&self, name: &str, default: &str) -> String {
        let text = self.attribute(name).and_then(|attribute| attribute.s.as_ref());
        text.map_or_else(|| default.to_owned(), |text| String::from_utf8_lossy(text).into_owned())
    }

    /// An attribute that is a list of integers.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints.clone())
    }

    /// An attribute that is a list of numbers.
    pub fn floats(&self, name: &str) -> Option<Vec<f32>> {
        self.attribute(name).map(|attribute| attribute.floats.clone())
    }

    /// An attribute that is a list of texts.
    pub fn texts(&self, name: &str) -> Option<Vec<String>> {
        let texts = &self.attribute(name)?.strings;
        Some(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    /// An attribute that is a tensor.
    pub fn tensor(&self, name: &str) -> Result<Option<Constant>, String> {
        let attribute = self.attribute(name);
        let wrong = |error| format!("the tensor of its attribute {name}: {error}");
        if let Some(sparse) = attribute.and_then(|attribute| attribute.sparse_tensor.as_ref()) {
            return tensor::read_sparse(sparse, self.external, &self.builder.budget)
                .map(Some)
                .map_err(wrong);
        }
        let Some(tensor) = attribute.and_then(|attribute| attribute.t.as_ref()) else {
            return Ok(None);
        };
        tensor::read(tensor, self.external).map(Some).map_err(wrong)
    }

    /// An attribute that is a type of elements.
    pub fn dtype(&self, name: &str) -> Result<Option<DType>, String> {
        match self.attribute(name).and_then(|attribute| attribute.i) {
            None => Ok(None),
            Some(number) => {
                let number = i32::try_from(number).unwrap_or(i32::MAX);
                tensor::dtype(number).map(Some).map_err(|error| format!("{name}: {error}"))
            }
        }
    }

    /// Fails for an attribute whose value is not among those that are supported.
    pub fn expect_text(&self, name: &str, value: &str, known: &[&str]) -> Result<(), String> {
        match known.contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} is '{value}': expected one of {}", known.join(", "))),
        }
    }

    /// Adds a node with one output.
    pub fn add(&mut self, kind: &str, inputs: &[&Value], attrs: Attrs) -> Result<Value, String> {
        let inputs: Vec<Option<&Value>> = inputs.iter().map(|value| Some(*value)).collect();
        let outputs = self.add_several(kind, &inputs, attrs, 1)?;
        outputs.into_iter().next().ok_or_else(|| format!("{kind} has no output"))
    }

    /// Adds a node, some of whose inputs may be left out; gives all of its outputs. `outputs` is their number if the
    /// operator has a list of them.
    pub fn add_several(
        &mut self,
        kind: &str,
        inputs: &[Option<&Value>],
        attrs: Attrs,
        outputs: usize,
    ) -> Result<Vec<Value>, String> {
        let name = format!("{}/{kind}", self.label);
        let values = self.builder.node(&name, kind, inputs, attrs, outputs)?;
        if let Some(value) = values.first() {
            self.added.push(value.source.node);
        }
        Ok(values)
    }

    /// Adds what the conversion knows of the sizes of a value that it made: those that are not -1.
    pub fn learn_dims(&mut self, value: &mut Value, dims: &[i64]) {
        self.builder.learn_dims(value, dims);
    }

    /// Adds a constant.
    pub fn constant(&mut self, constant: Constant) -> Value {
        let value = self.builder.constant(&format!("{}/Const", self.label), constant);
        self.added.push(value.source.node);
        value
    }

    /// A constant of one dimension with these int64.
    pub fn int_list(&mut self, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let desc = Desc::new(DType::Int64, &[values.len() as i64]);
        self.constant(Constant { desc, bytes: bytes.into() })
    }

    /// How many elements a constant may have whose size the model only states; the error says that it is too large.
    pub fn reserve(&self, count: i64, item: usize) -> Result<usize, String> {
        self.builder.budget.take(count, item)
    }

    /// A constant of one dimension with the numbers of a range.
    pub fn counting(&mut self, range: std::ops::Range<i64>) -> Result<Value, String> {
        self.reserve(range.end.saturating_sub(range.start).max(0), size_of::<i64>())?;
        let numbers: Vec<i64> = range.collect();
        Ok(self.int_list(&numbers))
    }

    /// A constant of one dimension with this number at each place.
    pub fn repeated(&mut self, number: i64, count: i64) -> Result<Value, String> {
        let count = self.reserve(count, size_of::<i64>())?;
        Ok(self.int_list(&vec![number; count]))
    }

    /// A constant of one dimension with these uint64.
    pub fn uint_list(&mut self, values: &[u64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let desc = Desc::new(DType::Uint64, &[values.len() as i64]);
        self.constant(Constant { desc, bytes: bytes.into() })
    }

    /// The sizes of a value, as a tensor of int64.
    pub fn sizes_of(&mut self, value: &Value) -> Result<Value, String> {
        self.add("Shape", &[value], attrs([("dtype", (DType::Int64 as i64).into())]))
    }

    /// A constant without dimensions, of a real or integer type.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> Result<Value, String> {
        let desc = Desc::new(dtype, &[]);
        let bytes = element(dtype, value)
            .ok_or_else(|| format!("a number of type {dtype} is not supported here"))?;
        Ok(self.constant(Constant { desc, bytes: bytes.into() }))
    }

    /// Adds a loop over the numbers from 0 to before `limit`, an int64 without dimensions. `body` gets the number, the state, and
    /// what the loop only reads; it gives the next state, whose sizes are those of the first.
    pub fn repeat(
        &mut self,
        limit: &Value,
        state: &[Value],
        read: &[Value],
        body: impl FnOnce(&mut Conversion<'_>, &Value, &[Value], &[Value]) -> Result<Vec<Value>, String>,
    ) -> Result<Vec<Value>, String> {
        let zero = self.scalar(DType::Int64, 0.0)?;
        let mut inputs = vec![zero];
        inputs.extend_from_slice(state);
        let changing = inputs.len();
        inputs.push(limit.clone());
        inputs.extend_from_slice(read);
        let mut graphs = Vec::with_capacity(2);
        let mut body = Some(body);
        for part in ["cond", "body"] {
            let label = format!("{}_{part}", self.label);
            let mut builder = Builder::new(&label, self.builder.budget.clone());
            let mut data = Vec::with_capacity(inputs.len());
            for (at, input) in inputs.iter().enumerate() {
                let mut info = input.info.clone();
                info.bytes = info.bytes.filter(|_| at >= changing);
                data.push(builder.known_data("", info));
            }
            let mut inner = Conversion::new(
                self.node,
                self.opset,
                Vec::new(),
                &mut builder,
                self.external,
                format!("{label}/{}", self.operator()),
            );
            let outputs = match part {
                "cond" => vec![inner.add("Less", &[&data[0], &data[changing]], Attrs::new())?],
                _ => {
                    let one = inner.scalar(DType::Int64, 1.0)?;
                    let mut next = vec![inner.add("Add", &[&data[0], &one], Attrs::new())?];
                    let body = body.take().ok_or("a loop has one body")?;
                    next.extend(body(
                        &mut inner,
                        &data[0],
                        &data[1..changing],
                        &data[changing + 1..],
                    )?);
                    next.extend_from_slice(&data[changing..]);
                    next
                }
            };
            let named: Vec<(&str, Value)> = outputs.into_iter().map(|value| ("", value)).collect();
            net_output(&mut builder, &named);
            graphs.push(builder.graph);
        }
        let descs = inputs.iter().map(|input| input.info.desc.clone()).collect();
        let made = self.builder.control(&self.label, "While", &inputs, graphs, descs);
        Ok(made[1..changing].to_vec())
    }

    /// Casts, unless the value has that type.
    pub fn cast(&mut self, value: &Value, dtype: DType) -> Result<Value, String> {
        match value.dtype() == dtype {
            true => Ok(value.clone()),
            false => self.add("Cast", &[value], attrs([("dst_type", Attr::Int(dtype as i64))])),
        }
    }

    /// The rank of a value, which the conversion cannot do without.
    pub fn rank(&self, value: &Value) -> Result<usize, String> {
        value.rank().ok_or_else(|| {
            "the number of dimensions of an input is not known, and the operator depends on it: give the graph's inputs their sizes".to_owned()
        })
    }

    /// One size of a value, which the conversion has to know.
    pub fn known_dims_at(&self, value: &Value, at: usize) -> Result<i64, String> {
        match value.dims().and_then(|dims| dims.get(at)) {
            Some(dim) if (0..=MAX_ELEMENTS).contains(dim) => Ok(*dim),
            Some(dim) if *dim > 0 => {
                Err(format!("size {at} of an input is {dim}: it is too large"))
            }
            _ => Err(format!(
                "size {at} of an input is not known, and the operator depends on it: give the graph's inputs their sizes"
            )),
        }
    }

    /// The sizes of a value, all of which the conversion has to know.
    pub fn known_dims(&self, value: &Value, what: &str) -> Result<Vec<i64>, String> {
        match value.dims() {
            Some(dims) if dims.iter().all(|dim| *dim >= 0) => {
                let elements = dims.iter().fold(1i64, |all, dim| all.saturating_mul((*dim).max(1)));
                match elements <= MAX_ELEMENTS {
                    true => Ok(dims.to_vec()),
                    false => Err(format!("{what} has the sizes {dims:?}: it is too large")),
                }
            }
            Some(dims) => Err(format!(
                "{what} has the sizes {dims:?}, and the operator depends on them: give the graph's inputs their sizes"
            )),
            None => Err(format!(
                "{what} has a number of dimensions that is not known, and the operator depends on it: give the graph's inputs their sizes"
            )),
        }
    }
}

/// An axis counted from the front.
pub fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let count = rank as i64;
    let from_front = if axis < 0 { axis + count } else { axis };
    match (0..count.max(1)).contains(&from_front) {
        true => Ok(from_front as usize),
        false => Err(format!("axis {axis} is outside of {rank} dimensions")),
    }
}

/// The bytes of a number in a real or integer type.
pub fn element(dtype: DType, value: f64) -> Option<Vec<u8>> {
    Some(match dtype {
        DType::Float => (value as f32).to_le_bytes().to_vec(),
        DType::Double => value.to_le_bytes().to_vec(),
        DType::Float16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::Int8 => (value as i8).to_le_bytes().to_vec(),
        DType::Uint8 => vec![value as u8],
        DType::Bool => vec![u8::from(value != 0.0)],
        DType::Int16 => (value as i16).to_le_bytes().to_vec(),
        DType::Uint16 => (value as u16).to_le_bytes().to_vec(),
        DType::Int32 => (value as i32).to_le_bytes().to_vec(),
        DType::Uint32 => (value as u32).to_le_bytes().to_vec(),
        DType::Int64 => (value as i64).to_le_bytes().to_vec(),
        DType::Uint64 => (value as u64).to_le_bytes().to_vec(),
        _ => return None,
    })
}
