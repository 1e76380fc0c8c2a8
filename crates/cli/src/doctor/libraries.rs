//! What the user's libraries need of CANN: what of that works here, what refuses, and what is absent.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env::consts::ARCH,
    path::{Path, PathBuf},
};

use super::Report;
use crate::{
    cann,
    elf::{Library, machine_name},
    environment::elements,
    toolkit::{REAL_LIBRARIES, Toolkit},
};

/// Folders of libraries that belong to the system, which need nothing of CANN.
const SYSTEM: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// What the toolkit has.
#[derive(Debug, Default)]
struct ToolkitSymbols {
    machine: u16,
    symbols: BTreeSet<String>,
    /// Those of the symbols that only refuse.
    refused: BTreeSet<String>,
    libraries: BTreeSet<String>,
}

/// What the toolkit has for a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Works,
    Refuses,
    Absent,
}

impl ToolkitSymbols {
    fn of(toolkit: &Toolkit, report: &mut Report) -> ToolkitSymbols {
        let mut toolkit_symbols = ToolkitSymbols::default();
        for name in REAL_LIBRARIES {
            match Library::read(&toolkit.library(name)) {
                Ok(library) => {
                    toolkit_symbols.machine = library.machine;
                    toolkit_symbols.symbols.extend(library.defined);
                    toolkit_symbols.refused.extend(library.refused);
                }
                Err(error) => report.wrong(format!("{error:#}")),
            }
        }
        toolkit_symbols.libraries = toolkit.libraries().unwrap_or_default().into_iter().collect();
        toolkit_symbols
    }

    fn state(&self, symbol: &str) -> State {
        match () {
            _ if self.refused.contains(symbol) => State::Refuses,
            _ if self.symbols.contains(symbol) => State::Works,
            _ => State::Absent,
        }
    }
}

/// Checks the libraries, and those they need that are neither the toolkit's nor the system's.
pub fn check(toolkit: &Toolkit, paths: &[PathBuf], report: &mut Report) {
    if paths.is_empty() {
        return;
    }
    let toolkit_symbols = ToolkitSymbols::of(toolkit, report);
    let list = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = elements(&list).map(PathBuf::from).collect();
    let found = with_dependencies(paths, &toolkit_symbols, &folders, report);
    let user_symbols: BTreeSet<&String> =
        found.values().flat_map(|library| &library.defined).collect();
    for (path, library) in &found {
        report_library(
            path,
            library,
            &toolkit_symbols,
            &user_symbols,
            paths.contains(path),
            report,
        );
    }
}

/// The libraries and what they need, by path.
fn with_dependencies(
    paths: &[PathBuf],
    toolkit_symbols: &ToolkitSymbols,
    folders: &[PathBuf],
    report: &mut Report,
) -> BTreeMap<PathBuf, Library> {
    let mut found = BTreeMap::new();
    let mut pending: VecDeque<PathBuf> = paths.iter().cloned().collect();
    while let Some(path) = pending.pop_front() {
        if found.contains_key(&path) {
            continue;
        }
        match Library::read(&path) {
            Ok(library) => {
                for name in
                    library.needed.iter().filter(|name| !toolkit_symbols.libraries.contains(*name))
                {
                    match dependency(&path, &library, name, folders) {
                        Some(Dependency::Followed(path)) => pending.push_back(path),
                        Some(Dependency::System) => {}
                        None if cann::is_library(name) => {}
                        None => report.note(format!(
                            "{}: it needs {name}, which was not found and not looked into",
                            path.display()
                        )),
                    }
                }
                found.insert(path, library);
            }
            Err(error) => report.wrong(format!("{error:#}")),
        }
    }
    found
}

/// A library that another needs: one to check too, or one of the system.
enum Dependency {
    Followed(PathBuf),
    System,
}

/// Where the loader would find a library that another needs.
fn dependency(
    path: &Path,
    library: &Library,
    name: &str,
    folders: &[PathBuf],
) -> Option<Dependency> {
    let origin = path.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let run_path = library.run_path.iter().map(|folder| {
        PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    });
    let mut candidates = run_path.chain(folders.iter().cloned()).map(|folder| folder.join(name));
    if let Some(path) = candidates.find(|path| path.is_file()) {
        return Some(Dependency::Followed(path));
    }
    let triple = format!("{ARCH}-linux-gnu");
    let is_system = SYSTEM
        .iter()
        .map(Path::new)
        .any(|folder| folder.join(name).exists() || folder.join(&triple).join(name).exists());
    is_system.then_some(Dependency::System)
}

/// Reports what one library needs. `user_symbols` are defined by the libraries themselves.
fn report_library(
    path: &Path,
    library: &Library,
    toolkit_symbols: &ToolkitSymbols,
    user_symbols: &BTreeSet<&String>,
    was_named: bool,
    report: &mut Report,
) {
    let path = path.display();
    let by_state = |names: &BTreeSet<String>| -> BTreeMap<State, Vec<String>> {
        let mut states = BTreeMap::<State, Vec<String>>::new();
        for name in
            names.iter().filter(|name| cann::is_symbol(name) && !user_symbols.contains(name))
        {
            states.entry(toolkit_symbols.state(name)).or_default().push(describe_symbol(name));
        }
        states
    };
    if library.machine != toolkit_symbols.machine {
        let (library_machine, toolkit_machine) =
            (machine_name(library.machine), machine_name(toolkit_symbols.machine));
        report.wrong(format!(
            "{path}: it is for {library_machine}, this toolkit for {toolkit_machine}: it cannot be loaded here"
        ));
    }
    let (needed, weak, looked_up) =
        (by_state(&library.undefined), by_state(&library.weak), by_state(&library.looked_up));
    let empty = Vec::new();
    let in_state = |states: &'_ BTreeMap<State, Vec<String>>, state| {
        states.get(&state).unwrap_or(&empty).clone()
    };
    let total: usize = needed.values().map(Vec::len).sum();
    if total > 0 || was_named {
        let [works, refuses, absent] = [State::Works, State::Refuses, State::Absent]
            .map(|state| in_state(&needed, state).len());
        report.fine(format!(
            "{path}: of {total} symbols of CANN that it needs {works} work, {refuses} refuse, {absent} are absent"
        ));
    }
    let list =
        |what: &str, names: Vec<String>| format!("{path}: {what}:\n  {}", names.join("\n  "));
    let refuses = in_state(&needed, State::Refuses);
    if !refuses.is_empty() {
        report.note(list("there, but only refuse (not supported)", refuses));
    }
    let absent = in_state(&needed, State::Absent);
    if !absent.is_empty() {
        report.wrong(list("absent", absent));
    }
    let unavailable: Vec<String> =
        in_state(&weak, State::Absent).into_iter().chain(in_state(&weak, State::Refuses)).collect();
    if !unavailable.is_empty() {
        report.note(list("it would also use, but does without", unavailable));
    }
    let total: usize = looked_up.values().map(Vec::len).sum();
    if total > 0 {
        let works = in_state(&looked_up, State::Works).len();
        let mut text =
            format!("{path}: it may look up {total} names at run time, of which {works} work");
        for (what, state) in [("refuse", State::Refuses), ("are absent", State::Absent)] {
            let names = in_state(&looked_up, state);
            if !names.is_empty() {
                text += &format!("\n{} {what}:\n  {}", names.len(), names.join("\n  "));
            }
        }
        report.note(text);
    }
    let has = |name: &String| toolkit_symbols.libraries.contains(name);
    for name in library.needed.iter().filter(|name| cann::is_library(name) && !has(name)) {
        report
            .wrong(format!("{path}: it needs the library {name}, which the toolkit does not have"));
    }
}

/// The symbol, with its readable name if that differs.
fn describe_symbol(symbol: &str) -> String {
    let readable = cann::readable(symbol);
    if readable == symbol { readable } else { format!("{symbol}  ({readable})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use std::{fs, process::Command};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn what_works_refuses_and_is_absent_is_listed() {
        let library = Library {
            needed: vec!["libascendcl.so".into(), "libatb.so".into(), "libc.so.6".into()],
            undefined: set(&[
                "aclInit",
                "aclNew",
                "HcclSend",
                "aclMine",
                "malloc",
                "_ZN2ge7SessionD1Ev",
            ]),
            weak: set(&["HcclRecv", "__gmon_start__"]),
            looked_up: set(&["aclInit", "aclLater"]),
            machine: 62,
            ..Library::default()
        };
        let toolkit_symbols = ToolkitSymbols {
            machine: 62,
            symbols: set(&["aclInit", "HcclSend"]),
            refused: set(&["HcclSend"]),
            libraries: set(&["libascendcl.so"]),
        };
        let mut report = Report::default();
        let own_symbol = "aclMine".to_string();
        report_library(
            Path::new("x.so"),
            &library,
            &toolkit_symbols,
            &BTreeSet::from([&own_symbol]),
            true,
            &mut report,
        );
        let expected = "\
ok     x.so: of 4 symbols of CANN that it needs 1 work, 1 refuse, 2 are absent
note   x.so: there, but only refuse (not supported):
         HcclSend
WRONG  x.so: absent:
         _ZN2ge7SessionD1Ev  (ge::Session::~Session)
         aclNew
note   x.so: it would also use, but does without:
         HcclRecv
note   x.so: it may look up 2 names at run time, of which 1 work
       1 are absent:
         aclLater
WRONG  x.so: it needs the library libatb.so, which the toolkit does not have
";
        assert_eq!(report.to_string(), expected);
        let mut report = Report::default();
        let library =
            Library { undefined: set(&["aclInit", "puts"]), machine: 183, ..Library::default() };
        report_library(
            Path::new("y.so"),
            &library,
            &toolkit_symbols,
            &BTreeSet::new(),
            true,
            &mut report,
        );
        assert!(
            report.messages_with(Severity::Fine).contains("needs 1 work, 0 refuse, 0 are absent"),
            "{report}"
        );
        assert!(
            report.messages_with(Severity::Wrong).contains("for aarch64, this toolkit for x86_64"),
            "{report}"
        );
    }

    #[test]
    fn dependencies_are_followed() {
        let folder = std::env::temp_dir().join(format!("cairn-follow-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("deep")).unwrap();
        let build = |name: &str, source: &str, more: &[&str]| {
            let (c, so) = (folder.join("a.c"), folder.join(name));
            fs::write(&c, source).unwrap();
            let mut compiler = Command::new("cc");
            compiler.args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&so).arg(c).args(more);
            assert!(compiler.status().unwrap().success());
            so
        };
        build(
            "deep/libinner.so",
            "int aclDeep(void);\nint inner(void) { return aclDeep(); }\n",
            &[],
        );
        let deep = folder.join("deep").display().to_string();
        let outer = build(
            "libouter.so",
            "int inner(void);\nint outer(void) { return inner(); }\n",
            &["-L", &deep, "-linner", "-Wl,-rpath,$ORIGIN/deep"],
        );
        let mut report = Report::default();
        let found = with_dependencies(&[outer], &ToolkitSymbols::default(), &[], &mut report);
        let names: Vec<_> = found.keys().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["libinner.so", "libouter.so"], "{report}");
        let inner = found.values().find(|library| library.undefined.contains("aclDeep"));
        assert!(inner.is_some());
        fs::remove_dir_all(folder).unwrap();
    }
}
