//! Does the environment lead to this toolkit?

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use super::Report;
use crate::{
    environment::{self, LISTS, elements},
    toolkit::{FileId, REAL_LIBRARIES, Toolkit},
};

/// Checks the variables that `set_env.sh` sets. Unset ones are only noted: `cairn run` needs none.
pub fn check(toolkit: &Toolkit, current: impl Fn(&str) -> Option<OsString>, report: &mut Report) {
    let script = toolkit.root().join("set_env.sh");
    let mut unset = Vec::new();
    let mut correct = 0;
    for (name, expected) in environment::variables(toolkit, &current) {
        let is_list = LISTS.iter().any(|(list, _)| *list == name);
        match current(name).filter(|value| !value.is_empty()) {
            None => unset.push(name),
            Some(_) if is_list => {}
            Some(value) if same_folder(&value, &expected) => correct += 1,
            Some(value) => report.wrong(format!(
                "{name} is {} and not {}: source {}",
                value.to_string_lossy(),
                expected.to_string_lossy(),
                script.display()
            )),
        }
    }
    if correct > 0 {
        report.fine(format!("{correct} ASCEND_* variables lead here"));
    }
    if !unset.is_empty() {
        let names = unset.join(", ");
        report.note(format!("not set: {names}. Source {}, or use `cairn run`", script.display()));
    }
    check_lists(toolkit, &current, report);
    if let Some(preload) = current("LD_PRELOAD").filter(|value| !value.is_empty()) {
        let preload = preload.to_string_lossy().into_owned();
        report
            .note(format!("LD_PRELOAD is {preload}: torch_npu then looks for symbols there first"));
    }
}

/// Checks the variables that are lists of folders.
fn check_lists(
    toolkit: &Toolkit,
    current: &impl Fn(&str) -> Option<OsString>,
    report: &mut Report,
) {
    for (name, folders) in LISTS {
        let list = current(name).unwrap_or_default();
        if elements(&list).any(OsStr::is_empty) {
            report.note(format!("{name} has an empty element, which means the current folder"));
        }
        for folder in folders.iter().map(|folder| toolkit.root().join(folder)) {
            if !list.is_empty()
                && !elements(&list).any(|element| same_folder(element, folder.as_os_str()))
            {
                report.note(format!("{name} does not contain {}", folder.display()));
            }
        }
    }
    let list = current("LD_LIBRARY_PATH").unwrap_or_default();
    let library = |folder: &OsStr| Path::new(folder).join(REAL_LIBRARIES[0]);
    let first = elements(&list).find(|folder| !folder.is_empty() && library(folder).exists());
    match first {
        None => {}
        Some(folder)
            if FileId::of(&library(folder)).ok()
                == FileId::of(&toolkit.library(REAL_LIBRARIES[0])).ok() =>
        {
            report.fine("LD_LIBRARY_PATH finds this toolkit first");
        }
        Some(folder) => report.wrong(format!(
            "LD_LIBRARY_PATH finds another libascendcl.so first, in {}: source {} last",
            folder.to_string_lossy(),
            toolkit.root().join("set_env.sh").display()
        )),
    }
}

fn same_folder(a: &OsStr, b: &OsStr) -> bool {
    a == b
        || matches!((FileId::of(Path::new(a)), FileId::of(Path::new(b))), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use std::{collections::BTreeMap, fs, path::PathBuf};

    fn scratch(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("cairn-settings-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("lib64")).unwrap();
        fs::write(root.join("lib64/libascendcl.so"), "").unwrap();
        root
    }

    fn examine(root: &Path, settings: &[(&str, String)]) -> Report {
        let settings: BTreeMap<_, _> = settings.iter().cloned().collect();
        let mut report = Report::default();
        check(&Toolkit::at(root), |name| settings.get(name).map(OsString::from), &mut report);
        report
    }

    #[test]
    fn the_right_environment_is_clean() {
        let root = scratch("right");
        let all: Vec<_> = environment::variables(&Toolkit::at(&root), |_| None)
            .into_iter()
            .map(|(name, value)| (name, value.into_string().unwrap()))
            .collect();
        let report = examine(&root, &all);
        assert!(report.is_clean() && report.messages_with(Severity::Note).is_empty(), "{report}");
        let report = examine(&root, &[]);
        assert!(
            report.is_clean()
                && report.messages_with(Severity::Note).contains("not set: ASCEND_HOME_PATH"),
            "{report}"
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn another_toolkit_in_front_is_wrong() {
        let (root, other) = (scratch("mine"), scratch("other"));
        let list = format!("{}/lib64::{}/lib64", other.display(), root.display());
        let report = examine(
            &root,
            &[("LD_LIBRARY_PATH", list), ("ASCEND_HOME_PATH", other.display().to_string())],
        );
        let wrong = report.messages_with(Severity::Wrong);
        assert!(
            wrong.contains("another libascendcl.so first") && wrong.contains("ASCEND_HOME_PATH is"),
            "{report}"
        );
        assert!(report.messages_with(Severity::Note).contains("empty element"), "{report}");
        fs::remove_dir_all(root).unwrap();
        fs::remove_dir_all(other).unwrap();
    }
}
