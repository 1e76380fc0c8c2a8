//! `order`: two accesses to the same bytes, of which one writes, that nothing orders. Between two streams, or between a
//! stream and a function of the library that touches memory on the calling thread.

use super::{Rule, Tool, block_fact, describe_access, place_of};
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::{Moment, Submission, Touch};
use crate::state::State;
use cairn_record::entry::{Happening, Purpose};
use cairn_record::{Access, Entry};
use std::rc::Rc;

/// The rule.
pub const RULE: Rule = Rule { id: "order", tool: Tool::Order, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    match moment {
        Moment::Submit(entry, submission) => check_task(state, entry, submission, findings),
        Moment::Other(entry) => {
            if let Happening::Touch { name, accesses } = &entry.happening {
                check_host(state, entry, name, accesses, findings);
            }
        }
        Moment::End => {}
    }
}

fn check_task(
    state: &State,
    entry: &Entry<'static>,
    submission: &Submission,
    findings: &mut Findings,
) {
    for touch in submission.touches.iter().filter(|touch| !touch.access.indexed) {
        let mut first: Option<Rc<Touch>> = None;
        state.shadow.conflicts(touch, |earlier| {
            if first.is_none() && !state.is_ordered(submission, earlier.task.epoch) {
                first = Some(earlier.clone());
            }
        });
        let Some(earlier) = first else { continue };
        let (from, to) = (earlier.task.epoch.stream, touch.task.epoch.stream);
        let mut facts: Vec<Fact> =
            block_fact(state, shared_address(&earlier.access, &touch.access)).into_iter().collect();
        facts.push(
            format!(
                "missing: an order of stream {to} after task {} of stream {from}",
                earlier.task.epoch.seq
            )
            .into(),
        );
        findings.add("task", Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!("streams {from} and {to} touch the same bytes, and nothing orders them"),
            clauses: clauses(state, &earlier, Some(touch)),
            places: vec![place_of(&earlier), place_of(touch)],
            facts,
            help: format!(
                "record an event on stream {from} after {} and let stream {to} wait for it before {}, or synchronize stream {from} first",
                earlier.task.name, touch.task.name
            ),
            count: 1,
            time_ns: entry.time_ns,
        });
    }
}

fn check_host(
    state: &State,
    entry: &Entry<'static>,
    name: &str,
    accesses: &[Access],
    findings: &mut Findings,
) {
    for access in accesses.iter().filter(|access| !access.indexed) {
        let (start, end) = access.bounds();
        let (start, end) = (start as usize, end as usize);
        let mut first: Option<Rc<Touch>> = None;
        state.shadow.touches(start, end, |earlier| {
            let is_conflict = (earlier.access.mode.writes() || access.mode.writes())
                && earlier.access.overlap(access) == cairn_record::Overlap::Yes;
            if first.is_none() && is_conflict && !state.known.covers(earlier.task.epoch) {
                first = Some(earlier.clone());
            }
        });
        let Some(earlier) = first else { continue };
        let from = earlier.task.epoch.stream;
        let mut facts: Vec<Fact> =
            block_fact(state, shared_address(&earlier.access, access)).into_iter().collect();
        facts.push(
            format!(
                "missing: a synchronize of stream {from} after its task {}",
                earlier.task.epoch.seq
            )
            .into(),
        );
        let text =
            format!("thread {}: {name} {}", entry.thread, describe_access(access.mode, start, end));
        findings.add("host", Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!("the host touches bytes that a task of stream {from} may still be using"),
            clauses: clauses(state, &earlier, None),
            places: vec![place_of(&earlier), Place::of_call(entry, text)],
            facts,
            help: format!("call aclrtSynchronizeStream on stream {from} before {name}, or use {name}'s asynchronous form on stream {from}"),
            count: 1,
            time_ns: entry.time_ns,
        });
    }
}

/// A byte near both.
fn shared_address(a: &Access, b: &Access) -> usize {
    a.bounds().0.max(b.bounds().0) as usize
}

/// What the contract says of it: results of a graph are valid after the synchronization; blocks of one allocator are not for
/// two streams at a time.
fn clauses(state: &State, earlier: &Touch, later: Option<&Touch>) -> &'static [&'static str] {
    let address = earlier.access.bounds().0 as usize;
    let block = state.user_blocks.at(address).or_else(|| state.pool_blocks.at(address));
    let is_users = state.user_blocks.at(address).is_some()
        || state.user_blocks.retired(address, address + 1).next().is_some();
    let is_result = earlier.task.graph.is_some() && !is_users
        || block.is_some_and(|block| block.purpose == Purpose::Output);
    match (is_result, is_users && later.is_some()) {
        (true, _) => &["GE-RUN-8"],
        (false, true) => &["GE-REG-5", "ACL-REG-6"],
        (false, false) => &[],
    }
}
