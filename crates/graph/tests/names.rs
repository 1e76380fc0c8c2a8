//! The graph knows operators by the marks of their rows, never by their names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Kinds of nodes that are the structure of a graph: they stand for no operator of the table.
const STRUCTURE: &[&str] = &[
    "Data",
    "RefData",
    "Const",
    "Constant",
    "Variable",
    "NetOutput",
    "NoOp",
    "If",
    "Case",
    "While",
    "PartitionedCall",
    "StatefulPartitionedCall",
];

/// Folders whose files translate models of others, in which operators have names.
const READERS: &[&str] = &["aipp", "model", "onnx"];

/// Functions that look for a part of a string.
const SEARCHES: &[&str] =
    &["starts_with", "ends_with", "contains", "strip_prefix", "strip_suffix", "find"];

/// The fewest letters that are taken for a part of a name.
const MIN_LETTERS: usize = 4;

/// The lines of a source at which a string literal is one of `names`, or is searched for and is a part of one, with the
/// name. Comments and items under `#[cfg(test)]` do not count.
fn names_in<'a>(source: &str, names: &BTreeSet<&'a str>) -> Vec<(usize, &'a str)> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_test(&tokens[at..]) {
            at = item_end(&tokens, at);
            continue;
        }
        if let Token::Text(line, text) = &tokens[at] {
            let is_searched = is_searched(&tokens[..at]);
            let part = |name: &&&str| is_searched && is_part(text, name);
            if let Some(name) = names.get(text.as_str()).or_else(|| names.iter().find(part)) {
                found.push((*line, *name));
            }
        }
        at += 1;
    }
    found
}

/// Whether what comes after these tokens is what a search looks for.
fn is_searched(before: &[Token]) -> bool {
    let is_search = |word: &String| SEARCHES.contains(&word.as_str());
    matches!(before, [.., Token::Word(word), Token::Punct('(')] if is_search(word))
}

/// Whether a text of letters is the beginning or the end of a name.
fn is_part(text: &str, name: &str) -> bool {
    let is_word = text.len() >= MIN_LETTERS && text.chars().all(char::is_alphanumeric);
    is_word && (name.starts_with(text) || name.ends_with(text))
}

/// What the scan distinguishes.
#[derive(Debug, PartialEq)]
enum Token {
    /// A string literal: the line it begins in, and its text.
    Text(usize, String),
    /// An identifier or a number.
    Word(String),
    /// Any other character.
    Punct(char),
}

/// Whether an attribute `#[cfg(test)]`, or one with other conditions beside it, begins here.
fn is_test(tokens: &[Token]) -> bool {
    let begins = |words: &[&str]| {
        words.iter().zip(tokens).all(|(want, have)| match have {
            Token::Word(word) => word == want,
            Token::Punct(mark) => want.len() == 1 && want.starts_with(*mark),
            Token::Text(..) => false,
        }) && tokens.len() >= words.len()
    };
    begins(&["#", "[", "cfg", "(", "test", ")", "]"])
        || begins(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// After the item whose attribute begins at `at`: after its block, or its semicolon where that comes first.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    let mut is_attribute = false;
    while at < tokens.len() {
        match tokens[at] {
            Token::Punct('#') if depth == 0 => is_attribute = true,
            Token::Punct('{' | '(' | '[') => depth += 1,
            Token::Punct(close @ ('}' | ')' | ']')) => {
                depth -= 1;
                if depth == 0 && close == '}' {
                    return at + 1;
                }
                if depth == 0 && is_attribute && close == ']' {
                    is_attribute = false;
                }
            }
            Token::Punct(';') if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The tokens of a source, without comments and literals of characters.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    let is_at = |at: usize, want: &str| {
        want.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    while at < chars.len() {
        let start = at;
        match chars[at] {
            '/' if is_at(at, "//") => {
                while at < chars.len() && chars[at] != '\n' {
                    at += 1;
                }
            }
            '/' if is_at(at, "/*") => {
                let mut depth = 0;
                loop {
                    if is_at(at, "/*") {
                        (depth, at) = (depth + 1, at + 2);
                    } else if is_at(at, "*/") {
                        (depth, at) = (depth - 1, at + 2);
                    } else {
                        at += 1;
                    }
                    if depth == 0 || at >= chars.len() {
                        break;
                    }
                }
            }
            '"' => {
                let mut text = String::new();
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    at += usize::from(chars[at] == '\\');
                    text.extend(chars.get(at));
                    at += 1;
                }
                at += 1;
                tokens.push(Token::Text(line, text));
            }
            'r' if is_at(at, "r\"") || is_at(at, "r#\"") || is_at(at, "r##\"") => {
                let hashes = chars[at + 1..].iter().take_while(|one| **one == '#').count();
                let close = format!("\"{}", "#".repeat(hashes));
                at += 2 + hashes;
                let begin = at;
                while at < chars.len() && !is_at(at, &close) {
                    at += 1;
                }
                tokens.push(Token::Text(line, chars[begin..at.min(chars.len())].iter().collect()));
                at += close.len();
            }
            '\'' if chars.get(at + 1) == Some(&'\\') => {
                at += 3;
                while at < chars.len() && chars[at] != '\'' {
                    at += 1;
                }
                at += 1;
            }
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            one if one.is_alphanumeric() || one == '_' => {
                while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_') {
                    at += 1;
                }
                tokens.push(Token::Word(chars[start..at].iter().collect()));
            }
            one => {
                if !one.is_whitespace() {
                    tokens.push(Token::Punct(one));
                }
                at += 1;
            }
        }
        let end = at.min(chars.len());
        line += chars[start..end].iter().filter(|one| **one == '\n').count();
    }
    tokens
}

/// The sources of the crate that are neither readers nor tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true if READERS.contains(&name.as_str()) || name == "tests" => {}
            true => sources(&path, found),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            false => {}
        }
    }
}

#[test]
fn no_operator_is_known_by_its_name() {
    let names: BTreeSet<&str> =
        cairn_ops::nodes().keys().copied().filter(|name| !STRUCTURE.contains(name)).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.iter().any(|file| file.ends_with("compile/prepare.rs")), "{files:?}");
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(&root).unwrap().display().to_string();
        let in_file = names_in(&text, &names);
        found
            .extend(in_file.into_iter().map(|(line, name)| format!("src/{file}:{line}: {name:?}")));
    }
    assert!(
        found.is_empty(),
        "what an operator is stands in its row (crates/ops/src/marks.rs), not here:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_scan_sees_names_in_code_alone() {
    let names: BTreeSet<&str> = ["Add", "Relu", "RandomUniform"].into();
    let source = r##"
// "Add"
/* "Add" /* "Relu" */ */
const A: [&str; 2] = ["Add",
    "Adder"];
fn quote<'a>(x: &'a str) -> char { if x == r#"Relu"# { '"' } else { '\'' } }
#[cfg(test)]
use some::{thing, other};
#[cfg(test)]
#[allow(dead_code)]
mod tests {
    fn f() { let x = "Add"; }
}
#[cfg(all(test, unix))]
const B: &str = "Relu";
#[cfg(not(test))]
const C: &str = "Relu \"Add\"";
const D: &str = "Relu";
fn f(x: &str) -> bool { x.starts_with("Random") || x.ends_with("Uniform") || x.starts_with("Ran") }
fn g(x: &str) -> bool { x == "Random" || x.starts_with("Randomly") || x.contains("andom") }
"##;
    let full = [(4, "Add"), (6, "Relu"), (18, "Relu")];
    let parts = [(19, "RandomUniform"), (19, "RandomUniform")];
    assert_eq!(names_in(source, &names), [&full[..], &parts].concat());
}
