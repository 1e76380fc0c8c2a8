//! What the machine gives: memory, and what backs the huge-page policies of `aclrtMalloc`.

use std::fs;

use super::Report;

/// The files of `/proc` and `/sys` that matter here; empty if a file is missing.
#[derive(Debug, Default)]
pub struct Machine {
    transparent_hugepage: String,
    memory: String,
}

impl Machine {
    pub fn read() -> Machine {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            transparent_hugepage: text("/sys/kernel/mm/transparent_hugepage/enabled"),
            memory: text("/proc/meminfo"),
        }
    }

    /// A value of `/proc/meminfo`, in the unit of the file.
    fn meminfo_value(&self, name: &str) -> Option<u64> {
        let line =
            self.memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    }
}

pub fn check(machine: &Machine, report: &mut Report) {
    let mode =
        machine.transparent_hugepage.split_ascii_whitespace().find(|word| word.starts_with('['));
    match mode.map(|word| word.trim_matches(['[', ']'])) {
        Some("always") => report.fine("huge pages: the kernel backs every large allocation with them (always)"),
        Some("madvise") => report.fine("huge pages: the kernel backs the HUGE policies of aclrtMalloc with them (madvise)"),
        Some(mode) => report.note(format!(
            "huge pages: turned off in the kernel ({mode}); the HUGE policies of aclrtMalloc are aligned to 2 MiB but \
             backed by small pages"
        )),
        None => report.note("huge pages: this kernel does not report them; the HUGE policies may be backed by small pages"),
    }
    if let Some(pages) = machine.meminfo_value("HugePages_Total").filter(|pages| *pages > 0) {
        report.note(format!(
            "huge pages: {pages} pages reserved in the kernel are not used by Cairn"
        ));
    }
    if let (Some(total), Some(available)) =
        (machine.meminfo_value("MemTotal"), machine.meminfo_value("MemAvailable"))
    {
        let gib = |kib: u64| kib as f64 / f64::from(1 << 20);
        report.fine(format!(
            "memory: {:.1} GiB of {:.1} GiB available",
            gib(available),
            gib(total)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn examine(transparent_hugepage: &str, memory: &str) -> Report {
        let mut report = Report::default();
        check(
            &Machine { transparent_hugepage: transparent_hugepage.into(), memory: memory.into() },
            &mut report,
        );
        report
    }

    #[test]
    fn what_backs_huge_pages() {
        let memory =
            "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\nHugePages_Total:       4\n";
        let report = examine("always [madvise] never\n", memory);
        assert!(report.messages_with(Severity::Fine).contains("(madvise)"), "{report}");
        assert!(report.messages_with(Severity::Fine).contains("16.0 GiB of 32.0 GiB"), "{report}");
        assert!(report.messages_with(Severity::Note).contains("4 pages reserved"), "{report}");
        let report = examine("always madvise [never]\n", "");
        assert!(
            report.is_clean() && report.messages_with(Severity::Note).contains("(never)"),
            "{report}"
        );
        assert!(examine("", "").messages_with(Severity::Note).contains("does not report"));
    }
}
