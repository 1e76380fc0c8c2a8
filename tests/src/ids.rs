//! The ids that connect a sentence of the facts, or a clause of the contract, with its assertions in both
//! directions.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Result, ensure};

use crate::program;

/// The prefixes of ids: sentences of the facts about ACL, points of the list of tests there, clauses of
/// the contract, our own sentences about stream-ordered memory, operators, models and communicators. A number follows.
const PREFIXES: [&str; 11] = [
    "acl_3_2_",
    "acl_1_8_",
    "acl_reg_",
    "acl_soma_",
    "aclnn_",
    "aclop_",
    "aclmdl_",
    "ge_reg_",
    "ge_unreg_",
    "ge_run_",
    "hccl_",
];

/// Every id in a program has a row in `tests/c/README.md`, and every row has an assertion.
pub fn check(root: &Path) -> Result<()> {
    let table: BTreeSet<String> = fs::read_to_string(root.join("tests/c/README.md"))?
        .lines()
        .filter_map(|line| ids(line.strip_prefix("| ")?.split('|').next()?).next())
        .collect();
    let mut used = BTreeSet::new();
    for program in program::all(root)? {
        used.extend(ids(&fs::read_to_string(program.source())?));
    }
    let unknown: Vec<_> = used.difference(&table).collect();
    let unchecked: Vec<_> = table.difference(&used).collect();
    ensure!(!table.is_empty(), "tests/c/README.md has no table of ids");
    ensure!(unknown.is_empty(), "ids without a row in tests/c/README.md: {unknown:?}");
    ensure!(unchecked.is_empty(), "sentences without an assertion: {unchecked:?}");
    Ok(())
}

/// The ids in a text.
fn ids(text: &str) -> impl Iterator<Item = String> {
    PREFIXES.into_iter().flat_map(move |prefix| {
        text.split(prefix).skip(1).filter_map(move |rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (digits > 0).then(|| format!("{prefix}{}", &rest[..digits]))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_wherever_they_stand() {
        let text = "GROUP(\"acl_3_2_7 x\"); acl_3_2_; acl_reg_2 acl_3_2_12 acl_1_8_3";
        let found: Vec<_> = ids(text).collect();
        assert_eq!(found, ["acl_3_2_7", "acl_3_2_12", "acl_1_8_3", "acl_reg_2"]);
    }
}
