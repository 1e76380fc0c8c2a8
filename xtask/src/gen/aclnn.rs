//! The aclnn door, from the operators of the table.
//!
//! `crates/ascendcl/aclnn.txt` holds the signature of every operator there is: `header; function;
//! arguments`. A row of the table that has none yet gets it from the facts in the data folder.
//! From the signatures come the headers in `include/aclnnop` and the exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

const SIGNATURES: &str = "crates/ascendcl/aclnn.txt";
const EXPORTS: &str = "crates/ascendcl/src/aclnn/exports.rs";
const HEADERS: &str = "include/aclnnop";

/// The C declaration of one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature {
    header: String,
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    /// With `*` at the end, without a space before it.
    kind: String,
    name: String,
}

impl Argument {
    fn parse(text: &str) -> Result<Argument> {
        let text = text.trim();
        let start = text.rfind(|c: char| !c.is_alphanumeric() && c != '_');
        let (kind, name) =
            text.split_at(start.with_context(|| format!("'{text}' has no name"))? + 1);
        let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ").replace(" *", "*");
        Ok(Argument { kind, name: name.to_string() })
    }

    fn c(&self) -> String {
        match self.kind.strip_suffix('*') {
            Some(kind) => format!("{kind} *{}", self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }

    fn rust(&self) -> Result<String> {
        let bare = self.kind.trim_start_matches("const ");
        Ok(match bare {
            "aclTensor*" | "aclTensorList*" if bare == self.kind => {
                format!("*mut {}", bare.trim_end_matches('*'))
            }
            "aclTensor*" | "aclTensorList*" | "aclScalar*" | "aclScalarList*" | "aclIntArray*"
            | "aclFloatArray*" | "aclBoolArray*" => {
                format!("*const {}", bare.trim_end_matches('*'))
            }
            "char*" => "*const c_char".into(),
            "int64_t" => "i64".into(),
            "int32_t" | "int" | "aclDataType" => "i32".into(),
            "int8_t" => "i8".into(),
            "uint32_t" => "u32".into(),
            "uint64_t" => "u64".into(),
            "double" => "f64".into(),
            "float" => "f32".into(),
            "bool" => "CBool".into(),
            _ => bail!("the type of '{}' is not known", self.c()),
        })
    }
}

fn arguments(text: &str) -> Result<Vec<Argument>> {
    text.split(',').filter(|one| !one.trim().is_empty()).map(Argument::parse).collect()
}

type Signatures = BTreeMap<String, Signature>;

fn read(root: &Path) -> Result<Signatures> {
    let text = std::fs::read_to_string(root.join(SIGNATURES)).unwrap_or_default();
    let mut found = Signatures::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<&str> = line.split(';').map(str::trim).collect();
        let [header, name, text] = fields[..] else {
            bail!("{SIGNATURES}: '{line}' is not `header; function; arguments`");
        };
        let arguments = arguments(text).with_context(|| format!("{SIGNATURES}: '{line}'"))?;
        found.insert(name.into(), Signature { header: header.into(), arguments });
    }
    Ok(found)
}

/// Adds what the table has and the signatures lack.
fn extend(root: &Path, known: &mut Signatures, required: &BTreeSet<String>) -> Result<()> {
    let absent: BTreeSet<&String> =
        required.iter().filter(|name| !known.contains_key(*name)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let text = match crate::data::facts(root, "aclnn_functions.csv")? {
        Some(file) => std::fs::read_to_string(file)?,
        None => String::new(),
    };
    for line in text.lines().skip(1) {
        let Some((name, rest)) = line.split_once(',') else { continue };
        if !absent.contains(&name.to_string()) {
            continue;
        }
        let (header, rest) = rest.split_once(',').with_context(|| line.to_string())?;
        let types = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => rest.split(',').next().unwrap_or_default(),
        };
        let before_workspace = types.split(", uint64_t*").next().unwrap_or_default();
        let arguments = arguments(before_workspace).with_context(|| format!("facts of {name}"))?;
        known.insert(name.into(), Signature { header: header.into(), arguments });
    }
    let missing: Vec<&String> = required.iter().filter(|name| !known.contains_key(*name)).collect();
    match missing[..] {
        [] => Ok(()),
        _ => bail!("no signature of {missing:?}: write them into {SIGNATURES}"),
    }
}

fn signature_list(signatures: &Signatures) -> String {
    let mut text = String::from(
        "# header; function; arguments before workspaceSize and executor. `cargo xtask gen` adds what the table has.\n",
    );
    let mut rows: Vec<_> = signatures.iter().collect();
    rows.sort_by_key(|(name, signature)| (&signature.header, *name));
    for (name, signature) in rows {
        let arguments: Vec<String> = signature.arguments.iter().map(Argument::c).collect();
        let _ = writeln!(text, "{}; {name}; {}", signature.header, arguments.join(", "));
    }
    text
}

/// What names of functions begin with.
const PREFIXES: [&str; 2] = ["aclnn", "acl"];

fn prefix_of(name: &str) -> &'static str {
    PREFIXES.into_iter().find(|prefix| name.starts_with(prefix)).unwrap_or_default()
}

fn exports(signatures: &Signatures) -> Result<String> {
    let mut text = String::from(
        "//! Generated by cargo xtask gen from aclnn.txt\n\nuse super::argument::CBool;\n\
         use super::operator::{Operator, operators};\nuse crate::abi::*;\nuse std::ffi::{c_char, c_void};\n\n\
         operators! {\n",
    );
    // `acl` begins `aclnn` too, so the longer prefix comes first.
    for prefix in PREFIXES {
        let _ = writeln!(text, "    \"{prefix}\":");
        for (name, signature) in signatures {
            let Some(row) = name.strip_prefix(prefix).filter(|_| prefix_of(name) == prefix) else {
                continue;
            };
            let mut parts = Vec::new();
            for (at, argument) in signature.arguments.iter().enumerate() {
                let kind = argument.rust().with_context(|| name.clone())?;
                parts.push(format!("a{at} \"{}\": {kind}", argument.name));
            }
            let _ = writeln!(text, "    {row}({});", parts.join(", "));
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// A declaration in lines of up to 100 characters.
fn declaration(name: &str, arguments: &[String]) -> String {
    let mut text = format!("aclnnStatus {name}(\n    ");
    let mut column = 4;
    for (at, argument) in arguments.iter().enumerate() {
        let end = if at + 1 == arguments.len() { ");" } else { "," };
        if column > 4 {
            if column + 1 + argument.len() + end.len() > 100 {
                text.push_str("\n    ");
                column = 4;
            } else {
                text.push(' ');
                column += 1;
            }
        }
        let _ = write!(text, "{argument}{end}");
        column += argument.len() + end.len();
    }
    text.push('\n');
    text
}

fn header(file: &str, functions: &[(&String, &Signature)]) -> String {
    let guard = format!("CAIRN_ACLNNOP_{}", file.to_uppercase().replace('.', "_"));
    let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!(
        "/*\n * {}. Generated by cargo xtask gen from crates/ascendcl/aclnn.txt.\n */\n#ifndef {guard}\n\
         #define {guard}\n\n#include \"aclnn/aclnn_base.h\"\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n",
        names.join(", ")
    );
    for (name, signature) in functions {
        let mut first: Vec<String> = signature.arguments.iter().map(Argument::c).collect();
        first.extend(["uint64_t *workspaceSize".into(), "aclOpExecutor **executor".into()]);
        let second = [
            "void *workspace",
            "uint64_t workspaceSize",
            "aclOpExecutor *executor",
            "aclrtStream stream",
        ];
        let _ = write!(
            text,
            "\n/** Checks and plans a call: the bytes of workspace it needs, and an executor for {name}. */\n{}\n\
             /** Submits the call that was planned. */\n{}",
            declaration(&format!("{name}GetWorkspaceSize"), &first),
            declaration(name, &second.map(String::from)),
        );
    }
    text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    text
}

/// Headers that CANN installs under another name than its sources have; both are offered.
const INSTALLED_AS: [(&str, &str); 8] = [
    ("aclnn_gather_v2.h", "aclnn_gather_v2_experimental.h"),
    ("aclnn_group_norm.h", "aclnn_group_norm_experimental.h"),
    ("aclnn_index.h", "aclnn_index_v2.h"),
    ("aclnn_isneginf.h", "aclnn_is_neg_inf.h"),
    ("aclnn_isposinf.h", "aclnn_is_pos_inf.h"),
    ("aclnn_logspace.h", "aclnn_log_space.h"),
    ("aclnn_masked_scale.h", "aclnn_exp_masked_scale.h"),
    ("aclnn_slogdet.h", "aclnn_slogdet_native.h"),
];

/// A header that leads to another.
fn alias(name: &str, file: &str) -> String {
    let guard = format!("CAIRN_ACLNNOP_{}", name.to_uppercase().replace('.', "_"));
    format!(
        "/*\n * The name that CANN installs {file} under. Generated by cargo xtask gen.\n */\n\
         #ifndef {guard}\n#define {guard}\n\n#include \"aclnnop/{file}\"\n\n#endif\n"
    )
}

/// Every generated file with its text. Signatures of operators that the table no longer has are dropped.
pub fn files(root: &Path) -> Result<Vec<(String, String)>> {
    let required: BTreeSet<String> = cairn_ops::rows().values().map(|row| row.function()).collect();
    let mut signatures = read(root)?;
    extend(root, &mut signatures, &required)?;
    signatures.retain(|name, _| required.contains(name));
    let mut files = vec![
        (SIGNATURES.into(), signature_list(&signatures)),
        (EXPORTS.into(), exports(&signatures)?),
    ];
    let mut headers: BTreeMap<&str, Vec<(&String, &Signature)>> = BTreeMap::new();
    for (name, signature) in &signatures {
        headers.entry(&signature.header).or_default().push((name, signature));
    }
    for (name, file) in INSTALLED_AS.iter().filter(|(_, file)| headers.contains_key(file)) {
        if !headers.contains_key(name) {
            files.push((format!("{HEADERS}/{name}"), alias(name, file)));
        }
    }
    for (file, functions) in headers {
        files.push((format!("{HEADERS}/{file}"), header(file, &functions)));
    }
    Ok(files)
}

/// Headers that are there and would not be written.
pub fn obsolete_files(root: &Path, files: &[(String, String)]) -> Result<Vec<String>> {
    super::obsolete_files(root, HEADERS, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_become_c_and_rust() {
        let parsed =
            arguments("const aclTensor* self, aclTensor *out, const int64_t dim, char *mode")
                .unwrap();
        let c: Vec<String> = parsed.iter().map(Argument::c).collect();
        assert_eq!(
            c,
            ["const aclTensor *self", "aclTensor *out", "const int64_t dim", "char *mode"]
        );
        let rust: Vec<String> = parsed.iter().map(|one| one.rust().unwrap()).collect();
        assert_eq!(rust, ["*const aclTensor", "*mut aclTensor", "i64", "*const c_char"]);
        assert!(arguments("void* what").unwrap()[0].rust().is_err());
    }
}
