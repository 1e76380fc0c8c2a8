//! `docs/coverage.md`: which entry points work, by the evidence of a test run.
//!
//! Every process under test leaves a file of counters in the folder named by `CAIRN_COVERAGE`, one
//! line per entry point: `name kind ok fail`, where kind is `works`, `cannot-fail`, `unsupported`, or
//! `operator` for the two functions of an operator of aclnn, counted as one.
//! The counters of all processes are summed. An entry point counts as working only when the tests
//! saw it succeed and, if it can, fail, and look at its effect (`effect.rs`); an operator of aclnn when it ran: the
//! tests with torch compare its results with those of the CPU.

mod effect;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use effect::{Effect, Effects};

const PAGE: &str = "docs/coverage.md";
const WORKS: &str = "works";
const UNSUPPORTED: &str = "not supported";
const WITHOUT_EFFECT: &str = "without effect";

/// Names the folder of counters for the processes under test.
pub const VARIABLE: &str = "CAIRN_COVERAGE";

/// How much of the tests ran. A part never takes a `works` away: what it did not run, it cannot judge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Every test with all it has: `cargo xtask deep`.
    Whole,
    /// Each thing once: `cargo xtask test`.
    Part,
}

/// An empty folder for the counters of a run.
pub fn folder(root: &Path) -> Result<PathBuf> {
    let folder = crate::target_dir(root).join("coverage");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The summed counters of one entry point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counter {
    kind: String,
    ok: u64,
    fail: u64,
}

impl Counter {
    fn state(&self, effect: Effect) -> &'static str {
        match (self.kind.as_str(), self.ok, self.fail, effect) {
            ("unsupported", ..) => UNSUPPORTED,
            (.., Effect::Without) => WITHOUT_EFFECT,
            (_, 0, ..) => "untested",
            ("operator", ..) => WORKS,
            (.., Effect::Unseen) => "code only",
            ("cannot-fail", ..) => WORKS,
            (_, _, 0, _) => "untested failure",
            _ => WORKS,
        }
    }
}

/// Sums the counters in `folder` and rewrites the page when it changed, saying so. With `CI` set, a
/// difference in what works is also printed as a warning.
pub fn update(root: &Path, folder: &Path, run: Run) -> Result<()> {
    let counters = read_counters(folder)?;
    if counters.is_empty() {
        println!("no process left counters: {PAGE} stays as it is");
        return Ok(());
    }
    let path = root.join(PAGE);
    let old = fs::read_to_string(&path).unwrap_or_default();
    let old_states = states_in(&old);
    let effects = Effects::read(root)?;
    effects.check_names(&counters)?;
    let state = |name: &str, counter: &Counter| counter.state(effects.of(name));
    let mut states: BTreeMap<&str, &str> =
        counters.iter().map(|(name, counter)| (name.as_str(), state(name, counter))).collect();
    if run == Run::Part {
        for (name, state) in &mut states {
            if ["untested", "untested failure"].contains(state)
                && old_states.get(name) == Some(&WORKS)
            {
                *state = WORKS;
            }
        }
    }
    let new = render(&states, &headers(&root.join("include"))?);
    if new == old {
        println!("{PAGE} is up to date");
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("the page has a folder"))?;
    fs::write(&path, &new).with_context(|| format!("cannot write {PAGE}"))?;
    println!("{PAGE} changed and was rewritten: commit it");
    if std::env::var_os("CI").is_some_and(|value| !value.is_empty()) {
        let working = |states: &BTreeMap<&str, &str>| -> BTreeSet<String> {
            states
                .iter()
                .filter(|(_, state)| **state == WORKS)
                .map(|(name, _)| name.to_string())
                .collect()
        };
        let (worked_before, works_now) = (working(&old_states), working(&states));
        for name in worked_before.symmetric_difference(&works_now) {
            let change =
                if works_now.contains(name) { "works now" } else { "no longer counts as working" };
            println!("warning: {name} {change}, which {PAGE} does not say");
        }
    }
    Ok(())
}

fn read_counters(folder: &Path) -> Result<BTreeMap<String, Counter>> {
    let mut sum = BTreeMap::<String, Counter>::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in text.lines() {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            let [name, kind, ok, fail] = fields[..] else {
                bail!("{}: '{line}' is not `name kind ok fail`", path.display());
            };
            let number = |text: &str| {
                text.parse::<u64>().with_context(|| format!("{}: '{line}'", path.display()))
            };
            let counter = sum.entry(name.into()).or_default();
            counter.kind = kind.into();
            counter.ok += number(ok)?;
            counter.fail += number(fail)?;
        }
    }
    Ok(sum)
}

/// The states that a page states.
fn states_in(page: &str) -> BTreeMap<&str, &str> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "));
    rows.collect()
}

/// Which header declares what: every identifier that is followed by `(`, by header.
fn headers(include: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![include.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let header = path.strip_prefix(include)?.to_string_lossy().into_owned();
            for name in declared(&fs::read_to_string(&path)?) {
                let owner = found.entry(name).or_insert_with(|| header.clone());
                if header < *owner {
                    owner.clone_from(&header);
                }
            }
        }
    }
    Ok(found)
}

/// Every word before a bracket.
fn declared(text: &str) -> Vec<String> {
    let before_brackets = text.split('(').map(str::trim_end);
    let word = |part: &str| {
        let is_word_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.rsplit(|c: char| !is_word_char(c)).next().unwrap_or_default().to_string()
    };
    before_brackets.map(word).filter(|name| !name.is_empty()).collect()
}

fn render(states: &BTreeMap<&str, &str>, headers: &BTreeMap<String, String>) -> String {
    let mut groups = BTreeMap::<&str, Vec<(&str, &str)>>::new();
    for (name, state) in states {
        let header = match headers.get(*name).map(String::as_str) {
            Some(header) if header.starts_with("aclnnop/") => {
                "aclnnop: operators, each with its GetWorkspaceSize"
            }
            header => header.unwrap_or("declared in no header"),
        };
        groups.entry(header).or_default().push((name, state));
    }
    let count = |kind: &str| states.values().filter(|state| **state == kind).count();
    let mut page = String::from(
        "# Coverage\n\nWritten by `cargo xtask test` from counters in the entry points and from what the tests assert; do not \
         edit.\n\n- `works`: the tests saw it succeed and, if it can fail, fail, and a test that calls it checks what it did: values, \
         bytes, handles, not only codes (judged by the source of the tests: the group of assertions that calls it also asserts \
         values). For an operator: it ran, and tests with torch compare its results with the CPU's.\n\
         - `without effect`: it accepts its arguments and returns 0, and does nothing else (`tests/effects.txt` says why).\n\
         - `code only`: no test checks more than its code.\n- `untested failure`: never seen to fail. `untested`: never seen to \
         succeed.\n- `not supported`: it exists, returns the not-supported code and logs its name.\n",
    );
    let total = states.len();
    let (works, unsupported, without) = (count(WORKS), count(UNSUPPORTED), count(WITHOUT_EFFECT));
    let rest = total - works - unsupported - without;
    let _ = writeln!(
        page,
        "\n{total} entry points: {works} work, {without} have no effect, {rest} lack a test, {unsupported} are not supported."
    );
    for (header, rows) in groups {
        let _ = write!(page, "\n## {header}\n\n| function | state |\n|---|---|\n");
        for (name, state) in rows {
            let _ = writeln!(page, "| `{name}` | {state} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch_repository(name: &str) -> std::path::PathBuf {
        let root =
            std::env::temp_dir().join(format!("cairn-coverage-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("include/acl")).unwrap();
        fs::create_dir_all(root.join("counters")).unwrap();
        let header = "aclError aclInit(const char *path);\naclError\naclrtMalloc (void **p);\nvoid aclAppLog(int level);\n";
        fs::write(root.join("include/acl/acl.h"), header).unwrap();
        fs::create_dir_all(root.join("tests/c")).unwrap();
        let program = "GROUP(1);\naclInit(0);\naclrtMalloc(&p);\naclAppLog(0);\nCHECK(p);\nGROUP(2);\naclLoad();\n";
        fs::write(root.join("tests/c/a.c"), program).unwrap();
        root
    }

    #[test]
    fn counters_of_processes_add_up() {
        let root = scratch_repository("sum");
        let counters = root.join("counters");
        fs::write(
            counters.join("1"),
            "aclInit works 1 0\naclrtMalloc works 5 0\naclAppLog cannot-fail 1 0\naclLoad works 1 1\naclNone works 1 1\n",
        )
        .unwrap();
        fs::write(
            counters.join("2"),
            "aclInit works 0 2\naclrtMalloc works 1 0\nHcclSend unsupported 0 4\n",
        )
        .unwrap();
        fs::write(root.join("tests/effects.txt"), "without-effect aclNone it does nothing\n")
            .unwrap();
        update(&root, &counters, Run::Whole).unwrap();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        let expected = "6 entry points: 2 work, 1 have no effect, 2 lack a test, 1 are not supported.\n\n## acl/acl.h\n\n| function | state |\n|---|---|\n\
                        | `aclAppLog` | works |\n| `aclInit` | works |\n| `aclrtMalloc` | untested failure |\n\n\
                        ## declared in no header\n\n| function | state |\n|---|---|\n| `HcclSend` | not supported |\n\
                        | `aclLoad` | code only |\n| `aclNone` | without effect |\n";
        assert!(page.ends_with(expected), "{page}");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_part_takes_nothing_away() {
        let root = scratch_repository("part");
        let counters = root.join("counters");
        let state = || {
            let page = fs::read_to_string(root.join(PAGE)).unwrap();
            states_in(&page)["aclInit"].to_string()
        };
        fs::write(counters.join("1"), "aclInit works 1 1\n").unwrap();
        update(&root, &counters, Run::Whole).unwrap();
        fs::write(counters.join("1"), "aclInit works 1 0\n").unwrap();
        update(&root, &counters, Run::Part).unwrap();
        assert_eq!(state(), WORKS);
        update(&root, &counters, Run::Whole).unwrap();
        assert_eq!(state(), "untested failure");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_broken_counter_is_named() {
        let root = scratch_repository("broken");
        let counters = root.join("counters");
        update(&root, &counters, Run::Whole).unwrap();
        assert!(!root.join(PAGE).exists());
        fs::write(counters.join("7"), "aclInit works one 0\n").unwrap();
        assert!(
            format!("{:#}", update(&root, &counters, Run::Whole).unwrap_err())
                .contains("aclInit works one 0")
        );
        fs::remove_dir_all(root).unwrap();
    }
}
