//! The headers in `include/` against tables.
//!
//! `golden/abi` pins the values and sizes of the headers. Where the data folder exists (`CAIRN_DATA`, else `../shared` beside the
//! repository), its tables of facts about CANN are compared with the headers too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const VALUES: &str = "tests/golden/abi/values.csv";
const SIZES: &str = "tests/golden/abi/sizes.csv";

/// A C11 program that compiles only when the headers agree with the golden tables.
///
/// # Panics
/// When a table cannot be read: it is part of the repository.
pub fn c_source(root: &Path) -> String {
    let mut source = String::from(
        "#include \"acl/acl.h\"\n#include \"acl/acl_op_compiler.h\"\n#include \"acl/acl_rt_memory_soma.h\"\n\
         #include \"aclnn/acl_meta.h\"\n#include \"aclnn/aclnn_base.h\"\n#include \"cairn/probe.h\"\n#include \"cairn/reason.h\"\n\
         #include \"hccl/hccl.h\"\n#include \"hccl/hccl_sym_win.h\"\n#include \"hccl/hcom.h\"\n#include \"hcomm_res.h\"\n\
         #include \"mstx/ms_tools_ext.h\"\n\n",
    );
    let mut assert = |left: &str, right: &str, name: &str| {
        let suffix = if right.parse::<i64>().is_ok() { "" } else { "ULL" };
        writeln!(source, "_Static_assert({left} == {right}{suffix}, \"{name}\");")
            .expect("a string takes any text");
    };
    for row in golden(root, VALUES) {
        assert(&row[0], &row[1], &row[0]);
    }
    for row in golden(root, SIZES) {
        // A struct whose typedef has another name is known by its tag.
        let tag = if row[0].ends_with("Def") { "struct " } else { "" };
        assert(&format!("sizeof({tag}{})", row[0]), &row[1], &row[0]);
    }
    source.push_str("\nint main(void)\n{\n    return 0;\n}\n");
    source
}

/// The folder with the tables of facts, when it is there.
pub fn facts(root: &Path) -> Option<PathBuf> {
    let configured = std::env::var_os("CAIRN_DATA").filter(|folder| !folder.is_empty());
    let folder = configured.map_or_else(|| root.join("../shared"), PathBuf::from).join("facts");
    folder.join("acl_functions.csv").exists().then_some(folder)
}

/// Compares constants, sizes and signatures with the tables of facts and gives the number of
/// comparisons: 0 when the tables are not there. The error lists every difference.
pub fn compare_with_facts(root: &Path) -> Result<usize, String> {
    let Some(facts) = facts(root) else {
        return Ok(0);
    };
    let mut comparison = Comparison::default();
    comparison.values(root, &facts);
    comparison.sizes(root, &facts);
    comparison.signatures(root, &facts);
    comparison.signatures_of_hccl(root, &facts);
    if comparison.differences.is_empty() {
        Ok(comparison.count)
    } else {
        Err(comparison.differences.join("\n"))
    }
}

#[derive(Default)]
struct Comparison {
    count: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, name: &str, header: &str, table: &str) {
        self.count += 1;
        if header != table {
            self.differences.push(format!("{name}: the header has {header}, the table {table}"));
        }
    }

    fn values(&mut self, root: &Path, facts: &Path) {
        let table: BTreeMap<String, String> = csv(&read(&facts.join("acl_enums.csv")))
            .into_iter()
            .filter(|row| row.len() == 4)
            .map(|row| (first_word(&row[2]).to_owned(), row[3].clone()))
            .collect();
        for row in golden(root, VALUES) {
            match table.get(&row[0]) {
                Some(value) => self.compare(&row[0], &row[1], value),
                None if !row[0].starts_with("ACL_") => {} // the table has no such macros
                None => self.differences.push(format!("{}: not in the table", row[0])),
            }
        }
    }

    fn sizes(&mut self, root: &Path, facts: &Path) {
        let notes = read(&facts.join("acl.md"));
        let Some(line) = notes.lines().find(|line| line.starts_with("Struct sizes")) else {
            return self.differences.push("acl.md has no line of struct sizes".to_owned());
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        for row in golden(root, SIZES) {
            let Some(index) = words.iter().position(|word| *word == row[0]) else {
                continue;
            };
            let size = words.get(index + 1).copied().unwrap_or_default();
            self.compare(&row[0], &row[1], size.trim_end_matches([';', '.', ',']));
        }
    }

    fn signatures(&mut self, root: &Path, facts: &Path) {
        let table: BTreeMap<String, (String, String)> =
            csv(&read(&facts.join("acl_functions.csv")))
                .into_iter()
                .skip(1)
                .map(|row| (row[3].clone(), (row[0].clone(), normalized(&row[4]))))
                .collect();
        for (header, name, signature) in prototypes(&root.join("include"), &["acl", "aclnn"]) {
            match table.get(&name) {
                Some((table_header, known)) => {
                    self.compare(&name, &signature, known);
                    self.compare(&name, &header, table_header);
                }
                None => self.differences.push(format!("{name}: not in the table")),
            }
        }
    }

    /// The table has the functions of several releases, so that headers are not compared; its types have older names.
    fn signatures_of_hccl(&mut self, root: &Path, facts: &Path) {
        let old_names = [("u32", "uint32_t"), ("u64", "uint64_t"), ("rtStream_t", "aclrtStream")];
        let table: BTreeMap<String, String> = csv(&read(&facts.join("hccl_functions.csv")))
            .into_iter()
            .skip(1)
            .map(|row| {
                let words = row[2]
                    .split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let renamed = words.map(|word| {
                    let old = word.trim_end_matches(|letter: char| {
                        !letter.is_alphanumeric() && letter != '_'
                    });
                    let new = old_names.iter().find(|(name, _)| *name == old);
                    new.map_or(word.to_owned(), |(_, new)| word.replace(old, new))
                });
                (row[1].clone(), normalized(&renamed.collect::<String>()))
            })
            .collect();
        for (_, name, signature) in prototypes(&root.join("include"), &["hccl"]) {
            match table.get(&name) {
                Some(known) => self.compare(&name, &signature, known),
                None => self.differences.push(format!("{name}: not in the table")),
            }
        }
    }
}

/// Header, name and normalized prototype of every function that the headers of some folders declare.
fn prototypes(include: &Path, folders: &[&str]) -> Vec<(String, String, String)> {
    let mut prototypes = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(include.join(folder)).expect("the headers are there");
        for entry in entries.map(|entry| entry.expect("the folder can be read").path()) {
            if entry.extension().is_none_or(|extension| extension != "h") {
                continue;
            }
            let file = entry.file_name().unwrap_or_default().to_string_lossy();
            let header = format!("{folder}/{file}");
            for statement in statements(&read(&entry)) {
                if let Some(name) = declared_name(&statement) {
                    prototypes.push((header.clone(), name, normalized(&statement)));
                }
            }
        }
    }
    prototypes
}

/// The statements outside of braces, without comments and preprocessor lines.
fn statements(text: &str) -> Vec<String> {
    let mut code = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        code.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    let code: Vec<&str> = code.lines().filter(|line| !line.starts_with('#')).collect();
    let code = code.join("\n").replace("extern \"C\" {", "");
    let (mut depth, mut statements, mut current) = (0_usize, Vec::new(), String::new());
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && current.contains("static inline") {
                    current.clear();
                }
            }
            ';' if depth == 0 => statements.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(letter),
            _ => {}
        }
    }
    statements
}

/// The name of the function that a statement declares.
fn declared_name(statement: &str) -> Option<String> {
    let statement = statement.trim();
    let (head, _) = statement.split_once('(')?;
    let name = head.rsplit([' ', '*']).next()?;
    let is_ours = ["acl", "Hccl", "Hcom"].iter().any(|prefix| name.starts_with(prefix));
    (is_ours && !head.starts_with("typedef")).then(|| name.to_owned())
}

/// A prototype with no more white space than it needs, and `()` for `(void)`.
fn normalized(signature: &str) -> String {
    let is_word_char = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut text = String::new();
    let mut gap = false;
    for letter in signature.chars() {
        if letter.is_whitespace() {
            gap = true;
            continue;
        }
        if gap && is_word_char(letter) && text.chars().next_back().is_some_and(is_word_char) {
            text.push(' ');
        }
        gap = false;
        text.push(letter);
    }
    text.replace("(void)", "()")
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn golden(root: &Path, name: &str) -> Vec<Vec<String>> {
    csv(&read(&root.join(name))).into_iter().skip(1).collect()
}

/// Rows and fields of a table with commas, quotes and doubled quotes.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !quoted => {}
            _ => field.push(letter),
        }
    }
    if !field.is_empty() || !row.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}
