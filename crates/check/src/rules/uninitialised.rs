//! `uninitialised`: a task reads bytes of device memory that nobody wrote since they were allocated.

use super::{Rule, Tool, block_fact, place_of};
use crate::finding::{Fact, Finding, Findings, Severity};
use crate::moment::Moment;
use crate::state::State;

/// The rule.
pub const RULE: Rule = Rule { id: "uninitialised", tool: Tool::Init, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Submit(entry, submission) = moment else { return };
    for (index, touch) in submission.touches.iter().enumerate() {
        let reads_all = !touch.access.mode.writes() && touch.access.is_dense();
        if !reads_all || touch.access.indexed {
            continue;
        }
        let (start, end) = touch.access.bounds();
        // Steps of a graph write what its later ones read.
        let is_own = submission.touches[..index].iter().any(|earlier| {
            let (from, to) = earlier.access.bounds();
            earlier.access.mode.writes() && from < end && start < to
        });
        let (start, end) = (start as usize, end as usize);
        let Some(gap) = state.written.first_gap(start, end).filter(|_| !is_own) else { continue };
        let mut facts: Vec<Fact> = block_fact(state, gap).into_iter().collect();
        facts.push(format!("the first byte that nobody wrote is {gap:#x}").into());
        findings.add(
            "",
            Finding {
                rule: RULE.id,
                severity: Severity::Error,
                title: format!("{} reads bytes that nobody wrote", touch.task.name),
                clauses: &[],
                places: vec![place_of(touch)],
                facts,
                help: "write the memory first: copy into it, or clear it with aclrtMemsetAsync"
                    .into(),
                count: 1,
                time_ns: entry.time_ns,
            },
        );
    }
}
