//! Is the toolkit itself complete? Above all: is every name of a library the same file?

use std::fs;

use super::Report;
use crate::{
    elf::Library,
    toolkit::{FileId, KERNEL_HOOK, REAL_LIBRARIES, Toolkit},
};

/// Libraries of their own, with no state of the runtime: the standalone pool, on any ACL, and one without contents.
const OWN_LIBRARIES: [&str; 2] = ["libcairn_pool.so", KERNEL_HOOK];

/// Names without which programs or torch_npu do not start.
const EXPECTED: [&str; 8] = [
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libacl_tdt_channel.so",
    "libge_runner.so",
    "libgraph.so",
    "libhccl.so",
    "libmsprofiler.so",
    "libopapi.so",
];

/// Folders that torch_npu looks for.
const FOLDERS: [&str; 5] = ["include", "opp", "runtime", "compiler", "python/site-packages"];

pub fn check(toolkit: &Toolkit, report: &mut Report) {
    report.fine(format!("toolkit at {}", toolkit.root().display()));
    for name in FOLDERS {
        if !toolkit.root().join(name).is_dir() {
            report.wrong(format!("the folder {name}/ is missing: run `cargo xtask toolkit` again"));
        }
    }
    let names = match toolkit.libraries() {
        Ok(names) => names,
        Err(error) => return report.wrong(format!("{error:#}")),
    };
    for name in EXPECTED.iter().filter(|name| !names.iter().any(|one| one == *name)) {
        report.wrong(format!("lib64/{name} is missing: run `cargo xtask toolkit` again"));
    }
    let real_ids = REAL_LIBRARIES.map(|name| FileId::of(&toolkit.library(name)).ok());
    let mut links = 0;
    for name in &names {
        let path = toolkit.library(name);
        let is_link = fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink());
        let is_real = REAL_LIBRARIES.contains(&name.as_str());
        match FileId::of(&path) {
            Err(error) => report.wrong(format!("lib64/{name} leads nowhere: {error}")),
            Ok(_) if name.starts_with("libopapi_") => {
                report.wrong(format!("lib64/{name}: torch_npu takes this for custom operators; it belongs into opp/lib64"));
            }
            Ok(file) if real_ids.contains(&Some(file)) => links += usize::from(is_link),
            Ok(_) if is_real || OWN_LIBRARIES.contains(&name.as_str()) => {}
            Ok(_) if is_link => report.wrong(format!("lib64/{name} leads to a file of another toolkit")),
            Ok(_) => report.wrong(format!(
                "lib64/{name} is a copy, not a link: a program that loads it and libascendcl.so has two states that \
                 know nothing of each other"
            )),
        }
    }
    report.fine(format!("{links} names of libraries lead to {} files", REAL_LIBRARIES.len()));
    check_engine(toolkit, report);
    for name in REAL_LIBRARIES {
        match Library::read(&toolkit.library(name)) {
            Ok(Library { soname: Some(soname), .. }) => report.wrong(format!(
                "lib64/{name} calls itself {soname}: programs linked here would not start on CANN"
            )),
            Ok(_) => {}
            Err(error) => report.wrong(format!("{error:#}")),
        }
    }
}

/// Can ranks communicate? The engine and all it needs lie in a folder of their own; a toolkit without it works with one rank.
fn check_engine(toolkit: &Toolkit, report: &mut Report) {
    let folder = toolkit.root().join("lib64/comm");
    let engine = folder.join("libcairn_comm.so");
    if !engine.exists() {
        return report.note(
            "lib64/comm/libcairn_comm.so is not there, so HCCL works with one rank only: the toolkit was built without Gloo. \
             Install libgloo-dev, or let `cargo xtask toolkit` download Debian's packages, and build it again",
        );
    }
    let (mut open, mut seen) = (vec![engine], Vec::new());
    while let Some(path) = open.pop() {
        match Library::read(&path) {
            Ok(library) => {
                let beside = library.needed.iter().map(|name| folder.join(name));
                open.extend(beside.filter(|path| path.exists() && !seen.contains(path)));
                if library.needed.iter().any(|name| name.starts_with("libgloo.so"))
                    && !library.needed.iter().any(|name| folder.join(name).exists())
                {
                    report.wrong("lib64/comm lacks Gloo: run `cargo xtask toolkit` again");
                }
            }
            Err(error) => report.wrong(format!("{error:#}")),
        }
        seen.push(path);
    }
    seen.sort();
    seen.dedup();
    report.fine(format!(
        "ranks can communicate: lib64/comm has the engine over Gloo, {} libraries",
        seen.len()
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use std::{os::unix::fs::symlink, path::PathBuf, process::Command};

    fn scratch(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("cairn-doctor-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for folder in FOLDERS.iter().chain(&["lib64"]) {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for name in REAL_LIBRARIES {
            let mut compiler = Command::new("cc");
            compiler
                .args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"])
                .arg(root.join("lib64").join(name));
            assert!(compiler.status().unwrap().success());
        }
        for name in EXPECTED.iter().filter(|name| !REAL_LIBRARIES.contains(name)) {
            symlink("libascendcl.so", root.join("lib64").join(name)).unwrap();
        }
        root
    }

    fn examine(root: &std::path::Path) -> Report {
        let mut report = Report::default();
        check(&Toolkit::at(root), &mut report);
        report
    }

    #[test]
    fn a_complete_toolkit_is_clean() {
        let root = scratch("complete");
        let report = examine(&root);
        assert!(report.is_clean(), "{report}");
        assert!(
            report.messages_with(Severity::Fine).contains("6 names of libraries lead to 2 files")
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn an_engine_is_seen_and_a_missing_one_noted() {
        let root = scratch("engine");
        assert!(examine(&root).messages_with(Severity::Note).contains("one rank only"));
        let folder = root.join("lib64/comm");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(root.join("lib64").join(REAL_LIBRARIES[0]), folder.join("libcairn_comm.so"))
            .unwrap();
        let report = examine(&root);
        assert!(report.is_clean(), "{report}");
        assert!(report.messages_with(Severity::Fine).contains("ranks can communicate"), "{report}");
        fs::write(folder.join("libcairn_comm.so"), "no library").unwrap();
        assert!(!examine(&root).is_clean());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn copies_dead_links_and_gaps_are_reported() {
        let root = scratch("broken");
        let lib64 = root.join("lib64");
        fs::remove_file(lib64.join("libhccl.so")).unwrap();
        fs::copy(lib64.join("libascendcl.so"), lib64.join("libhccl.so")).unwrap();
        fs::remove_file(lib64.join("libgraph.so")).unwrap();
        symlink("gone.so", lib64.join("libgraph.so")).unwrap();
        fs::remove_file(lib64.join("libopapi.so")).unwrap();
        symlink("libascendcl.so", lib64.join("libopapi_math.so")).unwrap();
        fs::remove_dir(root.join("compiler")).unwrap();
        let report = examine(&root);
        let wrong = report.messages_with(Severity::Wrong);
        for text in [
            "libhccl.so is a copy",
            "libgraph.so leads nowhere",
            "libopapi.so is missing",
            "libopapi_math.so: torch_npu",
            "compiler/ is missing",
        ] {
            assert!(wrong.contains(text), "{text}\n{report}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
