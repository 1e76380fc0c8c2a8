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
}

static ROWS: LazyLock<BTreeMap<&'static str, Declaration>> = LazyLock::new(|| {
    let text = include_str!("../../../../cpp/operators.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(row).collect()
});

/// What is declared of an operator.
pub fn of(kind: &str) -> Option<&'static Declaration> {
    ROWS.get(kind)
}

/// The names of all operators.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.keys().copied()
}

fn row(line: &'static str) -> Option<(&'static str, Declaration)> {
    let mut fields = line.split('|').map(str::trim);
    let kind = fields.next().filter(|kind| !kind.is_empty())?;
    let (inputs, outputs) = (ports(fields.next()?), ports(fields.next()?));
    let attrs = fields.next().unwrap_or_default().split(';').filter_map(attr).collect();
    Some((kind, Declaration { inputs, outputs, attrs }))
}

fn ports(text: &'static str) -> Vec<(&'static str, Presence)> {
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
fn attr(text: &'static str) -> Option<(String, String, Option<Attr>)> {
    let (name, rest) = text.split_once(':')?;
    let (kind, default) = rest.split_once(',').unwrap_or((rest, ""));
    let (kind, default) = (kind.trim(), default.trim());
    let mut word = String::from("VT");
    for letter in kind.chars() {
        if letter.is_uppercase() {
            word.push('_');
        }
        word.push(letter.to_ascii_uppercase());
    }
    let word = if word == "VT_TYPE" { "VT_DATA_TYPE".into() } else { word };
    let default = (!default.is_empty()).then(|| value(kind, default)).flatten();
    Some((name.trim().trim_end_matches('!').into(), word, default))
}

fn value(kind: &str, text: &str) -> Option<Attr> {
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
