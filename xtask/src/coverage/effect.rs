//! Which entry points have an effect that a test looks at.
//!
//! The C and C++ programs assert in groups (`GROUP("..")`). A function counts as looked at when a group that calls it
//! also asserts something besides codes: a value, a handle, bytes. That is a rough measure, but one that a function
//! without any effect, called only for its code, does not meet; and it costs nobody anything. What it cannot tell, or
//! gets wrong, is listed in `tests/effects.txt`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail, ensure};

const LIST: &str = "tests/effects.txt";
const FOLDERS: [(&str, &[&str]); 2] = [("tests/c", &["c", "h"]), ("tests/cpp", &["cc", "h"])];

/// Assertions about values; those about codes and texts are none.
const ABOUT_VALUES: [&str; 3] = ["CHECK", "CHECK_EQ", "CHECK_NO_TEXT"];

/// What the tests know of effects.
#[derive(Debug, Default)]
pub struct Effects {
    looked_at: BTreeSet<String>,
    without: BTreeSet<String>,
}

/// What is known of one function's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A test looks at it.
    LookedAt,
    /// No test looks at more than its code.
    Unseen,
    /// It has none.
    Without,
}

impl Effects {
    /// Reads the programs and the list. A line of the list that is not true is an error.
    pub fn read(root: &Path) -> Result<Effects> {
        let mut effects = Effects::default();
        for (folder, endings) in FOLDERS {
            let Ok(entries) = fs::read_dir(root.join(folder)) else { continue };
            for entry in entries {
                let path = entry?.path();
                let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
                if endings.contains(&ending.as_str()) {
                    effects.looked_at.extend(looked_at(&fs::read_to_string(&path)?));
                }
            }
        }
        let list = fs::read_to_string(root.join(LIST)).unwrap_or_default();
        for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            effects.add(root, line).with_context(|| format!("{LIST}: '{line}'"))?;
        }
        Ok(effects)
    }

    fn add(&mut self, root: &Path, line: &str) -> Result<()> {
        let mut words = line.splitn(3, ' ');
        let (Some(kind), Some(name), Some(rest)) = (words.next(), words.next(), words.next())
        else {
            bail!("it is not `kind function reason`");
        };
        match kind {
            "without-effect" => self.without.insert(name.into()),
            "looked-at" => {
                let file = root.join("tests").join(rest);
                let text =
                    fs::read_to_string(&file).with_context(|| format!("cannot read {rest}"))?;
                ensure!(called(&text).contains(name), "{rest} does not call {name}");
                self.looked_at.insert(name.into())
            }
            other => bail!("'{other}' is neither without-effect nor looked-at"),
        };
        Ok(())
    }

    /// Fails for names of the list that there are no entry points of.
    pub fn check_names<T>(&self, known: &BTreeMap<String, T>) -> Result<()> {
        let unknown: Vec<_> =
            self.without.iter().filter(|name| !known.contains_key(*name)).collect();
        ensure!(unknown.is_empty(), "{LIST} names {unknown:?}, which no library has");
        Ok(())
    }

    /// What is known of a function.
    pub fn of(&self, name: &str) -> Effect {
        match () {
            _ if self.without.contains(name) => Effect::Without,
            _ if self.looked_at.contains(name) => Effect::LookedAt,
            _ => Effect::Unseen,
        }
    }
}

/// The functions that groups with assertions about values call.
fn looked_at(text: &str) -> BTreeSet<String> {
    let text = without_comments(text);
    let groups = text.split("GROUP(").flat_map(|part| part.split("\n}\n"));
    let groups =
        groups.map(called).filter(|called| ABOUT_VALUES.iter().any(|one| called.contains(*one)));
    groups.flatten().collect()
}

/// Every word before a bracket.
fn called(text: &str) -> BTreeSet<String> {
    let word = |part: &str| {
        let is_word_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.rsplit(|c: char| !is_word_char(c)).next().unwrap_or_default().to_string()
    };
    text.split('(').map(word).filter(|word| !word.is_empty()).collect()
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        code += &rest[..at];
        rest = rest[at..].split_once("*/").map_or("", |(_, after)| after);
    }
    code += rest;
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    code.lines().map(|one| line(one) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_look_at_values_count() {
        let text = "int helper(void)\n{\n    CHECK_OK(aclUnseen());\n}\nint main(void)\n{\n\
                    GROUP(\"codes\");\n    CHECK_OK(aclCode());\n    CHECK_FAIL(aclCode(), 1, \"x\");\n\
                    GROUP(\"values\");\n    CHECK_OK(aclSet(5)); /* aclTalked( */\n    CHECK_EQ(aclGet(), 5);\n}\n";
        let seen = looked_at(text);
        assert!(seen.contains("aclSet") && seen.contains("aclGet"), "{seen:?}");
        for name in ["aclUnseen", "aclCode", "aclTalked"] {
            assert!(!seen.contains(name), "{name}");
        }
    }

    #[test]
    fn lines_of_the_list_must_be_true() {
        let root = std::env::temp_dir().join(format!("cairn-effects-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("tests/c")).unwrap();
        fs::write(root.join("tests/c/a.h"), "aclRun(1);\n").unwrap();
        let read = |list: &str| {
            fs::write(root.join(LIST), list).unwrap();
            Effects::read(&root)
        };
        let effects = read("without-effect aclLoad because\nlooked-at aclRun c/a.h\n").unwrap();
        assert_eq!(effects.of("aclLoad"), Effect::Without);
        assert_eq!(effects.of("aclRun"), Effect::LookedAt);
        assert_eq!(effects.of("aclOther"), Effect::Unseen);
        assert!(effects.check_names(&BTreeMap::from([("aclRun".to_string(), ())])).is_err());
        for wrong in
            ["looked-at aclOther c/a.h", "looked-at aclRun c/b.h", "works aclRun c/a.h", "aclRun"]
        {
            assert!(format!("{:#}", read(wrong).unwrap_err()).contains(wrong), "{wrong}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
