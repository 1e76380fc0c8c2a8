//! `use-after-free`: a task touches memory that the program has freed. A task that another thread submits may have been
//! prepared before the free (torch_npu has such a queue), so only the thread that freed counts.

use super::{Rule, Tool, describe_block, place_of};
use crate::blocks::Retired;
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::Entry;
use cairn_record::entry::{Happening, MemoryKind};

/// The rule.
pub const RULE: Rule = Rule { id: "use-after-free", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    match moment {
        Moment::Submit(entry, submission) => {
            for touch in submission.touches.iter().filter(|touch| !touch.access.indexed) {
                let (start, end) = touch.access.bounds();
                if let Some(retired) = freed(state, entry.thread, start as usize, end as usize) {
                    report(entry, retired, place_of(touch), findings);
                }
            }
        }
        Moment::Other(entry) => {
            let Happening::Touch { name, accesses } = &entry.happening else { return };
            for access in accesses.iter() {
                let (start, end) = access.bounds();
                let (start, end) = (start as usize, end as usize);
                if let Some(retired) = freed(state, entry.thread, start, end) {
                    let access = super::describe_access(access.mode, start, end);
                    let text = format!("thread {}: {name} {access}", entry.thread);
                    report(entry, retired, Place { text, site: entry.site.clone() }, findings);
                }
            }
        }
        Moment::End => {}
    }
}

/// The freed memory that has one of these bytes, if this thread freed it and nobody has it again.
fn freed(state: &State, thread: u64, start: usize, end: usize) -> Option<&Retired> {
    let retired = state.allocations.retired(start, end).find(|retired| {
        retired.thread == thread
            && matches!(retired.block.kind, MemoryKind::Device(_) | MemoryKind::Pinned)
    })?;
    let is_live = state.allocations.overlapping(start, end).next().is_some();
    (!is_live).then_some(retired)
}

fn report(entry: &Entry<'static>, retired: &Retired, place: Place, findings: &mut Findings) {
    let freed = Place {
        text: format!("thread {}: {} is freed", retired.thread, describe_block(&retired.block)),
        site: retired.site.clone(),
    };
    findings.add("", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: "memory is used after it was freed".into(),
        clauses: &[],
        places: vec![freed, place],
        facts: vec![Fact {
            text: format!("it had been allocated in {}", retired.block.site.entry),
            site: Some(retired.block.site.clone()),
        }],
        help: "free the memory after the last call that names it, and after the stream was synchronized".into(),
        count: 1,
        time_ns: entry.time_ns,
    });
}
