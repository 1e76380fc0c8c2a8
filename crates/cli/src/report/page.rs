//! The page: its text, its style and its scripts are files beside this one; the data is put into it.

use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::data::PageData;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");

/// In the order in which they use each other.
const SCRIPTS: [&str; 9] = [
    include_str!("page/data.js"),
    include_str!("page/format.js"),
    include_str!("page/window.js"),
    include_str!("page/memory.js"),
    include_str!("page/map.js"),
    include_str!("page/streams.js"),
    include_str!("page/findings.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
];

/// The whole page as one text.
pub fn render(data: &PageData, summary: &Value, findings: &Value) -> String {
    let facts = json!({
        "record": data.facts,
        "summary": summary,
        "findings": findings,
        "columns": data.columns.table(),
    });
    let title = data.facts["command"].as_str().unwrap_or_default();
    let parts = [
        ("{{title}}", escape(title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{facts}}", for_script(&facts)),
        ("{{columns}}", packed(data.columns.bytes())),
        ("{{script}}", SCRIPTS.join("\n")),
    ];
    let mut page = String::new();
    let mut rest = PAGE;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).expect("the page has this mark");
        page.push_str(before);
        page.push_str(&text);
        rest = after;
    }
    page + rest
}

/// Text between tags.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// JSON that can stand in a script: nothing in it ends the script.
fn for_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Compressed, in letters.
fn packed(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    STANDARD.encode(compressed.expect("writing to memory does not fail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_script() {
        let text = for_script(&json!({"a": "</script><!--"}));
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["a"], "</script><!--");
    }
}
