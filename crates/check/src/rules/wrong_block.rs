//! `wrong-block`: a block of a user's allocator that the program has freed itself while it was out, or that says it belongs to
//! another allocator (a note: an allocator may hand out the blocks of another one that it is built on).

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::{BlockFault, Happening};

/// The rule.
pub const RULE: Rule = Rule { id: "wrong-block", tool: Tool::Contract, check };

fn check(_: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::WrongBlock { object, block, fault } = entry.happening else { return };
    let (severity, title, fact, help) = match fault {
        BlockFault::FreedBefore => (
            Severity::Error,
            format!("a block of the allocator {object:#x} is freed twice"),
            "its count of users was 0 when the engine gave it back".to_owned(),
            "call MemBlock::Free only for a count that the program has added itself (AddCount)",
        ),
        BlockFault::OfAnother(other) => (
            Severity::Note,
            format!("a block of the allocator {object:#x} belongs to another one"),
            format!("the block was made with the allocator {other:#x}, to which it goes back"),
            "make each MemBlock with the allocator whose Malloc hands it out, unless that one is built on the other",
        ),
    };
    findings.add(
        title.as_str(),
        Finding {
            rule: RULE.id,
            severity,
            title: title.clone(),
            clauses: &["GE-REG-7"],
            places: vec![Place::of_call(
                entry,
                format!("thread {}: the block {block:#x}", entry.thread),
            )],
            facts: vec![fact.into()],
            help: help.into(),
            count: 1,
            time_ns: entry.time_ns,
        },
    );
}
