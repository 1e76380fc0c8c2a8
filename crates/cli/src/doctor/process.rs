//! Which of the toolkit's libraries has a process loaded, and each only once?

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::Report;
use crate::toolkit::{FileId, REAL_LIBRARIES, Toolkit};

pub fn check(toolkit: &Toolkit, pid: u32, report: &mut Report) {
    match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => report_process(toolkit, pid, &maps, report),
        Err(error) => report.wrong(format!("cannot look into process {pid}: {error}")),
    }
}

/// Reports which of the toolkit's libraries are in the `maps` of a process.
fn report_process(toolkit: &Toolkit, pid: u32, maps: &str, report: &mut Report) {
    let names = real_names(toolkit);
    let mut loaded = BTreeMap::<&str, BTreeSet<(&str, &str, &str)>>::new();
    for (device, inode, path) in maps.lines().filter_map(parse_mapping) {
        let name = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
        if let Some(real_name) = names.get(name) {
            loaded.entry(real_name).or_default().insert((device, inode, path));
        }
    }
    if !loaded.contains_key(REAL_LIBRARIES[0]) {
        report.note(format!("process {pid} has no libascendcl.so loaded"));
    }
    for (real_name, files) in loaded {
        let paths: Vec<_> = files.iter().map(|(_, _, path)| *path).collect();
        let ids: BTreeSet<_> = files.iter().map(|(device, inode, _)| (device, inode)).collect();
        if ids.len() > 1 {
            report.wrong(format!(
                "process {pid} has {} copies of {real_name} loaded, each with a state of its own:\n{}",
                ids.len(),
                paths.join("\n")
            ));
        } else {
            report.fine(format!("process {pid} has one {real_name}: {}", paths[0]));
        }
        if paths.iter().any(|path| path.ends_with(" (deleted)")) {
            report.note(format!("{real_name} was replaced since process {pid} loaded it: restart the process to use the new one"));
        }
    }
}

/// Device, inode and path of a line of `maps` that maps a file.
fn parse_mapping(line: &str) -> Option<(&str, &str, &str)> {
    let path = &line[line.find('/')?..];
    let mut fields = line.split_ascii_whitespace().skip(3);
    Some((fields.next()?, fields.next()?, path))
}

/// Which of [`REAL_LIBRARIES`] each name of a library is, or is a link to.
fn real_names(toolkit: &Toolkit) -> BTreeMap<String, &'static str> {
    let id = |name: &str| FileId::of(&toolkit.library(name)).ok();
    let names = toolkit.libraries().unwrap_or_default().into_iter();
    let real_name = |name: &String| {
        let exact =
            REAL_LIBRARIES.into_iter().find(|real_name| Path::new(name) == Path::new(real_name));
        exact.or_else(|| {
            REAL_LIBRARIES
                .into_iter()
                .find(|real_name| id(name).is_some() && id(real_name) == id(name))
        })
    };
    names.filter_map(|name| Some((name.clone(), real_name(&name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use std::os::unix::fs::symlink;

    #[test]
    fn two_copies_in_one_process_are_reported() {
        let root = std::env::temp_dir().join(format!("cairn-process-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("lib64")).unwrap();
        fs::write(root.join("lib64/libascendcl.so"), "").unwrap();
        symlink("libascendcl.so", root.join("lib64/libhccl.so")).unwrap();
        let examine = |maps: &str| {
            let mut report = Report::default();
            report_process(&Toolkit::at(&root), 7, maps, &mut report);
            report
        };
        let once = "7f00-7f10 r-xp 00000000 08:01 11 /my kit/lib64/libascendcl.so\n\
                    7f10-7f20 rw-p 00010000 08:01 11 /my kit/lib64/libascendcl.so\n\
                    7f20-7f30 rw-p 00000000 00:00 0 [heap]\n7f30-7f40 r-xp 00000000 08:01 5 /lib/libc.so.6\n";
        let report = examine(once);
        assert!(
            report.is_clean()
                && report.messages_with(Severity::Fine).contains("/my kit/lib64/libascendcl.so"),
            "{report}"
        );
        let twice = format!("{once}7f50-7f60 r-xp 00000000 08:01 12 /other/libhccl.so (deleted)\n");
        let report = examine(&twice);
        assert!(
            report.messages_with(Severity::Wrong).contains("2 copies of libascendcl.so"),
            "{report}"
        );
        assert!(report.messages_with(Severity::Note).contains("replaced"), "{report}");
        assert!(examine("").messages_with(Severity::Note).contains("no libascendcl.so"));
        fs::remove_dir_all(root).unwrap();
    }
}
