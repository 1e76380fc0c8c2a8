//! `uninitialised`: a task reads bytes of device memory that nobody wrote since they were allocated.

use super::{Rule, Tool, block_fact, describe_access, place_of};
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::{Moment, Submission};
use crate::state::State;
use cairn_record::entry::Happening;
use cairn_record::{Access, Entry};

/// The rule.
pub const RULE: Rule = Rule { id: "uninitialised", tool: Tool::Init, check };

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

/// A function of the library reads memory of a device on the calling thread.
fn check_host(
    state: &State,
    entry: &Entry<'static>,
    name: &str,
    accesses: &[Access],
    findings: &mut Findings,
) {
    for access in accesses {
        if access.mode.writes() || !access.is_dense() || access.indexed {
            continue;
        }
        let (start, end) = access.bounds();
        let (start, end) = (start as usize, end as usize);
        let Some(gap) = state.written.first_gap(start, end) else { continue };
        let access = describe_access(access.mode, start, end);
        let place = Place::of_call(entry, format!("thread {}: {name} {access}", entry.thread));
        findings.add("host", finding(state, entry.time_ns, name, place, gap));
    }
}

fn check_task(
    state: &State,
    entry: &Entry<'static>,
    submission: &Submission,
    findings: &mut Findings,
) {
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
        let found = finding(state, entry.time_ns, &touch.task.name, place_of(touch), gap);
        findings.add("", found);
    }
}

fn finding(state: &State, time_ns: u64, name: &str, place: Place, gap: usize) -> Finding {
    let mut facts: Vec<Fact> = block_fact(state, gap).into_iter().collect();
    facts.push(format!("the first byte that nobody wrote is {gap:#x}").into());
    Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: format!("{name} reads bytes that nobody wrote"),
        clauses: &[],
        places: vec![place],
        facts,
        help: "write the memory first: copy into it, or clear it with aclrtMemsetAsync".into(),
        count: 1,
        time_ns,
    }
}
