//! Operators with graphs of their own: `If`, `Loop`, `Scan`. What their graphs read of the graph around them becomes
//! inputs.

use super::builder::{Builder, Value};
use super::conversion::{attrs, axis, element};
use super::graph::{Model, Scope, net_output};
use super::wire::{GraphProto, NodeProto};
use crate::compile::shapes::{ValueInfo, merge_descs};
use crate::ir::{Attrs, Constant, Desc, Graph, UNKNOWN};
use bytes::Bytes;
use cairn_tensor::DType;
use std::collections::BTreeSet;

/// The operators of this file.
pub const OPERATORS: [&str; 3] = ["If", "Loop", "Scan"];

/// The greatest batch of a scan of version 8.
const MAX_BATCH: i64 = 64;

/// How often the sizes of a loop are widened before nothing is assumed of them.
const WIDENINGS: usize = 4;

/// The node, and the graph around it.
pub struct ControlConversion<'m, 'a, 's> {
    pub model: &'m Model<'a>,
    pub node: &'m NodeProto,
    pub label: &'m str,
    pub inputs: Vec<Option<Value>>,
    pub scope: &'m mut Scope<'s>,
    pub builder: &'m mut Builder,
}

/// A graph with the values that it makes.
struct Part {
    graph: Graph,
    outputs: Vec<ValueInfo>,
}

impl ControlConversion<'_, '_, '_> {
    /// Adds the node; gives its outputs.
    pub fn run(mut self) -> Result<Vec<Value>, String> {
        match self.node.op_type.as_str() {
            "If" => self.branch(),
            "Loop" => self.repeat(),
            _ => self.scan(),
        }
    }

    fn graph(&self, name: &str) -> Result<&GraphProto, String> {
        let attribute = self.node.attribute.iter().find(|attribute| attribute.name == name);
        let graph = attribute.and_then(|attribute| attribute.g.as_ref());
        graph.ok_or_else(|| format!("its attribute {name} is missing"))
    }

    fn input(&self, at: usize) -> Result<Value, String> {
        self.inputs.get(at).cloned().flatten().ok_or_else(|| format!("input {at} is missing"))
    }

    /// What graphs read of the names around them, in the order of the names.
    fn captured(&mut self, graphs: &[&GraphProto]) -> Vec<(String, Value)> {
        let names: BTreeSet<&str> = graphs.iter().flat_map(|graph| free_names(graph)).collect();
        let found = names
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.scope.find(name, self.builder)?)));
        found.collect()
    }

    fn branch(&mut self) -> Result<Vec<Value>, String> {
        let condition = self.input(0)?;
        let (then, other) =
            (self.graph("then_branch")?.clone(), self.graph("else_branch")?.clone());
        let captured = self.captured(&[&then, &other]);
        let mut parts = Vec::new();
        for (graph, name) in [(&then, "0_then_branch"), (&other, "1_else_branch")] {
            let name = format!("{}_{name}", self.label);
            parts.push(self.part(&name, &captured, |_, scope, builder, model| {
                model.body(graph, scope, builder)
            })?);
        }
        let types = |part: &Part| -> Vec<DType> {
            part.outputs.iter().map(|info| info.desc.dtype).collect()
        };
        if types(&parts[0]) != types(&parts[1]) {
            return Err(format!(
                "its branches make {:?} and {:?}",
                types(&parts[0]),
                types(&parts[1])
            ));
        }
        let descs = |part: &Part| part.outputs.iter().map(|info| info.desc.clone()).collect();
        let merged = merge_descs(descs(&parts[0]), descs(&parts[1])).expect("as many outputs");
        let inputs: Vec<Value> =
            [condition].into_iter().chain(captured.into_iter().map(|(_, value)| value)).collect();
        let graphs = parts.into_iter().map(|part| part.graph).collect();
        Ok(self.builder.control(self.label, "If", &inputs, graphs, merged))
    }

    /// Builds a graph whose inputs have these names.
    fn part(
        &self,
        name: &str,
        inputs: &[(String, Value)],
        build: impl FnOnce(
            &[Value],
            &mut Scope<'_>,
            &mut Builder,
            &Model<'_>,
        ) -> Result<Vec<Value>, String>,
    ) -> Result<Part, String> {
        let mut builder = Builder::new(name, self.builder.budget.clone());
        let mut scope = self.scope.inner(&format!("{name}/"));
        let mut values = Vec::with_capacity(inputs.len());
        for (name, value) in inputs {
            let mut data = builder.known_data(name, value.info.clone());
            data.elements = value.elements.clone();
            if !name.is_empty() {
                scope.define(name, data.clone())?;
            }
            values.push(data);
        }
        let outputs = build(&values, &mut scope, &mut builder, self.model)?;
        let named: Vec<(&str, Value)> = outputs.iter().map(|value| ("", value.clone())).collect();
        net_output(&mut builder, &named);
        let outputs = outputs.into_iter().map(|value| value.info).collect();
        Ok(Part { graph: builder.graph, outputs })
    }

    /// A loop that counts: its state is the counter, whether it goes on, the carried values, and what was collected.
    fn repeat(&mut self) -> Result<Vec<Value>, String> {
        let body = self.graph("body")?.clone();
        let carried = self.inputs.len().saturating_sub(2);
        if body.input.len() != carried + 2 || body.output.len() < carried + 1 {
            return Err(format!(
                "its body has {} inputs and {} outputs for {carried} carried values",
                body.input.len(),
                body.output.len()
            ));
        }
        let limit = match self.inputs.first().cloned().flatten() {
            Some(limit) => self.scalar(&limit)?,
            None => self.builder.number(self.label, DType::Int64, i64::MAX as f64),
        };
        let goes_on = match self.inputs.get(1).cloned().flatten() {
            Some(condition) => self.scalar(&condition)?,
            None => self.builder.number(self.label, DType::Bool, 1.0),
        };
        let values = (2..self.inputs.len()).map(|at| self.input(at));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        let captured = self.captured(&[&body]);
        let names: Vec<String> = body.input.iter().map(|input| input.name.clone()).collect();
        let collected = body.output.len() - carried - 1;
        let step = Step { first: vec![goes_on], values, collected, captured, limit };
        let outputs = self.iterate(step, |state, scope, builder, model| {
            for (name, value) in names.iter().zip(state) {
                scope.define(name, value.clone())?;
            }
            model.body(&body, scope, builder)
        })?;
        Ok(outputs[2..].to_vec())
    }

    /// A loop over the positions of its scanned inputs.
    fn scan(&mut self) -> Result<Vec<Value>, String> {
        let body = self.graph("body")?.clone();
        let int = |name: &str| {
            let attribute = self.node.attribute.iter().find(|attribute| attribute.name == name);
            attribute.and_then(|attribute| attribute.i)
        };
        let ints = |name: &str| {
            let attribute = self.node.attribute.iter().find(|attribute| attribute.name == name);
            attribute.map_or_else(Vec::new, |attribute| attribute.ints.clone())
        };
        let scanned = int("num_scan_inputs").and_then(|count| usize::try_from(count).ok());
        let Some(scanned) = scanned.filter(|count| *count > 0 && *count <= self.inputs.len())
        else {
            return Err(format!("num_scan_inputs is {:?}", int("num_scan_inputs")));
        };
        if self.scope.version() < 9 {
            return self.scan_batches(scanned, ints("directions"));
        }
        let carried = self.inputs.len() - scanned;
        let axes = ints("scan_input_axes");
        let axes_of_outputs = ints("scan_output_axes");
        let (reversed, reversed_outputs) =
            (ints("scan_input_directions"), ints("scan_output_directions"));
        let values = (0..carried).map(|at| self.input(at));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        let inputs = (carried..self.inputs.len()).map(|at| self.input(at));
        let inputs: Vec<Value> = inputs.collect::<Result<_, _>>()?;
        let mut along = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            let rank = input.rank().ok_or("the rank of a scanned input is not known")?;
            along.push(axis(axes.get(at).copied().unwrap_or(0), rank)? as i64);
        }
        let outputs = ScannedOutputs { axes: axes_of_outputs, reversed: reversed_outputs };
        self.scan_once(&body, values, inputs, &along, &reversed, &outputs)
    }

    /// Version 8: the first input has the lengths, and the first size of all others is that of a batch, whose parts are
    /// scanned one after the other.
    fn scan_batches(&mut self, scanned: usize, reversed: Vec<i64>) -> Result<Vec<Value>, String> {
        let body = self.graph("body")?.clone();
        if self.inputs.first().cloned().flatten().is_some() {
            return Err("Scan of version 8 with lengths is not supported".to_owned());
        }
        let all = (1..self.inputs.len()).map(|at| self.input(at));
        let all: Vec<Value> = all.collect::<Result<_, _>>()?;
        let carried = all.len().checked_sub(scanned).ok_or("it has too few inputs")?;
        let batch = all.last().and_then(|last| last.dims()?.first().copied()).unwrap_or(-1);
        if !(1..=MAX_BATCH).contains(&batch) {
            return Err(format!(
                "Scan of version 8 with a batch of {batch}: 1 to {MAX_BATCH} are supported"
            ));
        }
        let mut parts: Vec<Vec<Value>> = Vec::new();
        for number in 0..batch {
            let label = format!("{}_{number}", self.label);
            let mut one = ControlConversion {
                model: self.model,
                node: self.node,
                label: &label,
                inputs: Vec::new(),
                scope: &mut *self.scope,
                builder: &mut *self.builder,
            };
            let (at, first) = (
                one.builder.number(&label, DType::Int64, number as f64),
                one.builder.number(&label, DType::Int64, 0.0),
            );
            let part = |value: &Value| {
                one.builder.add(&label, "GatherV2", &[value, &at, &first], Attrs::new())
            };
            let mut values: Vec<Value> = all.iter().map(part).collect::<Result<_, _>>()?;
            let inputs = values.split_off(carried);
            let along = vec![0; scanned];
            let outputs = ScannedOutputs::default();
            parts.push(one.scan_once(&body, values, inputs, &along, &reversed, &outputs)?);
        }
        let count = parts[0].len();
        let mut results = Vec::with_capacity(count);
        for at in 0..count {
            let mut rows = Vec::with_capacity(parts.len());
            for part in &parts {
                let first = attrs([("axes", vec![0i64].into())]);
                rows.push(self.builder.add(self.label, "Unsqueeze", &[&part[at]], first)?);
            }
            let join = attrs([("concat_dim", 0i64.into()), ("N", batch.into())]);
            let rows: Vec<&Value> = rows.iter().collect();
            results.push(match rows[..] {
                [only] => only.clone(),
                _ => self.builder.add(self.label, "ConcatD", &rows, join)?,
            });
        }
        Ok(results)
    }

    /// A loop over the positions of `inputs`, each along one of its axes.
    fn scan_once(
        &mut self,
        body: &GraphProto,
        values: Vec<Value>,
        inputs: Vec<Value>,
        along: &[i64],
        reversed: &[i64],
        results: &ScannedOutputs,
    ) -> Result<Vec<Value>, String> {
        let carried = values.len();
        let limit = self.size_along(&inputs[0], along[0])?;
        let mut captured = self.captured(&[body]);
        let first_scanned = captured.len();
        captured.extend(inputs.iter().map(|input| (String::new(), input.clone())));
        let names: Vec<String> = body.input.iter().map(|input| input.name.clone()).collect();
        let collected = body.output.len().saturating_sub(carried);
        let step = Step { first: Vec::new(), values, collected, captured, limit: limit.clone() };
        let label = self.label.to_owned();
        let outputs = self.iterate(step, |state, scope, builder, model| {
            let constants = &state[1 + carried + collected..];
            let (limit, whole) = (&constants[0], &constants[1 + first_scanned..]);
            for (name, value) in names.iter().zip(&state[1..=carried]) {
                scope.define(name, value.clone())?;
            }
            for (at, input) in whole.iter().enumerate() {
                let mut index = state[0].clone();
                if reversed.get(at) == Some(&1) {
                    let one = builder.number(&label, DType::Int64, 1.0);
                    let last = builder.add(&label, "Sub", &[limit, &one], Attrs::new())?;
                    index = builder.add(&label, "Sub", &[&last, &index], Attrs::new())?;
                }
                let along = builder.number(&label, DType::Int64, along[at] as f64);
                let element =
                    builder.add(&label, "GatherV2", &[input, &index, &along], Attrs::new())?;
                scope.define(&names[carried + at], element)?;
            }
            model.body(body, scope, builder)
        })?;
        let mut made = outputs[1..=carried].to_vec();
        for (at, collected) in outputs[1 + carried..].iter().enumerate() {
            let mut value = collected.clone();
            if results.reversed.get(at) == Some(&1) {
                let first = self.builder.numbers(self.label, &[0]);
                value =
                    self.builder.add(self.label, "ReverseV2", &[&value, &first], Attrs::new())?;
            }
            let to = results.axes.get(at).copied().unwrap_or(0);
            let rank = value.rank().ok_or("the rank of a collected output is not known")?;
            let to = axis(to, rank)?;
            if to != 0 {
                let mut order: Vec<i64> = (1..rank as i64).collect();
                order.insert(to, 0);
                let order = self.builder.numbers(self.label, &order);
                value =
                    self.builder.add(self.label, "Transpose", &[&value, &order], Attrs::new())?;
            }
            made.push(value);
        }
        Ok(made)
    }

    fn scalar(&mut self, value: &Value) -> Result<Value, String> {
        match value.rank() {
            Some(0) => Ok(value.clone()),
            _ => {
                let none = self.builder.numbers(self.label, &[]);
                self.builder.add(self.label, "Reshape", &[value, &none], Attrs::new())
            }
        }
    }

    /// The size of an axis, without dimensions.
    fn size_along(&mut self, value: &Value, along: i64) -> Result<Value, String> {
        let int64 = DType::Int64 as i64;
        let sizes =
            self.builder.add(self.label, "Shape", &[value], attrs([("dtype", int64.into())]))?;
        let (at, first) = (
            self.builder.number(self.label, DType::Int64, along as f64),
            self.builder.number(self.label, DType::Int64, 0.0),
        );
        self.builder.add(self.label, "GatherV2", &[&sizes, &at, &first], Attrs::new())
    }

    /// Adds a loop. Its state is the number of the iteration, `first`, the carried values, what was collected, and
    /// what does not change: the limit and what is captured. `body` gets the state and gives `first`, the carried values,
    /// and the values to collect.
    fn iterate(
        &mut self,
        step: Step,
        body: impl Fn(&[Value], &mut Scope<'_>, &mut Builder, &Model<'_>) -> Result<Vec<Value>, String>,
    ) -> Result<Vec<Value>, String> {
        let Step { first, values, collected, captured, limit } = step;
        let zero = self.builder.number(self.label, DType::Int64, 0.0);
        // The values of the state that the body computes anew: the counter, the condition and the carried ones.
        let recomputed = 1 + first.len() + values.len();
        let has_condition = !first.is_empty();
        let mut carried: Vec<Value> = [zero].into_iter().chain(first).chain(values).collect();
        let mut kept: Vec<(String, Value)> = vec![(String::new(), limit)];
        kept.extend(captured);
        let mut descs: Vec<Desc> = carried.iter().map(|value| value.info.desc.clone()).collect();
        let label = self.label.to_owned();
        for time in 0.. {
            let elements = self.elements(&descs, &kept, collected, &body)?;
            let made: Vec<Desc> = elements[..recomputed].to_vec();
            let dims = |descs: &[Desc]| -> Vec<Vec<i64>> {
                descs.iter().map(|desc| desc.dims.clone()).collect()
            };
            let widened = match time < WIDENINGS {
                true => merge_descs(descs.clone(), made).ok_or("its body makes too few values")?,
                false => descs.iter().map(|desc| Desc::unknown(desc.dtype)).collect(),
            };
            if dims(&widened) != dims(&descs) && time <= WIDENINGS {
                descs = widened;
                continue;
            }
            for element in &elements[recomputed..] {
                carried.push(self.empty_collection(element));
                descs.push(match element.is_known() {
                    true => {
                        let dims: Vec<i64> =
                            [UNKNOWN].iter().chain(&element.dims).copied().collect();
                        Desc::new(element.dtype, &dims)
                    }
                    false => Desc::unknown(element.dtype),
                });
            }
            break;
        }
        let state: Vec<(String, Value)> = (carried.iter().zip(&descs))
            .map(|(value, desc)| {
                let info = ValueInfo { desc: desc.clone(), bytes: None };
                (String::new(), Value::new(value.source, info))
            })
            .chain(kept.iter().cloned())
            .collect();
        let limit_at = carried.len();
        let condition =
            self.part(&format!("{label}_cond"), &unnamed(&state), |state, _, builder, _| {
                let inside =
                    builder.add(&label, "Less", &[&state[0], &state[limit_at]], Attrs::new())?;
                match has_condition {
                    true => Ok(vec![builder.add(
                        &label,
                        "LogicalAnd",
                        &[&state[1], &inside],
                        Attrs::new(),
                    )?]),
                    false => Ok(vec![inside]),
                }
            })?;
        let count = carried.len();
        let body =
            self.part(&format!("{label}_body"), &state, |state, scope, builder, model| {
                let made = body(state, scope, builder, model)?;
                let one = builder.number(&label, DType::Int64, 1.0);
                let mut next =
                    vec![builder.add(&label, "Add", &[&state[0], &one], Attrs::new())?];
                next.extend(made[..recomputed - 1].iter().cloned());
                for (at, value) in made[recomputed - 1..].iter().enumerate() {
                    let value = builder.add(
                        &label,
                        "Unsqueeze",
                        &[value],
                        attrs([("axes", vec![0i64].into())]),
                    )?;
                    next.push(append(&label, builder, &state[0], &state[recomputed + at], &value)?);
                }
                next.extend(state[count..].iter().cloned());
                Ok(next)
            })?;
        let inputs: Vec<Value> =
            carried.into_iter().chain(kept.into_iter().map(|(_, value)| value)).collect();
        let mut outputs: Vec<Desc> = descs;
        outputs.extend(inputs[count..].iter().map(|value| value.info.desc.clone()));
        let graphs = vec![condition.graph, body.graph];
        let mut made = self.builder.control(self.label, "While", &inputs, graphs, outputs);
        made.truncate(count);
        Ok(made)
    }

    /// What the body makes of a state with these sizes: the counter, its own values, and one element of each collection.
    fn elements(
        &self,
        descs: &[Desc],
        kept: &[(String, Value)],
        collected: usize,
        body: &impl Fn(&[Value], &mut Scope<'_>, &mut Builder, &Model<'_>) -> Result<Vec<Value>, String>,
    ) -> Result<Vec<Desc>, String> {
        let unknown = |desc: &Desc| {
            let info = ValueInfo { desc: desc.clone(), bytes: None };
            (String::new(), Value::new(kept[0].1.source, info))
        };
        let mut state: Vec<(String, Value)> = descs.iter().map(unknown).collect();
        state.extend((0..collected).map(|_| unknown(&Desc::unknown(DType::Float))));
        state.extend(kept.iter().cloned());
        let part = self.part(self.label, &state, |state, scope, builder, model| {
            let made = body(state, scope, builder, model)?;
            match made.len() == descs.len() - 1 + collected {
                true => Ok(made),
                false => Err(format!("its body makes {} values", made.len())),
            }
        })?;
        let counter = descs[0].clone();
        Ok([counter].into_iter().chain(part.outputs.into_iter().map(|info| info.desc)).collect())
    }

    /// A collection of no elements. One whose sizes are not known has one dimension until there is an element.
    fn empty_collection(&mut self, element: &Desc) -> Value {
        let mut dims = vec![0];
        if element.is_known() {
            dims.extend(&element.dims);
        }
        let desc = Desc::new(element.dtype, &dims);
        let constant = Constant { desc, bytes: Bytes::new() };
        self.builder.constant(&format!("{}/empty", self.label), constant)
    }
}

/// A collection with one more value. Where sizes are not known, the first value is the collection.
fn append(
    label: &str,
    builder: &mut Builder,
    count: &Value,
    collection: &Value,
    value: &Value,
) -> Result<Value, String> {
    let join = || attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
    if collection.info.desc.has_rank() {
        return builder.add(label, "ConcatD", &[collection, value], join());
    }
    let zero = builder.number(label, DType::Int64, 0.0);
    let is_first = builder.add(label, "Equal", &[count, &zero], Attrs::new())?;
    let mut graphs = Vec::new();
    for name in ["first", "next"] {
        let mut inner = Builder::new(&format!("{label}_{name}"), builder.budget.clone());
        let before = inner.known_data("collection", collection.info.clone());
        let appended = inner.known_data("value", value.info.clone());
        let made = match name {
            "first" => appended,
            _ => inner.add(label, "ConcatD", &[&before, &appended], join())?,
        };
        net_output(&mut inner, &[("", made)]);
        graphs.push(inner.graph);
    }
    let inputs = [is_first, collection.clone(), value.clone()];
    let outputs = vec![Desc::unknown(value.dtype())];
    let made = builder.control(&format!("{label}/collect"), "If", &inputs, graphs, outputs);
    made.into_iter().next().ok_or_else(|| "a branch has an output".to_owned())
}

/// Where the collected outputs of a scan grow.
#[derive(Default)]
struct ScannedOutputs {
    axes: Vec<i64>,
    reversed: Vec<i64>,
}

/// A loop to be added.
struct Step {
    /// Whether the loop goes on, where values decide it.
    first: Vec<Value>,
    values: Vec<Value>,
    collected: usize,
    captured: Vec<(String, Value)>,
    limit: Value,
}

fn unnamed(state: &[(String, Value)]) -> Vec<(String, Value)> {
    state.iter().map(|(_, value)| (String::new(), value.clone())).collect()
}

/// The names that a graph reads and does not define.
fn free_names(graph: &GraphProto) -> BTreeSet<&str> {
    let mut defined: BTreeSet<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    defined.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
    defined.extend(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)));
    let mut read: BTreeSet<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    for node in &graph.node {
        read.extend(node.input.iter().map(String::as_str));
        for inner in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            read.extend(free_names(inner));
        }
    }
    read.retain(|name| !name.is_empty() && !defined.contains(name));
    read
}

impl Builder {
    /// Adds a node with one output.
    pub fn add(
        &mut self,
        label: &str,
        kind: &str,
        inputs: &[&Value],
        attrs: Attrs,
    ) -> Result<Value, String> {
        let inputs: Vec<Option<&Value>> = inputs.iter().map(|value| Some(*value)).collect();
        let values = self.node(&format!("{label}/{kind}"), kind, &inputs, attrs, 1)?;
        values.into_iter().next().ok_or_else(|| format!("{kind} has no output"))
    }

    /// A constant without dimensions, of a real or integer type.
    pub fn number(&mut self, label: &str, dtype: DType, value: f64) -> Value {
        let bytes = element(dtype, value).unwrap_or_default();
        let constant = Constant { desc: Desc::new(dtype, &[]), bytes: bytes.into() };
        self.constant(&format!("{label}/Const"), constant)
    }

    /// A constant of one dimension with these int64.
    pub fn numbers(&mut self, label: &str, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let desc = Desc::new(DType::Int64, &[values.len() as i64]);
        self.constant(&format!("{label}/Const"), Constant { desc, bytes: bytes.into() })
    }

    /// An input of the graph of which more is known than its type.
    pub fn known_data(&mut self, name: &str, info: ValueInfo) -> Value {
        let name = if name.is_empty() { "state" } else { name };
        let data = self.data(name, info.desc.clone());
        Value::new(data.source, info)
    }
}
