//! What rules find.

use crate::blocks::{Block, Retired};
use crate::moment::Task;
use cairn_record::{Entry, Site, StreamIndex};
use std::collections::HashMap;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; never counts against the program.
    Note,
    /// The program broke a rule.
    Error,
}

impl Severity {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Error => "error",
        }
    }
}

/// A line of a finding that names a place of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What happened there, such as "stream 2, task 7: aclnnAdd writes 0x7f0000+4096".
    pub text: String,
    /// The call.
    pub site: Site,
    /// Where a drawing of the finding has it, if its time is known.
    pub mark: Option<Mark>,
}

/// Where a drawing has a place: on the lane of a stream, or else of the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The stream.
    pub stream: Option<StreamIndex>,
    /// The task in it.
    pub seq: Option<u64>,
    /// When: of a task, when it was submitted.
    pub time_ns: u64,
    /// A few words.
    pub label: String,
}

impl Place {
    /// Of a call whose time is not known.
    pub fn unplaced(site: Site, text: String) -> Place {
        Place { text, site, mark: None }
    }

    /// Of a call.
    pub fn of_site(site: &Site, time_ns: u64, text: String) -> Place {
        let mark = Mark { stream: None, seq: None, time_ns, label: site.entry.to_string() };
        Place { text, site: site.clone(), mark: Some(mark) }
    }

    /// Of the call that is recorded now.
    pub fn of_call(entry: &Entry<'static>, text: String) -> Place {
        Place::of_site(&entry.site, entry.time_ns, text)
    }

    /// Of a task.
    pub fn of_task(task: &Task, text: String) -> Place {
        let (stream, seq) = (Some(task.epoch.stream), Some(task.epoch.seq));
        let mark = Mark { stream, seq, time_ns: task.time_ns, label: task.name.to_string() };
        Place { text, site: task.site.clone(), mark: Some(mark) }
    }

    /// Of the call that took a block.
    pub fn of_block(block: &Block, text: String) -> Place {
        Place::of_site(&block.site, block.time_ns, text)
    }

    /// Of the call that gave a block back.
    pub fn of_free(retired: &Retired) -> Place {
        let text = format!("thread {}: {} is freed", retired.thread, retired.block.describe());
        Place::of_site(&retired.site, retired.time_ns, text)
    }

    /// The same on the lane of a stream.
    pub fn on_stream(mut self, stream: StreamIndex) -> Place {
        self.mark.iter_mut().for_each(|mark| mark.stream = Some(stream));
        self
    }

    /// The same with these words in drawings.
    pub fn labelled(mut self, label: String) -> Place {
        self.mark.iter_mut().for_each(|mark| mark.label.clone_from(&label));
        self
    }
}

/// What else is to be known, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The line.
    pub text: String,
    /// The call that it is about, where its stack helps: that which allocated a block.
    pub site: Option<Site>,
}

impl From<String> for Fact {
    fn from(text: String) -> Fact {
        Fact { text, site: None }
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Fact {
        text.to_owned().into()
    }
}

/// Something that a rule found, the first of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What happened, in one line.
    pub title: String,
    /// The clauses of the contract that it breaks, such as "GE-REG-5".
    pub clauses: &'static [&'static str],
    /// The places, in the order of time.
    pub places: Vec<Place>,
    /// What else is to be known.
    pub facts: Vec<Fact>,
    /// What to do.
    pub help: String,
    /// How many of the same kind there were: the same rule, with the same calls.
    pub count: u64,
    /// When the first one happened.
    pub time_ns: u64,
}

/// The findings of a run. Those with the same rule and the same calls are counted, and the first is kept.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    index: HashMap<Key, usize>,
}

impl Finding {
    /// The calls whose stacks its text shows.
    pub fn sites(&self) -> impl Iterator<Item = &Site> {
        let places = self.places.iter().map(|place| &place.site);
        places.chain(self.facts.iter().filter_map(|fact| fact.site.as_ref()))
    }
}

/// What findings of one kind have in common.
type Key = (&'static str, Vec<(String, u32)>, String);

impl Findings {
    /// Adds a finding, or counts it. `kind` tells findings with the same calls apart.
    pub fn add(&mut self, kind: &str, finding: Finding) {
        let calls = (finding.places.iter())
            .map(|place| (place.site.entry.to_string(), place.site.stack))
            .collect();
        let key = (finding.rule, calls, kind.to_owned());
        match self.index.get(&key) {
            Some(at) => self.list[*at].count += finding.count,
            None => {
                self.index.insert(key, self.list.len());
                self.list.push(finding);
            }
        }
    }

    /// The findings, in the order of time.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Keeps those for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&Finding) -> bool) {
        self.list.retain(keep);
        self.index.clear();
    }

    /// Adds findings of another list, which name stacks by other numbers: `number` has the own ones.
    pub fn append(&mut self, other: Findings, number: impl Fn(u32) -> u32) {
        for mut finding in other.list {
            let places = finding.places.iter_mut().map(|place| &mut place.site);
            let sites = places.chain(finding.facts.iter_mut().filter_map(|it| it.site.as_mut()));
            sites.for_each(|site| site.stack = number(site.stack));
            self.list.push(finding);
        }
    }

    /// How many kinds of errors there are.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|finding| finding.severity == Severity::Error).count()
    }
}
