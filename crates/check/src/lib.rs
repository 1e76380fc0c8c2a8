//! The checker: whether a program kept the contract, from the record of its run.
//!
//! ```text
//!  entries ──> State (state.rs, blocks.rs, shadow.rs) ──> rules (rules/, a file each) ──> Findings (finding.rs)
//!              what exists, who touched which bytes,      functions of (state, moment)     report.rs: text, JSON
//!              what the program has ordered                                                suppress.rs
//!
//!  entries of several processes ──> Groups (ranks.rs) ──> rules across ranks ──> Findings
//! ```
//!
//! Rules decide when work is *submitted*, not when it runs: what the program ordered is known then, so a finding does not
//! depend on timing and comes in every run. Where something cannot be seen, nothing is reported: rather miss than invent.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod finding;
pub mod moment;
pub mod program_order;
pub mod ranks;
pub mod report;
pub mod rules;
pub mod shadow;
pub mod state;
pub mod suppress;
pub mod written;

pub use finding::{Finding, Findings, Severity};
pub use ranks::RankChecker;
pub use rules::{Rule, Tool};
pub use state::State;

use cairn_record::Entry;
use moment::Moment;

/// Reads the entries of a record, in their order, and collects what rules find.
pub struct Checker {
    state: State,
    rules: Vec<&'static Rule>,
    findings: Findings,
}

impl Checker {
    /// A checker with the rules of these tools.
    pub fn new(tools: &[Tool]) -> Checker {
        let rules: Vec<_> = rules::ALL.iter().filter(|rule| tools.contains(&rule.tool)).collect();
        Checker { state: State::default(), rules, findings: Findings::default() }
    }

    /// The next entry.
    pub fn entry(&mut self, entry: &Entry<'static>) {
        let moment = self.state.prepare(entry);
        self.look(&moment);
        self.state.advance(&moment);
    }

    /// What was found so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The same, to be taken out.
    pub fn findings_mut(&mut self) -> &mut Findings {
        &mut self.findings
    }

    /// The record ends. `whole` is false where it was cut off: then nothing is said of what was left.
    pub fn finish(&mut self, whole: bool) {
        if whole {
            self.look(&Moment::End);
        }
    }

    fn look(&mut self, moment: &Moment<'_>) {
        for rule in &self.rules {
            (rule.check)(&self.state, moment, &mut self.findings);
        }
    }
}
