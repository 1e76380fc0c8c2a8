//! What the user's libraries need of CANN, and what of that the toolkit lacks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::Report;
use crate::{
    cann,
    elf::Library,
    toolkit::{BODIES, Toolkit},
};

pub fn check(toolkit: &Toolkit, paths: &[PathBuf], report: &mut Report) {
    if paths.is_empty() {
        return;
    }
    let mut offered = BTreeSet::new();
    for body in BODIES {
        match Library::read(&toolkit.library(body)) {
            Ok(library) => offered.extend(library.defined),
            Err(error) => report.wrong(format!("{error:#}")),
        }
    }
    let names: BTreeSet<_> = toolkit.libraries().unwrap_or_default().into_iter().collect();
    for path in paths {
        match Library::read(path) {
            Ok(library) => judge(path, &library, &offered, &names, report),
            Err(error) => report.wrong(format!("{error:#}")),
        }
    }
}

fn judge(
    path: &Path,
    library: &Library,
    offered: &BTreeSet<String>,
    names: &BTreeSet<String>,
    report: &mut Report,
) {
    let path = path.display();
    let lacking = |wanted: &BTreeSet<String>| -> (usize, Vec<String>) {
        let ours: Vec<_> = wanted.iter().filter(|name| cann::is_symbol(name)).collect();
        let lacking =
            ours.iter().filter(|name| !offered.contains(**name)).map(|name| described(name));
        (ours.len(), lacking.collect())
    };
    let (count, missing) = lacking(&library.undefined);
    if missing.is_empty() {
        report.fine(format!("{path}: all {count} symbols of CANN that it needs are here"));
    } else {
        report.wrong(format!(
            "{path}: {} of {count} symbols of CANN that it needs are missing:\n  {}",
            missing.len(),
            missing.join("\n  ")
        ));
    }
    let (_, wished) = lacking(&library.wished);
    if !wished.is_empty() {
        report.note(format!(
            "{path}: it would also use, but does without:\n  {}",
            wished.join("\n  ")
        ));
    }
    for name in
        library.needed.iter().filter(|name| cann::is_library(name) && !names.contains(*name))
    {
        report
            .wrong(format!("{path}: it needs the library {name}, which the toolkit does not have"));
    }
}

fn described(symbol: &str) -> String {
    let readable = cann::readable(symbol);
    if readable == symbol { readable } else { format!("{symbol}  ({readable})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed() {
        let set =
            |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        let library = Library {
            needed: vec!["libascendcl.so".into(), "libatb.so".into(), "libc.so.6".into()],
            undefined: set(&["aclInit", "aclNew", "malloc", "_ZN2ge7SessionD1Ev"]),
            wished: set(&["HcclSend", "__gmon_start__"]),
            ..Library::default()
        };
        let mut report = Report::default();
        judge(
            Path::new("x.so"),
            &library,
            &set(&["aclInit"]),
            &set(&["libascendcl.so"]),
            &mut report,
        );
        let expected = "\
WRONG  x.so: 2 of 3 symbols of CANN that it needs are missing:
         _ZN2ge7SessionD1Ev  (ge::Session::~Session)
         aclNew
note   x.so: it would also use, but does without:
         HcclSend
WRONG  x.so: it needs the library libatb.so, which the toolkit does not have
";
        assert_eq!(report.to_string(), expected);
        let mut report = Report::default();
        let library = Library { undefined: set(&["aclInit", "puts"]), ..Library::default() };
        judge(Path::new("y.so"), &library, &set(&["aclInit"]), &set(&[]), &mut report);
        assert_eq!(
            report.to_string(),
            "ok     y.so: all 1 symbols of CANN that it needs are here\n"
        );
    }
}
