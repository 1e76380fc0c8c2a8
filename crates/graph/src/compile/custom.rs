//! A node whose operator the program registered: what feeds it, and what it makes, against what is declared of its type.

use super::prepare::ValueId;
use crate::custom::{CustomOperator, CustomOperators, Declaration, Registration};
use crate::failure::{Failure, Result};
use crate::ir::{Attr, Desc, Node, Presence};
use cairn_tensor::DType;
use std::sync::Arc;

/// A node of a type that the program registered.
pub struct CustomNode {
    /// The node's name.
    pub name: String,
    /// Its type.
    pub kind: &'static str,
    /// What computes it.
    pub operator: Arc<dyn CustomOperator>,
    /// How many of the node's inputs, those that are fed, belong to each declared one.
    pub input_counts: Vec<usize>,
    /// The same of its outputs.
    pub output_counts: Vec<usize>,
    /// What the graph says of each output.
    pub outputs: Vec<Desc>,
    /// The values of the declared attributes, in order.
    pub attrs: Vec<Option<Attr>>,
    /// Which of the node's inputs, those that are fed, have to have their values in memory.
    pub needs_values: Vec<usize>,
    /// Pairs of an output and the fed input that it is written into, in place.
    pub references: Vec<(usize, usize)>,
}

impl CustomNode {
    /// The node of the graph, and the index of each input that is fed, in the declared order. `None` if nobody registered
    /// its type.
    pub fn of(
        node: &Node,
        operators: &CustomOperators,
    ) -> Result<Option<(CustomNode, Vec<usize>)>> {
        let Some(Registration { kind, operator }) = operators.get(&node.kind) else {
            return Ok(None);
        };
        let in_node = |text: String| {
            Failure::failed(format!("the node {} ({kind}, a custom operator): {text}", node.name))
        };
        operator
            .prepare()
            .map_err(|failure| failure.in_context(in_node("it cannot run".into()).text))?;
        let declared = operator.declaration().unwrap_or_else(|| default_declaration(node));
        let inputs =
            declared_indices(&declared.inputs, &node.input_descs, "input").map_err(in_node)?;
        let outputs =
            declared_indices(&declared.outputs, &node.output_descs, "output").map_err(in_node)?;
        let is_fed = |index: &usize| node.inputs.get(*index).is_some_and(Option::is_some);
        let fed: Vec<Vec<usize>> =
            inputs.into_iter().map(|one| one.into_iter().filter(is_fed).collect()).collect();
        for ((name, presence), fed) in declared.inputs.iter().zip(&fed) {
            if *presence == Presence::Required && fed.is_empty() {
                return Err(in_node(format!("nothing feeds the input {name}")));
            }
        }
        let order: Vec<usize> = outputs.iter().flatten().copied().collect();
        if order.iter().enumerate().any(|(at, index)| at != *index) {
            return Err(in_node("its outputs are not in the order that is declared".into()));
        }
        let first_fed = |at: usize| fed[..at].iter().map(Vec::len).sum::<usize>();
        let with_values = declared.needs_values.iter().filter(|at| **at < fed.len());
        let needs_values =
            with_values.flat_map(|at| (0..fed[*at].len()).map(|one| first_fed(*at) + one));
        let mut references = Vec::new();
        for (output, (name, _)) in declared.outputs.iter().enumerate() {
            let input = declared.inputs.iter().position(|(one, _)| one == name);
            if let Some(input) = input.filter(|at| fed[*at].len() == 1)
                && let [output] = outputs[output][..]
            {
                references.push((output, first_fed(input)));
            }
        }
        let attr = |(name, default): &(String, Option<Attr>)| {
            node.attrs.get(name).cloned().or_else(|| default.clone())
        };
        let custom = CustomNode {
            name: node.name.clone(),
            kind,
            operator,
            input_counts: fed.iter().map(Vec::len).collect(),
            output_counts: outputs.iter().map(Vec::len).collect(),
            outputs: named_outputs(node, &declared, &outputs),
            attrs: declared.attrs.iter().map(attr).collect(),
            needs_values: needs_values.collect(),
            references,
        };
        Ok(Some((custom, fed.concat())))
    }

    /// What is known of its outputs before it ran: types at most.
    pub fn described_outputs(&self) -> Vec<Desc> {
        let or_float = |dtype| if dtype == DType::Undefined { DType::Float } else { dtype };
        self.outputs.iter().map(|desc| Desc::unknown(or_float(desc.dtype))).collect()
    }

    /// Pairs of an output and the value that it is written into, in place.
    pub fn in_place_outputs(&self, inputs: &[Option<ValueId>]) -> Vec<(usize, ValueId)> {
        let pairs = self.references.iter();
        pairs.filter_map(|(output, input)| Some((*output, inputs[*input]?))).collect()
    }
}

/// What the graph says of each output, under the declared name where the graph has none.
fn named_outputs(node: &Node, declared: &Declaration, indices: &[Vec<usize>]) -> Vec<Desc> {
    let mut outputs = node.output_descs.clone();
    for ((name, _), indices) in declared.outputs.iter().zip(indices) {
        for index in indices.iter().filter(|index| node.output_descs[**index].name.is_empty()) {
            outputs[*index].name.clone_from(name);
        }
    }
    outputs
}

/// What stands for a declaration where there is none: every input and output by itself.
fn default_declaration(node: &Node) -> Declaration {
    let all = |descs: &[Desc], what, presence| -> Vec<(String, Presence)> {
        let name = |(at, desc): (usize, &Desc)| match desc.name.is_empty() {
            true => (format!("{what} {at}"), presence),
            false => (desc.name.clone(), presence),
        };
        descs.iter().enumerate().map(name).collect()
    };
    Declaration {
        inputs: all(&node.input_descs, "input", Presence::Optional),
        outputs: all(&node.output_descs, "output", Presence::Required),
        ..Declaration::default()
    }
}

/// The indices that a node has for each declared input or output: by name where the node names all of them, else one after
/// the other.
fn declared_indices(
    declared: &[(String, Presence)],
    descs: &[Desc],
    what: &str,
) -> std::result::Result<Vec<Vec<usize>>, String> {
    let find = |name: &str| descs.iter().position(|desc| desc.name == name);
    let named: Vec<Vec<usize>> = (declared.iter())
        .map(|(name, presence)| match presence {
            Presence::Dynamic => (0..).map_while(|at| find(&format!("{name}{at}"))).collect(),
            Presence::Required | Presence::Optional => find(name).into_iter().collect(),
        })
        .collect();
    let (found, all) = (named.iter().map(Vec::len).sum::<usize>(), descs.len());
    if found == all {
        return Ok(named);
    }
    let is_dynamic = |(_, presence): &&(String, Presence)| *presence == Presence::Dynamic;
    match declared.iter().find(is_dynamic) {
        None if all <= declared.len() => {
            Ok((0..declared.len()).map(|at| (at..all.min(at + 1)).collect()).collect())
        }
        None => Err(format!("it has {all} {what}s, and {} are declared", declared.len())),
        Some((name, _)) => Err(format!(
            "of its {all} {what}s {found} have names that are declared; name each, those of {name} as {name}0, {name}1 and so on"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descs(names: &[&str]) -> Vec<Desc> {
        names.iter().map(|name| Desc { name: (*name).into(), ..Desc::default() }).collect()
    }

    fn declared(all: &[(&str, Presence)]) -> Vec<(String, Presence)> {
        all.iter().map(|(name, presence)| ((*name).into(), *presence)).collect()
    }

    #[test]
    fn indices_go_by_names_and_lists_take_all_of_theirs() {
        use Presence::{Dynamic, Optional, Required};
        let three = declared(&[("a", Required), ("many", Dynamic), ("b", Optional)]);
        let found =
            declared_indices(&three, &descs(&["a", "many0", "many1", "b"]), "input").unwrap();
        assert_eq!(found, [vec![0], vec![1, 2], vec![3]]);
        let found = declared_indices(&three, &descs(&["a"]), "input").unwrap();
        assert_eq!(found, [vec![0], vec![], vec![]]);
        let unnamed = declared_indices(&three, &descs(&["", ""]), "input").unwrap_err();
        assert!(unnamed.contains("many0"), "{unnamed}");
    }

    #[test]
    fn without_names_indices_go_by_order() {
        let two = declared(&[("a", Presence::Required), ("b", Presence::Optional)]);
        assert_eq!(declared_indices(&two, &descs(&["", ""]), "input").unwrap(), [vec![0], vec![1]]);
        assert_eq!(declared_indices(&two, &descs(&[""]), "input").unwrap(), [vec![0], vec![]]);
        let many = declared_indices(&two, &descs(&["", "", ""]), "input").unwrap_err();
        assert_eq!(many, "it has 3 inputs, and 2 are declared");
    }
}
