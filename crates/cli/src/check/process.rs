//! One process under the checker: its entries, what was found, and what to say of it.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
};

use cairn_check::{
    Checker, Finding, Findings, Tool,
    report::{self, Stacks},
    suppress::Suppressions,
};
use cairn_record::{
    Entry,
    entry::{Frame, Happening},
    layout::Header,
    reader::Damage,
};

use crate::symbols::Symbols;

/// What is checked.
pub struct Rules {
    pub tools: Vec<Tool>,
    pub suppressions: Suppressions,
}

/// Rules whose findings say that an order is missing.
const ABOUT_ORDER: [&str; 6] = [
    "order",
    "pool-on-two-streams",
    "model-on-two-streams",
    "freed-while-pending",
    "freed-on-another-stream",
    "pool-freed-while-pending",
];

/// A process whose entries are being read.
pub struct ProcessCheck<'a> {
    title: String,
    rules: &'a Rules,
    checker: Checker,
    stacks: RecordedStacks,
    /// Findings of the list that were asked for.
    reported: usize,
    has_ended: bool,
    /// Entries are missing.
    is_damaged: bool,
}

/// A process whose entries were all read.
pub struct CheckedProcess {
    pub title: String,
    pub findings: Findings,
    pub stacks: RecordedStacks,
    pub warnings: Vec<String>,
    pub suppressed: usize,
    /// A part of what happened was not seen.
    pub is_incomplete: bool,
}

impl<'a> ProcessCheck<'a> {
    /// A process that has written nothing yet; its rank, if `cairn` started it as one.
    pub fn new(header: &Header, rules: &'a Rules, rank: Option<u32>) -> ProcessCheck<'a> {
        let rank = rank.map_or(String::new(), |rank| format!("rank {rank}, "));
        ProcessCheck {
            title: format!("{rank}process {}: {}", header.pid, header.command),
            rules,
            checker: Checker::new(&rules.tools),
            stacks: RecordedStacks::default(),
            reported: 0,
            has_ended: false,
            is_damaged: false,
        }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// Its stacks, as far as they are known.
    pub fn stacks(&self) -> &RecordedStacks {
        &self.stacks
    }

    /// The next entry.
    pub fn entry(&mut self, entry: &Entry<'static>) {
        match &entry.happening {
            Happening::Exit => self.has_ended = true,
            Happening::Stack { number, frames } => self.stacks.insert(*number, frames),
            _ => {}
        }
        self.checker.entry(entry);
    }

    /// The text of what was found since the last call and is to be reported. A finding whose stacks are not known yet, because another
    /// thread writes them, waits, and those after it.
    pub fn new_findings(&mut self) -> String {
        let mut text = String::new();
        while let Some(finding) = self.checker.findings().list().get(self.reported) {
            if !self.stacks.has_all(finding) {
                break;
            }
            self.reported += 1;
            if self.is_reported(finding) {
                text += &report::finding(finding, &self.stacks);
                text.push('\n');
            }
        }
        text
    }

    /// Not suppressed; and where entries are missing, not about order: what ordered the work may be among them.
    fn is_reported(&self, finding: &Finding) -> bool {
        let is_doubtful = self.is_damaged && ABOUT_ORDER.contains(&finding.rule);
        !is_doubtful && !self.rules.suppressions.matches(finding)
    }

    /// No more entries come: what is known of its stacks is all.
    pub fn end(&mut self) {
        self.stacks.is_complete = true;
    }

    /// The process has ended, or the record has. The text is what was not in [`ProcessCheck::new_findings`].
    pub fn finish(mut self, damage: &[Damage], is_cut_short: bool) -> (CheckedProcess, String) {
        let mut warnings: Vec<String> = (damage.iter())
            .map(|damage| {
                format!("entries of thread {} are missing: {}", damage.thread, damage.reason)
            })
            .collect();
        self.is_damaged = !damage.is_empty();
        if self.is_damaged {
            warnings.push("findings about order are left out".into());
        }
        if is_cut_short {
            warnings.push(
                "the record of the process could not grow, its log says why: what came after is not checked, nor are leaks"
                    .into(),
            );
        } else if !self.has_ended {
            warnings.push(
                "the process did not end in order (a signal, or _exit), or still runs: leaks are not checked"
                    .into(),
            );
        }
        let is_incomplete = is_cut_short || self.is_damaged;
        self.checker.finish(self.has_ended && !is_incomplete);
        self.end();
        let text = self.new_findings();
        let mut suppressed = 0;
        let mut findings = std::mem::take(self.checker.findings_mut());
        findings.retain(|finding| {
            suppressed += usize::from(self.rules.suppressions.matches(finding));
            self.is_reported(finding)
        });
        let (title, stacks) = (self.title, self.stacks);
        let process =
            CheckedProcess { title, findings, stacks, warnings, suppressed, is_incomplete };
        (process, text)
    }
}

/// The stacks of a record, described when they are asked for.
#[derive(Default)]
pub struct RecordedStacks {
    frames: HashMap<u32, Vec<Frame>>,
    symbols: RefCell<Symbols>,
    /// No more of them come.
    pub is_complete: bool,
}

impl RecordedStacks {
    pub fn insert(&mut self, number: u32, frames: &[Frame]) {
        self.frames.insert(number, frames.to_vec());
    }

    /// The frames of a stack, if it is known.
    pub fn get(&self, number: u32) -> Option<&[Frame]> {
        self.frames.get(&number).map(Vec::as_slice)
    }

    fn has_all(&self, finding: &Finding) -> bool {
        let numbers: BTreeSet<u32> = finding.sites().map(|site| site.stack).collect();
        self.is_complete
            || numbers.iter().all(|number| *number == 0 || self.frames.contains_key(number))
    }
}

impl Stacks for RecordedStacks {
    fn frames(&self, stack: u32) -> Vec<String> {
        let mut symbols = self.symbols.borrow_mut();
        let frames = self.frames.get(&stack).into_iter().flatten();
        frames.map(|frame| symbols.describe(frame)).collect()
    }
}
