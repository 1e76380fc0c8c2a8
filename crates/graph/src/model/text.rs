//! Models as text, in the text form of the format's messages.

use super::json::to_json;
use crate::ir::Graph;
use bytes::Bytes;
use serde_json::Value;
use std::fmt::Write;

/// A graph and those of its nodes as text, without the bytes of constants.
pub fn to_text(mut graph: Graph) -> Result<String, String> {
    graph.each_constant(&mut |constant| constant.bytes = Bytes::new());
    let json = to_json(&super::write(&graph))?;
    let mut text = String::new();
    write_fields(&mut text, &json, 0);
    Ok(text)
}

fn write_fields(text: &mut String, message: &Value, depth: usize) {
    let Value::Object(fields) = message else { return };
    for (name, value) in fields {
        match value {
            Value::Array(values) => {
                values.iter().for_each(|value| write_field(text, name, value, depth));
            }
            value => write_field(text, name, value, depth),
        }
    }
}

fn write_field(text: &mut String, name: &str, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let _ = match value {
        Value::Object(_) => {
            let _ = writeln!(text, "{indent}{name} {{");
            write_fields(text, value, depth + 1);
            writeln!(text, "{indent}}}")
        }
        // Names of an enumeration have no quotes.
        Value::String(word) if name == "dtype" => writeln!(text, "{indent}{name}: {word}"),
        Value::String(word) => writeln!(text, "{indent}{name}: \"{}\"", escaped(word)),
        other => writeln!(text, "{indent}{name}: {other}"),
    };
}

fn escaped(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for letter in word.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            '\n' => text.push_str("\\n"),
            letter if letter.is_control() => {
                let _ = write!(text, "\\{:03o}", u32::from(letter));
            }
            letter => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attr, Attrs, Constant, Desc, Node};
    use cairn_tensor::DType;

    #[test]
    fn a_graph_is_written_as_text() {
        let mut graph = Graph::new("a \"net\"");
        let desc = Desc::new(DType::Float, &[2]);
        let value = Constant { desc: desc.clone(), bytes: vec![7; 8].into() };
        graph.add(Node {
            name: "c".into(),
            kind: "Const".into(),
            output_descs: vec![desc],
            attrs: Attrs::from([("value".to_owned(), Attr::Tensor(value))]),
            ..Node::default()
        });
        let text = to_text(graph).unwrap();
        for part in [
            "name: \"a \\\"net\\\"\"",
            "  op {\n",
            "    type: \"Const\"",
            "dtype: DT_FLOAT\n",
            "dim: 2\n",
            "key: \"value\"",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("data: "), "{text}");
    }
}
