//! `pool-on-two-streams`: one allocator of the user serves two streams whose work nothing orders.

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::{Moment, Submission};
use crate::state::State;
use std::collections::BTreeSet;

/// The rule.
pub const RULE: Rule = Rule { id: "pool-on-two-streams", tool: Tool::Contract, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Submit(entry, submission) = moment else { return };
    for object in objects(state, submission) {
        let Some(allocator) = state.allocators.get(&object) else { continue };
        let (task, stream) = (&submission.task, submission.task.epoch.stream);
        let unordered = (allocator.last_use.values())
            .filter(|last| last.epoch.stream != stream)
            .find(|last| !state.is_ordered_by_program(stream, last.epoch));
        let Some(last) = unordered else { continue };
        let from = last.epoch.stream;
        let place = |task: &crate::moment::Task| {
            let text = format!(
                "stream {}, task {}: {} uses blocks of the allocator",
                task.epoch.stream, task.epoch.seq, task.name
            );
            Place::of_task(task, text)
        };
        findings.add("", Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!(
                "the allocator {object:#x} serves streams {from} and {stream} at the same time"
            ),
            clauses: &["GE-REG-5", "ACL-REG-6"],
            places: vec![place(last), place(task)],
            facts: vec![format!("missing: a synchronize of stream {from}, or an event, before stream {stream} runs").into()],
            help: format!(
                "synchronize stream {from} before the next execution on stream {stream}, or register a pool of its own on each stream"
            ),
            count: 1,
            time_ns: entry.time_ns,
        });
    }
}

/// The allocators whose blocks, made for its stream, the task touches.
fn objects(state: &State, submission: &Submission) -> BTreeSet<usize> {
    let stream = submission.task.epoch.stream;
    let mut objects = BTreeSet::new();
    for touch in &submission.touches {
        let (start, end) = touch.access.bounds();
        objects.extend(state.served_objects(stream, start as usize, end as usize));
    }
    objects
}
