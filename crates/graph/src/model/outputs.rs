//! What a graph gives, chosen by the user of a tool: other nodes than its own, or other types.

use crate::ir::{Attr, Attrs, Desc, Graph, NET_OUTPUT, Node, NodeId, Source};
use crate::onnx::TENSOR_NAME;
use cairn_tensor::DType;

/// The type of one output, or of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputType {
    /// "node:index" or the name of a tensor; `None` for all.
    pub output: Option<String>,
    /// The type.
    pub dtype: DType,
}

/// The attribute of an input of `NetOutput` with the node and the index of an output that is converted for the user.
pub const CONVERTED: &str = "_cairn_converted_output";

/// Lets a graph give these outputs ("node:index") in place of its own.
pub fn choose_outputs(graph: &mut Graph, outputs: &[String]) -> Result<(), String> {
    let mut sources = Vec::with_capacity(outputs.len());
    for text in outputs {
        let indexed = text.rsplit_once(':').and_then(|(name, index)| {
            let node = graph.find(name.trim())?;
            let output = index.trim().parse::<usize>().ok()?;
            (output < graph.node(node)?.output_descs.len()).then_some(Source { node, output })
        });
        sources.push(indexed.ok_or_else(|| {
            format!("the output '{text}' is not 'node:index' of a node of the graph")
        })?);
    }
    let descs: Vec<Desc> = (sources.iter().enumerate())
        .map(|(at, source)| {
            let node = graph.node(source.node);
            let desc = node.and_then(|node| node.output_descs.get(source.output)).cloned();
            Desc { name: format!("x{at}"), attrs: Attrs::new(), ..desc.unwrap_or_default() }
        })
        .collect();
    match net_output(graph) {
        None => graph.set_outputs(sources),
        Some(id) => {
            if let Some(node) = graph.node_mut(id) {
                node.inputs = sources.into_iter().map(Some).collect();
                node.input_descs = descs;
            }
        }
    }
    Ok(())
}

/// Converts outputs of a graph to these types; of two that name an output the last counts.
pub fn cast_outputs(graph: &mut Graph, types: &[OutputType]) -> Result<(), String> {
    let names = output_labels(graph);
    for OutputType { output, .. } in types {
        if let Some(output) = output
            && !names.iter().flatten().any(|name| name == output)
        {
            let known: Vec<&str> = names.iter().map(|names| names[0].as_str()).collect();
            return Err(format!("there is no output '{output}': there are {}", known.join(", ")));
        }
    }
    let mut sources = graph.outputs();
    for (at, source) in sources.iter_mut().enumerate() {
        let wanted = types.iter().rev().find(|one| match &one.output {
            None => true,
            Some(output) => names[at].contains(output),
        });
        let node = graph.node(source.node);
        let desc = node.and_then(|node| node.output_descs.get(source.output)).cloned();
        let desc = desc.unwrap_or_default();
        if let Some(OutputType { dtype, .. }) = wanted
            && desc.dtype != *dtype
        {
            *source = cast(graph, *source, desc, *dtype);
            if let Some(id) = net_output(graph)
                && let Some(node) = graph.node_mut(id)
                && let Some(desc) = node.input_descs.get_mut(at)
            {
                desc.dtype = *dtype;
                desc.attrs.insert(CONVERTED.to_owned(), Attr::from(names[at][0].as_str()));
            }
        }
    }
    match net_output(graph) {
        None => graph.set_outputs(sources),
        Some(id) => {
            if let Some(node) = graph.node_mut(id) {
                node.inputs = sources.into_iter().map(Some).collect();
            }
        }
    }
    Ok(())
}

fn net_output(graph: &Graph) -> Option<NodeId> {
    graph.nodes().find(|(_, node)| node.kind == NET_OUTPUT).map(|(id, _)| id)
}

/// The names of each output: "node:index", and that of the tensor where the model has one.
fn output_labels(graph: &Graph) -> Vec<Vec<String>> {
    let net = net_output(graph).and_then(|id| graph.node(id));
    (graph.outputs().iter().enumerate())
        .map(|(at, source)| {
            let node = graph.node(source.node).map_or("", |node| &node.name);
            let mut labels = vec![format!("{node}:{}", source.output)];
            let attrs = net.and_then(|net| Some(&net.input_descs.get(at)?.attrs));
            if let Some(Attr::Text(tensor)) = attrs.and_then(|attrs| attrs.get(TENSOR_NAME)) {
                labels.push(String::from_utf8_lossy(tensor).into_owned());
            }
            labels
        })
        .collect()
}

/// A node that converts an output to a type.
fn cast(graph: &mut Graph, source: Source, desc: Desc, dtype: DType) -> Source {
    let base = graph.node(source.node).map_or("", |node| &node.name);
    let mut name = format!("{base}_{}_to_{dtype}", source.output);
    while graph.find(&name).is_some() {
        name.push('_');
    }
    let described = |label: &str, dtype| Desc {
        name: label.to_owned(),
        dtype,
        attrs: Attrs::new(),
        ..desc.clone()
    };
    let node = graph.add(Node {
        name,
        kind: "Cast".to_owned(),
        inputs: vec![Some(source)],
        input_descs: vec![described("x", desc.dtype)],
        output_descs: vec![described("y", dtype)],
        attrs: Attrs::from([("dst_type".to_owned(), Attr::Int(i64::from(dtype.number())))]),
        ..Node::default()
    });
    Source { node, output: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let mut graph = Graph::new("g");
        let desc = Desc::new(DType::Float, &[2]);
        let data = graph.add(Node {
            name: "in".into(),
            kind: "Data".into(),
            output_descs: vec![desc.clone()],
            ..Node::default()
        });
        let relu = graph.add(Node {
            name: "relu".into(),
            kind: "Relu".into(),
            inputs: vec![Some(Source { node: data, output: 0 })],
            input_descs: vec![desc.clone()],
            output_descs: vec![desc.clone()],
            ..Node::default()
        });
        graph.add(Node {
            name: "out".into(),
            kind: NET_OUTPUT.into(),
            inputs: vec![Some(Source { node: relu, output: 0 })],
            input_descs: vec![desc],
            ..Node::default()
        });
        graph
    }

    #[test]
    fn outputs_are_chosen_by_node_and_index() {
        let mut graph = graph();
        choose_outputs(&mut graph, &["in:0".into(), "relu:0".into()]).unwrap();
        assert_eq!(graph.outputs().iter().map(|one| one.node).collect::<Vec<_>>(), [0, 1]);
        for wrong in ["relu:1", "relu", "nobody:0", "relu:x"] {
            let error = choose_outputs(&mut graph, &[wrong.into()]).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn outputs_are_converted_where_the_type_differs() {
        let mut graph = graph();
        let all = |dtype| OutputType { output: None, dtype };
        cast_outputs(&mut graph, &[all(DType::Float)]).unwrap();
        assert_eq!(graph.len(), 3);
        let one = OutputType { output: Some("relu:0".into()), dtype: DType::Float16 };
        cast_outputs(&mut graph, &[all(DType::Int8), one]).unwrap();
        let source = graph.outputs()[0];
        assert_eq!(graph.node(source.node).unwrap().kind, "Cast");
        assert_eq!(graph.output_descs()[0].as_ref().unwrap().dtype, DType::Float16);
        let nobody = OutputType { output: Some("x:0".into()), dtype: DType::Int8 };
        let error = cast_outputs(&mut graph, &[nobody]).unwrap_err();
        assert!(error.contains("'x:0'"), "{error}");
    }
}
