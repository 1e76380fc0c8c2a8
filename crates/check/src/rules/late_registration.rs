//! `late-registration`: an allocator is registered on a stream that has executed before. It serves what comes later; on an
//! NPU parts of what ran before may keep the earlier one. A note.

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::{Change, Domain, Happening};

/// The rule.
pub const RULE: Rule = Rule { id: "late-registration", tool: Tool::Contract, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::Register { domain, stream, object, change: Change::Created } = entry.happening
    else {
        return;
    };
    let Some(executed) = state.executed.get(&(domain, stream)) else { return };
    let (clauses, first, fact): (&[_], _, _) = match domain {
        Domain::Acl => (
            &["ACL-REG-4"],
            "the first execution",
            "it serves what is executed from now on; on an NPU single operators ignore it",
        ),
        Domain::Ge => (
            &["GE-REG-4"],
            "the graph is loaded",
            "memory that a load took stays where it is; on an NPU a loaded dynamic graph keeps the allocator that it has",
        ),
    };
    findings.add("", Finding {
        rule: RULE.id,
        severity: Severity::Note,
        title: format!("the allocator {object:#x} is registered on stream {stream}, which has executed before"),
        clauses,
        places: vec![
            Place::unplaced(executed.clone(), format!("stream {stream} executes")),
            Place::of_call(entry, format!("thread {}: the allocator is registered", entry.thread)),
        ],
        facts: vec![fact.into()],
        help: format!("register the allocator before {first}"),
        count: 1,
        time_ns: entry.time_ns,
    });
}
