//! The table: which name, at which door, is which operator.

use crate::argument::{Arg, Args, Tensor};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family;
use crate::infer::Infer;
use crate::marks::Marks;
use crate::plan::Plan;
use cairn_tensor::Layout;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// Reads the arguments of a call and plans it.
pub type Bind = fn(&mut Call<'_>) -> Result<Plan>;

/// Where an operator's function finds one of its arguments among what the caller passed.
#[derive(Clone, Copy, Debug)]
pub enum ArgSource {
    /// aclnn: the argument at this index. By name: the input at this index.
    A(usize),
    /// By name: the output at this index.
    O(usize),
    /// By name: all inputs from this index on, as a list.
    Rest(usize),
    /// By name: one of several lists of inputs that have the same length. The first number is its index among
    /// them, the second how many they are; the third is how many single inputs follow the last of them.
    Among(usize, usize, usize),
    /// By name: the list of inputs that is declared at this index. All lists have the same length, unless [`LIST_LENGTHS`] says
    /// others.
    Listed(usize),
    /// By name: the single input that is declared at this index, after lists.
    Beyond(usize),
    /// By name: the input at this index counted from the last, which is 0.
    Last(usize),
    /// By name: all outputs from this index on, as a list.
    Outs(usize),
    /// By name: the attribute, or its default.
    Attr(&'static str, AttrDefault),
    /// Nowhere: the argument is absent.
    No,
    /// An integer that the row states.
    I(i64),
    /// A real number that the row states.
    F(f64),
    /// A flag that the row states.
    B(bool),
}

/// What an attribute is when the caller sets none.
#[derive(Clone, Copy, Debug)]
pub enum AttrDefault {
    /// It must be set.
    Required,
    /// It is absent.
    None,
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// Integers.
    Ints(&'static [i64]),
    /// Text.
    Text(&'static str),
}

/// An attribute that a caller by name set.
pub type Attr = Arg;

/// The attribute in which doors pass how many tensors each list of inputs has, where the caller names them.
pub const LIST_LENGTHS: &str = "_list_lengths";

/// An operator at the aclnn door: a prefix and this name.
pub struct Row {
    /// The name without its prefix.
    pub name: &'static str,
    /// What the function's name begins with: `aclnn`, but for a few.
    pub prefix: &'static str,
    bind: Bind,
    arg_sources: Option<&'static [ArgSource]>,
}

/// An operator by its IR name: for `aclop` and for graphs.
#[derive(Clone, Copy)]
pub struct Node {
    /// The IR name.
    pub name: &'static str,
    /// The inputs' names; one that ends in `?` may be absent, in `[]` is a list.
    pub inputs: &'static [&'static str],
    /// The outputs' names; one that ends in `[]` is a list.
    pub outputs: &'static [&'static str],
    /// How its outputs follow from its inputs.
    pub infer: Infer,
    /// What kind of operator it is.
    pub marks: Marks,
    bind: Bind,
    arg_sources: &'static [ArgSource],
}

/// A row whose function takes the arguments as the caller passes them.
pub const fn aclnn(name: &'static str, bind: Bind) -> Row {
    Row { name, prefix: "aclnn", bind, arg_sources: None }
}

impl Row {
    /// With another prefix than `aclnn`.
    pub const fn with_prefix(self, prefix: &'static str) -> Row {
        Row { prefix, ..self }
    }

    /// The name of the C function.
    pub fn function(&self) -> String {
        format!("{}{}", self.prefix, self.name)
    }

    /// With the function's arguments picked from the caller's.
    pub const fn with_args(self, arg_sources: &'static [ArgSource]) -> Row {
        Row { arg_sources: Some(arg_sources), ..self }
    }

    /// Plans a call. `parameters` are the caller's names for `args`.
    pub fn plan(&self, parameters: &[&'static str], args: Args) -> Result<Plan> {
        let Some(arg_sources) = self.arg_sources else {
            let caller_indices = (0..args.len()).collect();
            return (self.bind)(&mut Call::new(self.name, parameters, args, caller_indices));
        };
        let mut chosen = Args::with_capacity(arg_sources.len());
        let mut caller_indices = SmallVec::new();
        for source in arg_sources {
            let (arg, caller_index) = match *source {
                ArgSource::A(at) => (args[at].clone(), at),
                other => (row_constant(other), usize::MAX),
            };
            chosen.push(arg);
            caller_indices.push(caller_index);
        }
        (self.bind)(&mut Call::new(self.name, parameters, chosen, caller_indices))
    }
}

/// The argument that a row states itself.
fn row_constant(source: ArgSource) -> Arg {
    match source {
        ArgSource::I(value) => Arg::Int(value),
        ArgSource::F(value) => Arg::Float(value),
        ArgSource::B(value) => Arg::Flag(value),
        _ => Arg::Absent,
    }
}

/// An operator by IR name, with its function's arguments picked from inputs, outputs and attributes.
pub const fn node(
    name: &'static str,
    inputs: &'static [&'static str],
    outputs: &'static [&'static str],
    infer: Infer,
    bind: Bind,
    arg_sources: &'static [ArgSource],
) -> Node {
    Node { name, inputs, outputs, infer, marks: Marks::NONE, bind, arg_sources }
}

/// What a caller by name passes.
pub struct NodeArgs<'a> {
    /// The inputs, in order; `None` for one that is absent.
    pub inputs: &'a [Option<Tensor>],
    /// The outputs, in order; empty under inference.
    pub outputs: &'a [Tensor],
    /// The attributes that were set, by name.
    pub attributes: &'a [(String, Attr)],
}

impl Node {
    /// Plans a call.
    pub fn plan(&self, node_args: &NodeArgs<'_>) -> Result<Plan> {
        let plan = self.with_call(node_args, |call| (self.bind)(call))?;
        if plan.is_random && !self.marks.random {
            return Err(Error::invalid(format!(
                "internal error (please report): {} draws random numbers and its row is not marked random",
                self.name
            )));
        }
        if !plan.groups.is_empty() && !self.marks.communicates {
            return Err(Error::invalid(format!(
                "internal error (please report): {} communicates and its row is not marked so",
                self.name
            )));
        }
        Ok(plan)
    }

    /// The outputs of a call whose outputs are not known yet.
    pub fn infer(&self, node_args: &NodeArgs<'_>) -> Result<Vec<Layout>> {
        self.with_call(node_args, |call| self.infer.outputs(call))
    }

    /// The names of the attributes it knows.
    pub fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.arg_sources.iter().filter_map(|source| match source {
            ArgSource::Attr(name, _) => Some(*name),
            _ => None,
        })
    }

    /// The attributes it knows, with what each is when it is not set.
    pub fn attribute_defaults(&self) -> impl Iterator<Item = (&'static str, AttrDefault)> {
        self.arg_sources.iter().filter_map(|source| match source {
            ArgSource::Attr(name, default) => Some((*name, *default)),
            _ => None,
        })
    }

    /// Where lists of inputs begin among those declared, and how many there are, one after the other.
    fn lists(&self) -> (usize, usize) {
        let is_list = |name: &&str| name.ends_with("[]");
        let first = self.inputs.iter().position(&is_list);
        let first = first.unwrap_or(self.inputs.len());
        (first, self.inputs[first..].iter().take_while(|name| is_list(name)).count())
    }

    /// Whether inputs are lists that single ones may follow.
    pub fn has_lists(&self) -> bool {
        let (first, lists) = self.lists();
        lists > 1 && first + lists < self.inputs.len()
    }

    /// The length of each list of a call with `count` inputs, at least 1: single inputs at the end may be left off.
    pub(crate) fn list_length(&self, count: usize) -> usize {
        let (_, lists) = self.lists();
        let singles = self.inputs.len() - lists;
        (count.saturating_sub(singles) / lists.max(1)).max(1)
    }

    /// How many of the names belong to each list, as [`LIST_LENGTHS`] has it; `None` where lists have no single inputs after
    /// them, or where a name is neither that of a single input nor that of a list with a number after it.
    pub fn list_lengths<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<Arg> {
        let (first, lists) = self.lists();
        if !self.has_lists() {
            return None;
        }
        let mut lengths = vec![0; lists];
        for name in names {
            let at = self.inputs.iter().position(|declared| match declared.strip_suffix("[]") {
                None => declared.trim_end_matches('?') == name,
                Some(list) => name.strip_prefix(list).is_some_and(|rest| {
                    !rest.is_empty() && rest.bytes().all(|one| one.is_ascii_digit())
                }),
            })?;
            if let Some(length) = at.checked_sub(first).and_then(|at| lengths.get_mut(at)) {
                *length += 1;
            }
        }
        Some(Arg::Ints(lengths))
    }

    /// The indices that each declared input or list has in a call.
    fn ranges(&self, node_args: &NodeArgs<'_>) -> Result<Vec<Range<usize>>> {
        let ((first, lists), count) = (self.lists(), node_args.inputs.len());
        let stated = node_args.attributes.iter().find(|(name, _)| name == LIST_LENGTHS);
        let lengths = match stated {
            Some((_, Arg::Ints(lengths))) => lengths.clone(),
            _ => vec![self.list_length(count) as i64; lists],
        };
        let (mut ranges, mut start) = (Vec::with_capacity(self.inputs.len()), 0usize);
        for declared in 0..self.inputs.len() {
            let length = match declared.checked_sub(first).filter(|at| *at < lists) {
                None => 1,
                Some(at) => lengths.get(at).copied().unwrap_or(0),
            };
            let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
            let is_list = (first..first + lists).contains(&declared);
            let Some(end) = end.filter(|end| !is_list || stated.is_none() || *end <= count) else {
                let names = self.inputs.join(", ");
                return Err(Error::invalid(format!(
                    "{count} inputs in lists of {lengths:?}: expected {names}"
                )));
            };
            ranges.push(start..end);
            start = end;
        }
        Ok(ranges)
    }

    /// The index at which the input at an index of a call with `count` inputs is declared.
    pub fn declared(&self, at: usize, count: usize) -> usize {
        let ((first, lists), length) = (self.lists(), self.list_length(count));
        match at.checked_sub(first) {
            Some(after) if after < lists * length => first + after / length,
            Some(after) => first + lists + (after - lists * length),
            None => at,
        }
    }

    /// Runs a function with a [`Call`] whose arguments are picked as the row says.
    fn with_call<T>(
        &self,
        node_args: &NodeArgs<'_>,
        run: impl FnOnce(&mut Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let (max_inputs, max_outputs) = (max_count(self.inputs), max_count(self.outputs));
        let min_inputs = self.inputs.iter().filter(|name| !name.ends_with(['?', ']'])).count();
        if node_args.inputs.len() > max_inputs || node_args.inputs.len() < min_inputs {
            let (have, names) = (node_args.inputs.len(), self.inputs.join(", "));
            return Err(Error::invalid(format!("{have} inputs; expected {names}")));
        }
        if node_args.outputs.len() > max_outputs {
            let (have, names) = (node_args.outputs.len(), self.outputs.join(", "));
            return Err(Error::invalid(format!("{have} outputs; it has {names}")));
        }
        let mut parameters: Vec<&'static str> = Vec::new();
        let (mut args, mut caller_indices) = (SmallVec::new(), SmallVec::new());
        let inputs = node_args.inputs.len();
        let ranges = if self.has_lists() { self.ranges(node_args)? } else { Vec::new() };
        for source in self.arg_sources {
            let (name, arg, caller_index) = match *source {
                ArgSource::A(at) => {
                    let tensor = node_args.inputs.get(at).cloned().flatten();
                    (bare_name(self.inputs, at), tensor.map_or(Arg::Absent, Arg::Tensor), at)
                }
                ArgSource::O(at) => {
                    let tensor = node_args.outputs.get(at).cloned();
                    (
                        bare_name(self.outputs, at),
                        tensor.map_or(Arg::Absent, Arg::Tensor),
                        inputs + at,
                    )
                }
                ArgSource::Rest(from) => {
                    let list = node_args.inputs.get(from..).unwrap_or(&[]);
                    let list = list.iter().flatten().cloned().collect();
                    (bare_name(self.inputs, from), Arg::Tensors(list), from)
                }
                ArgSource::Among(which, of, after) => {
                    let (name, start, list) =
                        list_among(self.inputs, node_args.inputs, which, of, after)?;
                    (name, Arg::Tensors(list), start)
                }
                ArgSource::Listed(declared) => {
                    let range = ranges.get(declared).cloned().unwrap_or(declared..inputs);
                    let list = node_args.inputs.iter().skip(range.start).take(range.len());
                    let list = list.flatten().cloned().collect();
                    (bare_name(self.inputs, declared), Arg::Tensors(list), range.start)
                }
                ArgSource::Beyond(declared) => {
                    let at = ranges.get(declared).map_or(declared, |range| range.start);
                    let tensor = node_args.inputs.get(at).cloned().flatten();
                    let arg = tensor.map_or(Arg::Absent, Arg::Tensor);
                    (bare_name(self.inputs, declared), arg, at)
                }
                ArgSource::Last(from_end) => {
                    let at = inputs.checked_sub(from_end + 1);
                    let tensor = at.and_then(|at| node_args.inputs[at].clone());
                    let name =
                        bare_name(self.inputs, self.inputs.len().saturating_sub(from_end + 1));
                    (name, tensor.map_or(Arg::Absent, Arg::Tensor), at.unwrap_or(usize::MAX))
                }
                ArgSource::Outs(from) => {
                    let list = node_args.outputs.get(from..).unwrap_or(&[]).to_vec();
                    (bare_name(self.outputs, from), Arg::Tensors(list), inputs + from)
                }
                ArgSource::Attr(name, default) => {
                    let set = node_args.attributes.iter().find(|(set, _)| set == name);
                    let arg = match set {
                        Some((_, value)) => value.clone(),
                        None => default_value(name, default)?,
                    };
                    (name, arg, usize::MAX)
                }
                other => ("argument", row_constant(other), usize::MAX),
            };
            parameters.push(name);
            args.push(arg);
            caller_indices.push(caller_index);
        }
        // The caller's index is where it finds the argument again; names go by the function's own order.
        run(&mut Call::named(self.name, &parameters, args, caller_indices))
    }
}

/// One of `of` lists of inputs with the same length, before `after` single ones: its name, where it begins, and
/// the list.
fn list_among(
    names: &'static [&'static str],
    inputs: &[Option<Tensor>],
    which: usize,
    of: usize,
    after: usize,
) -> Result<(&'static str, usize, Vec<Tensor>)> {
    let total = inputs.len().saturating_sub(after);
    if !total.is_multiple_of(of) {
        let (have, names) = (inputs.len(), names.join(", "));
        return Err(Error::invalid(format!(
            "{have} inputs; expected {names}, where all lists have the same length"
        )));
    }
    let (start, length) = (which * (total / of), total / of);
    let list = inputs[start..start + length].iter().flatten().cloned().collect();
    Ok((bare_name(names, which), start, list))
}

/// How many tensors fit these names: any number where one is a list.
fn max_count(names: &[&str]) -> usize {
    if names.iter().any(|name| name.ends_with("[]")) { usize::MAX } else { names.len() }
}

/// The name at an index, or the last where there are fewer, without `?` and `[]`.
fn bare_name(names: &'static [&'static str], at: usize) -> &'static str {
    names.get(at).or(names.last()).map_or("argument", |name| name.trim_end_matches(['?', '[', ']']))
}

fn default_value(name: &str, default: AttrDefault) -> Result<Arg> {
    Ok(match default {
        AttrDefault::Required => {
            return Err(Error::invalid(format!("the attribute {name} must be set")));
        }
        AttrDefault::None => Arg::Absent,
        AttrDefault::Int(value) => Arg::Int(value),
        AttrDefault::Float(value) => Arg::Float(value),
        AttrDefault::Flag(value) => Arg::Flag(value),
        AttrDefault::Ints(values) => Arg::Ints(values.to_vec()),
        AttrDefault::Text(text) => Arg::Text(text.into()),
    })
}

/// Every row of the aclnn door, by name without its prefix.
pub fn rows() -> &'static HashMap<&'static str, &'static Row> {
    static ROWS: OnceLock<HashMap<&'static str, &'static Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        family::ROWS.iter().flat_map(|rows| rows.iter()).map(|row| (row.name, row)).collect()
    })
}

/// The operator that copies a tensor as it is into memory of its own.
pub fn copy() -> &'static Node {
    family::COPY
}

/// Every operator by its IR name.
pub fn nodes() -> &'static HashMap<&'static str, &'static Node> {
    static NODES: OnceLock<HashMap<&'static str, &'static Node>> = OnceLock::new();
    NODES.get_or_init(|| {
        family::NODES.iter().flat_map(|nodes| nodes.iter()).map(|node| (node.name, node)).collect()
    })
}
