//! The ids that lead from a sentence of the facts to its assertions and back.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Result, ensure};

use crate::program;

/// Every id in a program has a row in `tests/c/README.md`, and every row has an assertion.
pub fn check(root: &Path) -> Result<()> {
    let table: BTreeSet<u32> = fs::read_to_string(root.join("tests/c/README.md"))?
        .lines()
        .filter_map(|line| numbers(line.strip_prefix("| ")?.split('|').next()?).next())
        .collect();
    let mut used = BTreeSet::new();
    for program in program::all(root)? {
        used.extend(numbers(&fs::read_to_string(program.source())?));
    }
    let unknown: Vec<_> = used.difference(&table).collect();
    let unchecked: Vec<_> = table.difference(&used).collect();
    ensure!(!table.is_empty(), "tests/c/README.md has no table of ids");
    ensure!(unknown.is_empty(), "ids without a row in tests/c/README.md: {unknown:?}");
    ensure!(unchecked.is_empty(), "sentences without an assertion: {unchecked:?}");
    Ok(())
}

/// The numbers behind `acl_3_2_` in a text.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split("acl_3_2_").skip(1).filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_wherever_they_stand() {
        let found: Vec<_> = numbers("GROUP(\"acl_3_2_7 x\"); acl_3_2_; acl_3_2_12").collect();
        assert_eq!(found, [7, 12]);
    }
}
