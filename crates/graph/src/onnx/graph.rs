//! Graphs of ONNX, node by node, in the scopes of their names.

use super::builder::{Budget, Builder, Value};
use super::control::{self, ControlConversion};
use super::conversion::Conversion;
use super::ops;
use super::tensor::{self, ExternalData};
use super::wire::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, Size, TypeValue,
    ValueInfoProto,
};
use crate::ir::{Attr, Constant, Desc, NET_OUTPUT, Node, UNKNOWN};
use cairn_tensor::DType;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Functions of a model, by domain, name and overload.
pub type Functions<'a> = HashMap<(&'a str, &'a str, &'a str), &'a FunctionProto>;

/// The attribute of an input of `NetOutput` with the name of the tensor in the model.
pub const TENSOR_NAME: &str = "_origin_output_name";

/// What all graphs of one model share.
pub struct Model<'a> {
    /// The model's own functions.
    pub functions: Functions<'a>,
    /// Where data outside of the model is.
    pub external: &'a ExternalData,
    /// Sizes that replace those of inputs, by name.
    pub input_dims: &'a BTreeMap<String, Vec<i64>>,
    /// What it gives in place of its own outputs: names of tensors, or "node:index".
    pub outputs: &'a [String],
    /// The memory that reading it may take.
    pub budget: Rc<Budget>,
    /// The functions that are being expanded, each called by the one before it.
    pub calls: RefCell<Vec<&'a FunctionProto>>,
}

/// The versions of the operator sets that a model or a function imports; the empty domain is ONNX's own.
#[derive(Clone)]
pub struct Opsets(HashMap<String, i64>);

impl Opsets {
    /// Those of a model or a function.
    pub fn new(imports: &[OperatorSetIdProto]) -> Opsets {
        Opsets(imports.iter().map(|one| (domain(&one.domain).to_owned(), one.version)).collect())
    }

    /// The version of a domain.
    pub fn version(&self, name: &str) -> Option<i64> {
        self.0.get(domain(name)).copied()
    }
}

/// A domain with one spelling: ONNX's own has two.
pub fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The names of a graph, or of a function's body.
pub struct Scope<'a> {
    values: HashMap<String, Value>,
    /// Constants that no node has read yet.
    constants: HashMap<&'a str, Constant>,
    opsets: Opsets,
    /// What the names of its nodes begin with.
    prefix: String,
    unnamed: usize,
}

impl<'a> Scope<'a> {
    /// A scope without names.
    pub fn new(opsets: Opsets, prefix: String) -> Scope<'a> {
        let (values, constants) = (HashMap::new(), HashMap::new());
        Scope { values, constants, opsets, prefix, unnamed: 0 }
    }

    /// Gives a value a name; every name has one value.
    pub fn define(&mut self, name: &str, value: Value) -> Result<(), String> {
        match self.values.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("two tensors are named '{name}'")),
        }
    }

    /// The value of a name.
    pub fn find(&mut self, name: &str, builder: &mut Builder) -> Option<Value> {
        if let Some(constant) = self.constants.remove(name) {
            let value = builder.constant(&format!("{}{name}", self.prefix), constant);
            self.values.insert(name.to_owned(), value);
        }
        self.values.get(name).cloned()
    }

    /// A scope without names of its own, for a graph inside of this one.
    pub fn inner<'b>(&self, prefix: &str) -> Scope<'b> {
        Scope::new(self.opsets.clone(), prefix.to_owned())
    }

    /// The version of ONNX's own operators.
    pub fn version(&self) -> i64 {
        self.opsets.version("").unwrap_or_default()
    }

    fn node_name(&mut self, node: &NodeProto) -> String {
        let name = match node.name.is_empty() {
            false => node.name.clone(),
            true => {
                self.unnamed += 1;
                format!("{}_{}", node.op_type, self.unnamed - 1)
            }
        };
        format!("{}{name}", self.prefix)
    }
}

impl<'a> Model<'a> {
    /// The root graph.
    pub fn root(&self, graph: &'a GraphProto, opsets: Opsets) -> Result<Builder, String> {
        let name = if graph.name.is_empty() { "main_graph" } else { &graph.name };
        let mut builder = Builder::new(name, self.budget.clone());
        let mut scope = Scope::new(opsets, String::new());
        self.initializers(graph, &mut scope)?;
        for input in &graph.input {
            if scope.constants.contains_key(input.name.as_str()) {
                continue;
            }
            let wrong = |error| format!("the input '{}': {error}", input.name);
            let mut desc = describe(input).map_err(wrong)?;
            if let Some(dims) = self.input_dims.get(&input.name) {
                desc = with_dims(&desc, dims).map_err(wrong)?;
            }
            let value = builder.data(&input.name, desc);
            scope.define(&input.name, value)?;
        }
        self.nodes(&graph.node, &mut scope, &mut builder)?;
        let names = match self.outputs.is_empty() {
            true => graph.output.iter().map(|output| output.name.as_str()).collect(),
            false => named_outputs(graph, self.outputs)?,
        };
        let mut outputs = Vec::with_capacity(names.len());
        for name in names {
            let value = scope
                .find(name, &mut builder)
                .ok_or_else(|| format!("nothing makes the output '{name}'"))?;
            outputs.push((name, value));
        }
        net_output(&mut builder, &outputs);
        Ok(builder)
    }

    /// The nodes of a graph inside of another, whose inputs are defined; gives its outputs.
    pub fn body(
        &self,
        graph: &GraphProto,
        scope: &mut Scope<'_>,
        builder: &mut Builder,
    ) -> Result<Vec<Value>, String> {
        for tensor in &graph.initializer {
            let wrong = |error| format!("the initializer '{}': {error}", tensor.name);
            let constant = tensor::read(tensor, self.external).map_err(wrong)?;
            let value = builder.constant(&format!("{}{}", scope.prefix, tensor.name), constant);
            scope.define(&tensor.name, value)?;
        }
        self.nodes(&graph.node, scope, builder)?;
        let output = |name: &String| {
            scope.find(name, builder).ok_or_else(|| format!("nothing makes the output '{name}'"))
        };
        graph.output.iter().map(|one| &one.name).map(output).collect()
    }

    /// The constants of a graph: nodes read them by name.
    fn initializers(&self, graph: &'a GraphProto, scope: &mut Scope<'a>) -> Result<(), String> {
        for tensor in &graph.initializer {
            let wrong = |error| format!("the initializer '{}': {error}", tensor.name);
            let constant = tensor::read(tensor, self.external).map_err(wrong)?;
            scope.constants.insert(&tensor.name, constant);
        }
        for sparse in &graph.sparse_initializer {
            let name = sparse.values.as_ref().map_or("", |values| values.name.as_str());
            let constant = tensor::read_sparse(sparse, self.external, &self.budget)
                .map_err(|error| format!("the sparse initializer '{name}': {error}"))?;
            scope.constants.insert(name, constant);
        }
        Ok(())
    }

    /// Nodes in the order of the file, each of which reads what comes before it.
    fn nodes(
        &self,
        nodes: &[NodeProto],
        scope: &mut Scope<'_>,
        builder: &mut Builder,
    ) -> Result<(), String> {
        for (at, node) in nodes.iter().enumerate() {
            let label = scope.node_name(node);
            self.node(node, &label, scope, builder, &nodes[at..])
                .map_err(|error| in_node(&label, &node.op_type, error))?;
        }
        Ok(())
    }

    fn node(
        &self,
        node: &NodeProto,
        label: &str,
        scope: &mut Scope<'_>,
        builder: &mut Builder,
        rest: &[NodeProto],
    ) -> Result<(), String> {
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            inputs.push(match name.is_empty() {
                true => None,
                false => Some(scope.find(name, builder).ok_or_else(|| made_nowhere(name, rest))?),
            });
        }
        let key = (domain(&node.domain), node.op_type.as_str(), node.overload.as_str());
        let outputs = match self.functions.get(&key) {
            Some(function) => self.call(function, node, label, inputs, builder)?,
            None if key.0.is_empty() && control::OPERATORS.contains(&key.1) => {
                ControlConversion { model: self, node, label, inputs, scope, builder }.run()?
            }
            None => {
                let convert = ops::find(domain(&node.domain), &node.op_type)
                    .ok_or_else(|| "the operator is not supported".to_owned())?;
                let opset = scope.opsets.version(&node.domain).ok_or_else(|| {
                    format!("the model imports no operator set of the domain '{}'", node.domain)
                })?;
                let label = label.to_owned();
                Conversion::new(node, opset, inputs, builder, self.external, label).run(convert)?
            }
        };
        for (at, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let value = outputs
                .get(at)
                .ok_or_else(|| format!("its output {at} ('{name}') is not supported"))?;
            scope.define(name, value.clone())?;
        }
        Ok(())
    }

    /// A call of one of the model's functions.
    fn call(
        &self,
        function: &'a FunctionProto,
        node: &NodeProto,
        label: &str,
        inputs: Vec<Option<Value>>,
        builder: &mut Builder,
    ) -> Result<Vec<Value>, String> {
        const MAX_DEPTH: usize = 64;
        let mut calls = self.calls.borrow_mut();
        if let Some(at) = calls.iter().position(|one| std::ptr::eq(*one, function)) {
            let names: Vec<&str> = calls[at..].iter().map(|one| one.name.as_str()).collect();
            let circle = format!("{} -> {}", names.join(" -> "), function.name);
            return Err(format!("the function '{}' calls itself: {circle}", function.name));
        }
        if calls.len() >= MAX_DEPTH {
            return Err(format!("functions call each other more than {MAX_DEPTH} deep"));
        }
        calls.push(function);
        drop(calls);
        let outputs = self.expand(function, node, label, inputs, builder);
        self.calls.borrow_mut().pop();
        outputs
    }

    /// The nodes of a function, in a scope of their own.
    fn expand(
        &self,
        function: &FunctionProto,
        node: &NodeProto,
        label: &str,
        inputs: Vec<Option<Value>>,
        builder: &mut Builder,
    ) -> Result<Vec<Value>, String> {
        let mut scope = Scope::new(Opsets::new(&function.opset_import), format!("{label}/@"));
        let mut absent: Vec<&str> = Vec::new();
        for (at, name) in function.input.iter().enumerate() {
            match inputs.get(at).cloned().flatten() {
                Some(value) => scope.define(name, value)?,
                None => absent.push(name),
            }
        }
        for (at, body) in function.node.iter().enumerate() {
            self.budget.take_function_node()?;
            let mut bound = bind_attributes(body, function, node);
            for name in bound.input.iter_mut().filter(|name| absent.contains(&name.as_str())) {
                name.clear();
            }
            let label = scope.node_name(&bound);
            self.node(&bound, &label, &mut scope, builder, &function.node[at..])
                .map_err(|error| in_node(&label, &bound.op_type, error))?;
        }
        let result = |name: &String| {
            scope
                .values
                .get(name)
                .cloned()
                .ok_or_else(|| format!("nothing makes the output '{name}' of the function"))
        };
        function.output.iter().take(node.output.len()).map(result).collect()
    }
}

/// Why a node cannot read a tensor that neither comes from outside nor was made before it; `rest` are that node and those after it.
fn made_nowhere(name: &str, rest: &[NodeProto]) -> String {
    let makes = |node: &&NodeProto| node.output.iter().any(|output| output == name);
    let later = match rest.iter().find(makes) {
        Some(node) if rest.first().is_some_and(|reader| std::ptr::eq(reader, node)) => {
            ": the node itself makes it, so the graph has a cycle".to_owned()
        }
        Some(node) => format!(
            ": a later {} makes it, so the graph has a cycle or its nodes are not in order",
            node.op_type
        ),
        None => String::new(),
    };
    format!("it reads '{name}', which comes from no input, initializer or earlier node{later}")
}

/// An error of a node. The name of a node inside of another has the other's, so that the innermost is enough.
fn in_node(label: &str, kind: &str, error: String) -> String {
    match error.starts_with("the node '") {
        true => error,
        false => format!("the node '{label}' ({kind}): {error}"),
    }
}

/// A node of a function's body with the attributes that refer to the function's own replaced by their values.
fn bind_attributes(body: &NodeProto, function: &FunctionProto, call: &NodeProto) -> NodeProto {
    let value = |name: &str| -> Option<&AttributeProto> {
        let passed = call.attribute.iter().find(|attribute| attribute.name == name);
        passed.or_else(|| function.attribute_proto.iter().find(|attribute| attribute.name == name))
    };
    let mut bound = body.clone();
    bound.attribute = (body.attribute.iter())
        .filter_map(|attribute| match attribute.ref_attr_name.as_str() {
            "" => Some(attribute.clone()),
            name => {
                let value = value(name)?.clone();
                Some(AttributeProto { name: attribute.name.clone(), ..value })
            }
        })
        .collect();
    bound
}

/// The description of an input; sizes that have no number are unknown.
fn describe(input: &ValueInfoProto) -> Result<Desc, String> {
    let kind = input.r#type.as_ref().and_then(|one| one.value.as_ref());
    let tensor = match kind {
        Some(TypeValue::Tensor(tensor)) => tensor,
        Some(TypeValue::Sequence(_)) => return Err("sequences are not supported".to_owned()),
        Some(TypeValue::Optional(_)) => return Err("optionals are not supported".to_owned()),
        Some(TypeValue::Map(_)) => return Err("maps are not supported".to_owned()),
        Some(TypeValue::Sparse(_)) => return Err("sparse inputs are not supported".to_owned()),
        None => return Err("it has no type".to_owned()),
    };
    let dtype: DType = tensor::dtype(tensor.elem_type)?;
    let Some(shape) = &tensor.shape else { return Ok(Desc::unknown(dtype)) };
    let dims: Vec<i64> = (shape.dim.iter())
        .map(|dim| match &dim.value {
            Some(Size::Value(value)) => *value,
            Some(Size::Parameter(_)) | None => UNKNOWN,
        })
        .collect();
    match dims.iter().find(|dim| **dim < UNKNOWN) {
        Some(_) => Err(format!("it has the sizes {dims:?}")),
        None => Ok(Desc::new(dtype, &dims)),
    }
}

/// The tensors that a user names as outputs.
fn named_outputs<'a>(graph: &'a GraphProto, outputs: &[String]) -> Result<Vec<&'a str>, String> {
    let mut unnamed = 0;
    let mut nodes = HashMap::new();
    for node in &graph.node {
        let name = match node.name.is_empty() {
            false => node.name.clone(),
            true => {
                unnamed += 1;
                format!("{}_{}", node.op_type, unnamed - 1)
            }
        };
        nodes.insert(name, node);
    }
    let find = |text: &String| {
        let mut tensors = graph.node.iter().flat_map(|node| &node.output);
        if let Some(tensor) = tensors.find(|tensor| *tensor == text) {
            return Ok(tensor.as_str());
        }
        let indexed = text.rsplit_once(':').and_then(|(name, index)| {
            Some((nodes.get(name)?, index.trim().parse::<usize>().ok()?))
        });
        let output = indexed.and_then(|(node, index)| node.output.get(index));
        output.map(String::as_str).filter(|tensor| !tensor.is_empty()).ok_or_else(|| {
            format!("the output '{text}' is neither a tensor nor 'node:index' of a node")
        })
    };
    outputs.iter().map(find).collect()
}

/// The description with other sizes, as many as the model has.
fn with_dims(desc: &Desc, dims: &[i64]) -> Result<Desc, String> {
    match !desc.has_rank() || desc.dims.len() == dims.len() {
        true => Ok(Desc::new(desc.dtype, dims)),
        false => Err(format!("it has the sizes {:?} in the model, not {dims:?}", desc.dims)),
    }
}

/// Adds the node that hands out these values, each with its name in the model.
pub fn net_output(builder: &mut Builder, outputs: &[(&str, Value)]) {
    let input_descs = (outputs.iter().enumerate())
        .map(|(at, (name, value))| {
            let mut desc = Desc { name: format!("x{at}"), ..value.info.desc.clone() };
            desc.attrs.insert(TENSOR_NAME.to_owned(), Attr::from(*name));
            desc
        })
        .collect();
    let name = builder.free_name("Node_Output");
    builder.graph.add(Node {
        name,
        kind: NET_OUTPUT.to_owned(),
        inputs: outputs.iter().map(|(_, value)| Some(value.source)).collect(),
        input_descs,
        ..Node::default()
    });
}
