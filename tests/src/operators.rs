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

/// The library exports both functions of every operator, and no others of that form.
pub fn are_exported(root: &Path, toolkit: &Toolkit) -> Result<()> {
    let defined = symbols::defined(&toolkit.lib64().join("libascendcl.so"))?;
    let signatures = signatures(root)?;
    for (_, name) in &signatures {
        for function in [name.clone(), format!("{name}GetWorkspaceSize")] {
            ensure!(defined.contains(&function), "{function} is not exported");
        }
    }
    let phases = defined.iter().filter(|name| name.ends_with("GetWorkspaceSize")).count();
    ensure!(phases == signatures.len(), "{phases} first phases for {} operators", signatures.len());
    Ok(())
}
