//! The table of operators against the aclnn functions: signatures, headers, exports.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Result, ensure};

use crate::{symbols, toolkit::Toolkit};

/// The functions of the signatures' file, each with its header.
fn signatures(root: &Path) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root.join("crates/ascendcl/aclnn.txt"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.filter_map(|line| {
        let mut fields = line.split(';').map(|field| field.trim().to_owned());
        Some((fields.next()?, fields.next()?))
    });
    Ok(fields.collect())
}

/// Every row of the table has a signature, every signature a row, and a header that declares both functions.
pub fn are_declared(root: &Path) -> Result<()> {
    let signatures = signatures(root)?;
    let with_signature: BTreeSet<String> =
        signatures.iter().map(|(_, name)| name.clone()).collect();
    let rows: BTreeSet<String> = cairn_ops::rows().values().map(|row| row.function()).collect();
    let differing: Vec<_> = rows.symmetric_difference(&with_signature).collect();
    ensure!(rows.len() > 100, "only {} operators", rows.len());
    ensure!(
        differing.is_empty(),
        "the table and aclnn.txt differ in {differing:?}: run `cargo xtask gen`"
    );
    for (header, name) in signatures {
        let text = fs::read_to_string(root.join("include/aclnnop").join(&header))?;
        for function in [format!(" {name}("), format!(" {name}GetWorkspaceSize(")] {
            ensure!(text.contains(&function), "{header} lacks{function}..)");
        }
    }
    Ok(())
}

/// The library exports both functions of every operator, both of those that it refuses, and no others of that form.
pub fn are_exported(root: &Path, toolkit: &Toolkit) -> Result<()> {
    let library = toolkit.lib64().join("libascendcl.so");
    let (defined, refused) = (symbols::defined(&library)?, symbols::refused(&library)?);
    let signatures = signatures(root)?;
    let mut operators: BTreeSet<&str> = signatures.iter().map(|(_, name)| &**name).collect();
    for name in refused.iter().filter_map(|name| name.strip_suffix("GetWorkspaceSize")) {
        ensure!(refused.contains(name), "{name} is refused in one of its phases only");
        ensure!(operators.insert(name), "{name} is refused, and in the table");
    }
    for name in &operators {
        for function in [name.to_string(), format!("{name}GetWorkspaceSize")] {
            ensure!(defined.contains(&function), "{function} is not exported");
        }
    }
    let first_phases = defined.iter().filter_map(|name| name.strip_suffix("GetWorkspaceSize"));
    let unknown: Vec<_> = first_phases.filter(|name| !operators.contains(name)).collect();
    ensure!(unknown.is_empty(), "first phases without an operator: {unknown:?}");
    Ok(())
}
