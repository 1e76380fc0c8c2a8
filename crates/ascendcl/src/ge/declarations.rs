//! What the IR declares of every operator: `cpp/operators.txt`, from which the op classes are made too.

use cairn_graph::ir::{Attr, Presence};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What the IR declares of one operator.
pub struct Declaration {
    /// Inputs, in order.
    pub inputs: Vec<(&'static str, Presence)>,
    /// Outputs, in order.
    pub outputs: Vec<(&'static str, Presence)>,
    /// Attributes: name, type, default.
    pub attrs: Vec<(String, String, Option<Attr>)>,
    /// Graphs of its own, in order.
    pub graphs: Vec<(&'static str, Presence)>,
}

/// By type.
static DECLARATIONS: LazyLock<BTreeMap<&'static str, Declaration>> = LazyLock::new(|| {
    let text = include_str!("../../../../cpp/operators.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(parse_line).collect()
});

/// What is declared of an operator.
pub fn of(kind: &str) -> Option<&'static Declaration> {
    DECLARATIONS.get(kind)
}

/// The names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    DECLARATIONS.keys().copied()
}

/// `type | inputs | outputs | attributes`, and `| graphs` after them if there are some
fn parse_line(line: &'static str) -> Option<(&'static str, Declaration)> {
    let mut fields = line.split('|').map(str::trim);
    let kind = fields.next().filter(|kind| !kind.is_empty())?;
    let (inputs, outputs) = (parse_ports(fields.next()?), parse_ports(fields.next()?));
    let attrs = fields.next().unwrap_or_default().split(';').filter_map(parse_attr).collect();
    let graphs = parse_ports(fields.next().unwrap_or_default());
    Some((kind, Declaration { inputs, outputs, attrs, graphs }))
}

/// Inputs or outputs: `name`, `name?` for an optional one, `name[]` for a dynamic one.
fn parse_ports(text: &'static str) -> Vec<(&'static str, Presence)> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let presence = match (name.ends_with("[]"), name.ends_with('?')) {
                (true, _) => Presence::Dynamic,
                (_, true) => Presence::Optional,
                _ => Presence::Required,
            };
            (name.trim_end_matches(['?', '[', ']']), presence)
        })
        .collect()
}

/// `name!:Type` for what must be set, `name:Type, default` for the rest.
fn parse_attr(text: &'static str) -> Option<(String, String, Option<Attr>)> {
    let (name, rest) = text.split_once(':')?;
    let (kind, default) = rest.split_once(',').unwrap_or((rest, ""));
    let (kind, default) = (kind.trim(), default.trim());
    let mut type_name = String::from("VT");
    for letter in kind.chars() {
        if letter.is_uppercase() {
            type_name.push('_');
        }
        type_name.push(letter.to_ascii_uppercase());
    }
    let type_name = if type_name == "VT_TYPE" { "VT_DATA_TYPE".into() } else { type_name };
    let default = (!default.is_empty()).then(|| parse_default(kind, default)).flatten();
    Some((name.trim().trim_end_matches('!').into(), type_name, default))
}

/// A default as C++ writes it.
fn parse_default(kind: &str, text: &str) -> Option<Attr> {
    let inner = text.trim_start_matches('{').trim_end_matches('}');
    let parts = || inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    Some(match kind {
        "Int" => Attr::Int(text.parse().ok()?),
        "Float" => Attr::Float(text.trim_end_matches(['f', 'F']).parse().ok()?),
        "Bool" => Attr::Flag(text.parse().ok()?),
        "String" => Attr::Text(text.trim_matches('"').into()),
        "ListInt" => Attr::Ints(parts().map(str::parse).collect::<Result<_, _>>().ok()?),
        "ListFloat" => {
            let numbers = parts().map(|part| part.trim_end_matches(['f', 'F']).parse());
            Attr::Floats(numbers.collect::<Result<_, _>>().ok()?)
        }
        "ListBool" => Attr::Flags(parts().map(str::parse).collect::<Result<_, _>>().ok()?),
        _ => return None,
    })
}
