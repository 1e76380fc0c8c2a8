//! Edges as the format has them: texts at the node they lead to.

use std::fmt;

/// What feeds an input of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge<'a> {
    /// An output of a node.
    Data(&'a str, usize),
    /// A node that runs before.
    Control(&'a str),
    /// Nothing: an optional input.
    Unfed,
}

impl<'a> Edge<'a> {
    /// Reads an edge; the last colon splits, so that names may have colons too.
    pub fn parse(text: &'a str) -> Result<Edge<'a>, String> {
        if text.is_empty() {
            return Ok(Edge::Unfed);
        }
        let wrong = || {
            format!(
                "'{text}' is no edge: it is 'node:output', 'node:-1' for a control edge, or empty"
            )
        };
        let (node, output) = text.rsplit_once(':').ok_or_else(wrong)?;
        match output.parse::<i32>() {
            Ok(-1) => Ok(Edge::Control(node)),
            Ok(output) => {
                usize::try_from(output).map(|at| Edge::Data(node, at)).map_err(|_| wrong())
            }
            Err(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Edge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Edge::Data(node, output) => write!(f, "{node}:{output}"),
            Edge::Control(node) => write!(f, "{node}:-1"),
            Edge::Unfed => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_splits() {
        for (text, edge) in [
            ("a:0", Edge::Data("a", 0)),
            ("a:b::12", Edge::Data("a:b:", 12)),
            (":3", Edge::Data("", 3)),
            ("x:1:-1", Edge::Control("x:1")),
            ("", Edge::Unfed),
        ] {
            assert_eq!(Edge::parse(text), Ok(edge));
            assert_eq!(edge.to_string(), text);
        }
        for text in ["a", "a:", "a:-2", "a:x", "a:99999999999"] {
            assert!(Edge::parse(text).unwrap_err().contains(text));
        }
    }
}
