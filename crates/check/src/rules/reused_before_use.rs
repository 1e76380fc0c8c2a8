//! `reused-before-use`: a task was prepared with memory that was freed and handed to another owner before the task was submitted. That
//! memory is freed in between is no finding: torch_npu does it, and its memory stays as it is until somebody else gets it.

use super::{Rule, Tool, place_of};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::MemoryKind;

/// The rule.
pub const RULE: Rule = Rule { id: "reused-before-use", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Submit(entry, submission) = moment else { return };
    let Some(preparation) = submission.task.preparation else { return };
    for touch in submission.touches.iter().take(preparation.accesses) {
        let address = touch.access.bounds().0 as usize;
        let is_new = |kind: MemoryKind| matches!(kind, MemoryKind::Device(_));
        let owner = state.allocations.at(address).filter(|block| is_new(block.kind));
        let Some(owner) = owner.filter(|block| block.time_ns > preparation.time_ns) else {
            continue;
        };
        let freed = owner.freed_before.as_ref().map(|freed| {
            let text =
                format!("thread {}: {:#x}+{} is freed", freed.thread, freed.address, freed.bytes);
            Place::of_site(&freed.site, freed.time_ns, text)
        });
        let taken = Place::of_block(owner, format!("{} is allocated", owner.describe()));
        findings.add("", Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!("memory has another owner by the time {} is submitted, which was prepared with it", touch.task.name),
            clauses: &[],
            places: freed.into_iter().chain([taken, place_of(touch)]).collect(),
            facts: Vec::new(),
            help: "free the memory after the task was submitted, on the thread that submits it or after waiting for that thread".into(),
            count: 1,
            time_ns: entry.time_ns,
        });
    }
}
