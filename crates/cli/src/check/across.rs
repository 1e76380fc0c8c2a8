//! The check across ranks: the communicators of all processes, against each other.

use cairn_check::{RankChecker, Tool, report};
use cairn_record::{Entry, layout::Header};

use super::process::{CheckedProcess, ProcessCheck, RecordedStacks, Rules};

/// The processes of a run, while their entries are read.
pub struct RankCheck<'a> {
    rules: &'a Rules,
    checker: RankChecker,
    stacks: RecordedStacks,
    reported: usize,
}

/// What findings across ranks are printed under.
pub const TITLE: &str = "across ranks";

impl<'a> RankCheck<'a> {
    pub fn new(rules: &'a Rules) -> RankCheck<'a> {
        RankCheck {
            rules,
            checker: RankChecker::default(),
            stacks: RecordedStacks::default(),
            reported: 0,
        }
    }

    /// Adds a process, in the order of the list that [`RankCheck::new_findings`] gets.
    pub fn add_process(&mut self, header: &Header, rank: Option<u32>) -> usize {
        let pid = header.pid;
        let label = match rank {
            Some(rank) => format!("process {pid} (RANK={rank})"),
            None => format!("process {pid}"),
        };
        self.checker.add_process(&label)
    }

    /// The next entry of a process.
    pub fn entry(&mut self, process: usize, entry: &Entry<'static>) {
        if self.rules.tools.contains(&Tool::Ranks) {
            self.checker.entry(process, entry);
        }
    }

    /// Entries of a process are missing.
    pub fn set_incomplete(&mut self, process: usize) {
        self.checker.set_incomplete(process);
    }

    /// The text of what was found since the last call. A finding whose stacks are not known yet waits, and those after it.
    pub fn new_findings(&mut self, processes: &[&RecordedStacks]) -> String {
        let mut text = String::new();
        while let Some(finding) = self.checker.findings().list().get(self.reported) {
            for number in finding.sites().map(|site| site.stack).filter(|number| *number != 0) {
                let Some((process, stack)) = self.checker.stack(number) else { continue };
                match processes[process].get(stack) {
                    Some(frames) => self.stacks.insert(number, frames),
                    None if processes[process].is_complete => {}
                    None => return text,
                }
            }
            self.reported += 1;
            if !self.rules.suppressions.matches(finding) {
                text += &report::finding(finding, &self.stacks);
                text.push('\n');
            }
        }
        text
    }

    /// All processes have ended; `processes` are the checks that [`RankCheck::close`] adds to.
    pub fn finish(&mut self, processes: &[ProcessCheck<'_>]) -> String {
        self.checker.finish();
        let stacks: Vec<&RecordedStacks> = processes.iter().map(ProcessCheck::stacks).collect();
        self.new_findings(&stacks)
    }

    /// Adds what was found to the list of processes: to the only one, or as one more where two ranks of a communicator were seen.
    pub fn close(mut self, processes: &mut Vec<CheckedProcess>) {
        let mut findings = std::mem::take(self.checker.findings_mut());
        let mut suppressed = 0;
        findings.retain(|finding| {
            let is_suppressed = self.rules.suppressions.matches(finding);
            suppressed += usize::from(is_suppressed);
            !is_suppressed
        });
        if let [only] = &mut processes[..] {
            let own = |number| self.checker.stack(number).map_or(0, |(_, own)| own);
            only.findings.append(findings, own);
            only.suppressed += suppressed;
        } else if self.checker.ranks_seen() > 1 {
            processes.push(CheckedProcess {
                title: TITLE.into(),
                findings,
                stacks: self.stacks,
                warnings: Vec::new(),
                suppressed,
                is_incomplete: false,
            });
        }
    }
}
