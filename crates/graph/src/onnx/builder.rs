//! The graph that is being made, with what is known of each of its tensors.
//!
//! What an ONNX operator means often depends on the type or the rank of its inputs, which the file need not say. So
//! every node is inferred when it is added, as the compiler will do again, and small values are computed.

use super::partial::{self, Elements};
use super::tensor::int64s;
use crate::compile::fold::{FoldBudget, fold};
use crate::compile::operation::{KnownTensor, Operation};
use crate::compile::shapes::{DeclaredOutputs, Inference, ValueInfo, infer};
use crate::ir::{Attr, Attrs, Constant, Desc, Graph, Node, Source};
use cairn_tensor::DType;
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;

/// A tensor of the graph that is being made.
#[derive(Clone, Debug)]
pub struct Value {
    /// The output that it is.
    pub source: Source,
    /// What is known of it.
    pub info: ValueInfo,
    /// Its elements, if it is a list of sizes some of which are open.
    pub elements: Option<Rc<Elements>>,
}

impl Value {
    /// A value of which no more is known than this.
    pub fn new(source: Source, info: ValueInfo) -> Value {
        Value { source, info, elements: None }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.info.desc.dtype
    }

    /// Its sizes, -1 for an unknown one; `None` if not even their number is known.
    pub fn dims(&self) -> Option<&[i64]> {
        self.info.desc.has_rank().then_some(self.info.desc.dims.as_slice())
    }

    /// The number of its dimensions.
    pub fn rank(&self) -> Option<usize> {
        self.dims().map(<[i64]>::len)
    }

    /// Its elements, if they are integers and known.
    pub fn ints(&self) -> Option<Vec<i64>> {
        let bytes = self.info.bytes.as_deref()?;
        match self.dtype() {
            DType::Int64 => Some(int64s(bytes)),
            DType::Int32 => Some(
                (bytes.as_chunks().0.iter())
                    .map(|chunk| i32::from_le_bytes(*chunk).into())
                    .collect(),
            ),
            DType::Bool | DType::Uint8 => Some(bytes.iter().map(|byte| (*byte).into()).collect()),
            _ => None,
        }
    }

    /// Its elements, if they are integers and some of them are known; `None` for the others.
    pub fn partial_ints(&self) -> Option<Vec<Option<i64>>> {
        match self.ints() {
            Some(all) => Some(all.into_iter().map(Some).collect()),
            None => self.elements.as_ref()?.ints(self),
        }
    }

    /// Its elements, if they are `float` or `double` and known.
    pub fn floats(&self) -> Option<Vec<f64>> {
        let bytes = self.info.bytes.as_deref()?;
        match self.dtype() {
            DType::Float => Some(
                (bytes.as_chunks().0.iter())
                    .map(|chunk| f32::from_le_bytes(*chunk).into())
                    .collect(),
            ),
            DType::Double => {
                Some(bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect())
            }
            _ => None,
        }
    }
}

/// What the reader may keep in memory besides what the model holds, for all graphs of the model.
pub struct Budget {
    folds: FoldBudget,
    constants: Cell<usize>,
    function_nodes: Cell<usize>,
}

/// Constants whose sizes a model only states may have so many bytes together.
const MADE_BYTES: usize = 128 << 20;

/// Calls of functions may add so many nodes, and one more for every eight bytes of the model.
const FUNCTION_NODES: usize = 16384;

impl Budget {
    /// That of a model with so many bytes.
    pub fn new(model: usize) -> Budget {
        Budget {
            folds: FoldBudget::new(model),
            constants: Cell::new(MADE_BYTES.max(model)),
            function_nodes: Cell::new(FUNCTION_NODES + model / 8),
        }
    }

    /// Counts a node of a function's body, each time that the function is called.
    pub fn take_function_node(&self) -> Result<(), String> {
        let left = self.function_nodes.get().checked_sub(1);
        self.function_nodes.set(left.ok_or(
            "calls of functions add far more nodes than the model has: functions call each other too often",
        )?);
        Ok(())
    }

    /// Takes memory for a constant whose size the model only states.
    pub fn take(&self, count: i64, item: usize) -> Result<usize, String> {
        let count = usize::try_from(count).ok();
        let left = count
            .and_then(|count| count.checked_mul(item))
            .and_then(|bytes| self.constants.get().checked_sub(bytes));
        match (left, count) {
            (Some(left), Some(count)) => {
                self.constants.set(left);
                Ok(count)
            }
            _ => Err("it needs a constant that is not in the model and far larger than the model"
                .to_owned()),
        }
    }
}

/// A graph in the making.
pub struct Builder {
    /// The graph.
    pub graph: Graph,
    /// The memory that it may still take.
    pub budget: Rc<Budget>,
    names: HashSet<String>,
    inputs: i64,
}

impl Builder {
    /// An empty graph of this name.
    pub fn new(name: &str, budget: Rc<Budget>) -> Builder {
        Builder { graph: Graph::new(name), budget, names: HashSet::new(), inputs: 0 }
    }

    /// A graph that is there already, to add nodes to it.
    pub fn extend(graph: Graph) -> Builder {
        let names = graph.nodes().map(|(_, node)| node.name.clone()).collect();
        let inputs = graph.inputs().len() as i64;
        let budget = Rc::new(Budget::new(graph.constant_bytes()));
        Builder { graph, budget, names, inputs }
    }

    /// An output of a node of that graph.
    pub fn value(&self, source: Source, desc: Desc) -> Value {
        Value::new(source, ValueInfo { desc, bytes: None })
    }

    /// The name, or the name with a number that no node has.
    pub fn free_name(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 1;
        while !self.names.insert(free.clone()) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }

    /// Gives a node another name.
    pub fn rename(&mut self, node: usize, name: &str) {
        let name = self.free_name(name);
        if let Some(node) = self.graph.node_mut(node) {
            self.names.remove(&node.name);
            node.name = name;
        }
    }

    /// An input of the graph.
    pub fn data(&mut self, name: &str, desc: Desc) -> Value {
        let index = self.inputs;
        self.inputs += 1;
        let name = self.free_name(name);
        let described = |label: &str| Desc { name: label.into(), ..desc.clone() };
        let node = self.graph.add(Node {
            name,
            kind: "Data".into(),
            inputs: vec![None],
            input_descs: vec![described("x")],
            output_descs: vec![described("y")],
            attrs: Attrs::from([("index".to_owned(), Attr::Int(index))]),
            ..Node::default()
        });
        Value::new(Source { node, output: 0 }, ValueInfo { desc, bytes: None })
    }

    /// A constant.
    pub fn constant(&mut self, name: &str, constant: Constant) -> Value {
        let name = self.free_name(name);
        let desc = constant.desc.clone();
        let bytes = Some(constant.bytes.clone());
        let node = self.graph.add(Node {
            name,
            kind: "Const".into(),
            output_descs: vec![Desc { name: "y".into(), ..desc.clone() }],
            attrs: Attrs::from([("value".to_owned(), Attr::Tensor(constant))]),
            ..Node::default()
        });
        Value::new(Source { node, output: 0 }, ValueInfo { desc, bytes })
    }

    /// Adds what the caller knows of the sizes of a node's output: those that are not -1.
    pub fn learn_dims(&mut self, value: &mut Value, dims: &[i64]) {
        let have = value.dims().map(<[i64]>::to_vec);
        let learnt: Vec<i64> = match have {
            Some(have) if have.len() == dims.len() => {
                have.iter().zip(dims).map(|(old, new)| if *old < 0 { *new } else { *old }).collect()
            }
            Some(_) => return,
            None => dims.to_vec(),
        };
        value.info.desc.copy_type_and_shape_from(Desc::new(value.dtype(), &learnt));
        let node = self.graph.node_mut(value.source.node);
        if let Some(desc) = node.and_then(|node| node.output_descs.get_mut(value.source.output)) {
            desc.copy_type_and_shape_from(value.info.desc.clone());
        }
    }

    /// Adds a node and infers its outputs. `outputs` is how many it has if its operator has a list of them.
    pub fn node(
        &mut self,
        name: &str,
        kind: &str,
        inputs: &[Option<&Value>],
        attrs: Attrs,
        outputs: usize,
    ) -> Result<Vec<Value>, String> {
        let name = self.free_name(name);
        let row = cairn_ops::nodes()
            .get(kind)
            .ok_or_else(|| format!("the graph's operator {kind}: {}", cairn_ops::absent(kind)))?;
        let input_names = port_names(row.inputs, inputs.len());
        let output_names = port_names(row.outputs, outputs.max(row.outputs.len()));
        let described = |desc: &Desc, label: &str| Desc { name: label.into(), ..desc.clone() };
        let mut node = Node {
            name,
            kind: kind.into(),
            inputs: inputs.iter().map(|value| value.map(|value| value.source)).collect(),
            input_descs: (inputs.iter().zip(&input_names))
                .map(|(value, label)| match value {
                    Some(value) => described(&value.info.desc, label),
                    None => described(&Desc::unknown(DType::Undefined), label),
                })
                .collect(),
            output_descs: (output_names.iter())
                .map(|label| described(&Desc::unknown(DType::Undefined), label))
                .collect(),
            attrs,
            ..Node::default()
        };
        let mut infos: Vec<Option<ValueInfo>> =
            inputs.iter().map(|value| value.map(|value| value.info.clone())).collect();
        while infos.last().is_some_and(Option::is_none) {
            infos.pop();
        }
        let operation = Operation::of(&node).ok_or_else(|| cairn_ops::absent(&node.kind))?;
        let mut known = infer_values(&operation, &node, &infos, &self.budget)?;
        let mut elements = Vec::new();
        if known.iter().any(|info| info.bytes.is_none()) {
            if known.iter().any(|info| !info.desc.has_rank())
                && let Some(descs) = partial::infer(&operation, inputs)
            {
                for (info, desc) in known.iter_mut().zip(descs) {
                    info.desc.copy_type_and_shape_from(desc);
                }
            }
            elements = partial::elements(&operation, inputs);
        }
        for (desc, info) in node.output_descs.iter_mut().zip(&known) {
            desc.copy_type_and_shape_from(info.desc.clone());
        }
        let id = self.graph.add(node);
        Ok((known.into_iter().enumerate())
            .map(|(output, info)| Value {
                source: Source { node: id, output },
                elements: elements.get(output).cloned().flatten().filter(|_| info.bytes.is_none()),
                info,
            })
            .collect())
    }
}

impl Builder {
    /// Adds a node with graphs of its own.
    pub fn control(
        &mut self,
        name: &str,
        kind: &str,
        inputs: &[Value],
        subgraphs: Vec<Graph>,
        outputs: Vec<Desc>,
    ) -> Vec<Value> {
        let name = self.free_name(name);
        let numbered = |label: &str, at: usize, desc: &Desc| Desc {
            name: format!("{label}{at}"),
            ..desc.clone()
        };
        let node = self.graph.add(Node {
            name,
            kind: kind.to_owned(),
            inputs: inputs.iter().map(|value| Some(value.source)).collect(),
            input_descs: (inputs.iter().enumerate())
                .map(|(at, value)| numbered("input", at, &value.info.desc))
                .collect(),
            output_descs: (outputs.iter().enumerate())
                .map(|(at, desc)| numbered("output", at, desc))
                .collect(),
            subgraphs,
            ..Node::default()
        });
        (outputs.into_iter().enumerate())
            .map(|(output, desc)| {
                Value::new(Source { node, output }, ValueInfo { desc, bytes: None })
            })
            .collect()
    }
}

/// The names of this many inputs or outputs: a list takes all that the others leave.
fn port_names(declared: &[&str], count: usize) -> Vec<String> {
    let listed = count.saturating_sub(declared.len().saturating_sub(1));
    let mut names = Vec::with_capacity(count);
    for name in declared {
        match name.strip_suffix("[]") {
            Some(list) => names.extend((0..listed).map(|at| format!("{list}{at}"))),
            None => names.push(name.trim_end_matches('?').to_owned()),
        }
    }
    names.truncate(count);
    names
}

/// What is known of the outputs of a node.
fn infer_values(
    operation: &Operation,
    node: &Node,
    infos: &[Option<ValueInfo>],
    budget: &Budget,
) -> Result<Vec<ValueInfo>, String> {
    let declared = DeclaredOutputs { outputs: &node.output_descs };
    let inferred = infer(operation, infos, &declared).map_err(|failure| failure.text)?;
    let unknown = |desc| ValueInfo { desc, bytes: None };
    let layouts = match inferred {
        Inference::Partly(descs) => return Ok(descs.into_iter().map(unknown).collect()),
        Inference::Known(layouts) => layouts,
    };
    if operation.row.marks.sized_by_values {
        return Ok(layouts.iter().map(|one| unknown(Desc::of_rank(one))).collect());
    }
    let tensors: Vec<Option<KnownTensor>> =
        infos.iter().map(|info| info.as_ref().and_then(ValueInfo::known_tensor)).collect();
    let folded =
        fold(operation, &tensors, &layouts, &budget.folds).map_err(|failure| failure.text)?;
    let bytes = match folded {
        Some(results) => results.into_iter().map(Some).collect(),
        None => vec![None; layouts.len()],
    };
    Ok((layouts.iter().zip(bytes))
        .map(|(layout, bytes)| ValueInfo { desc: Desc::from_layout(layout), bytes })
        .collect())
}
