//! `use-after-free`: a task touches memory that the program has freed, or an allocator of the user hands it out. A task that another
//! thread submits may have been prepared before the free (torch_npu has such a queue), so only the thread that freed counts.

use super::{Rule, Tool, place_of};
use crate::blocks::{Block, Blocks, Retired};
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::{Callback, Happening, MemoryKind, Purpose, UserCall};
use cairn_record::{Access, Entry};
use std::rc::Rc;

/// The rule.
pub const RULE: Rule = Rule { id: "use-after-free", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    match moment {
        Moment::Submit(entry, submission) => {
            for touch in submission.touches.iter().filter(|touch| !touch.access.indexed) {
                let (start, end) = touch.access.bounds();
                if let Some(retired) = freed(state, entry.thread, start as usize, end as usize) {
                    report(entry, &retired, place_of(touch), findings);
                }
            }
        }
        Moment::Other(entry) => match &entry.happening {
            Happening::Touch { name, accesses } => {
                for access in accesses.iter() {
                    check_host(state, entry, name, access, findings);
                }
            }
            Happening::Callback(callback) => check_block(state, entry, callback, findings),
            _ => {}
        },
        Moment::End => {}
    }
}

/// A function of the library touches memory on the calling thread.
fn check_host(
    state: &State,
    entry: &Entry<'static>,
    name: &str,
    access: &Access,
    findings: &mut Findings,
) {
    let (start, end) = access.bounds();
    let (start, end) = (start as usize, end as usize);
    if let Some(retired) = freed(state, entry.thread, start, end) {
        let access = super::describe_access(access.mode, start, end);
        let text = format!("thread {}: {name} {access}", entry.thread);
        report(entry, &retired, Place::of_call(entry, text), findings);
    }
}

/// An allocator of the user says that a block is in memory that was freed, whichever thread did: the allocator, or what it takes
/// memory from, is gone.
fn check_block(
    state: &State,
    entry: &Entry<'static>,
    callback: &Callback,
    findings: &mut Findings,
) {
    let (UserCall::Address(block), Some(address)) = (callback.request, callback.answer) else {
        return;
    };
    let retired = (address != 0 && state.allocations.at(address).is_none())
        .then(|| state.allocations.retired(address, address + 1).next())
        .flatten();
    let Some(retired) = retired else { return };
    let text = format!(
        "thread {}: the allocator {:#x} says that its block {block:#x} is at {address:#x}",
        entry.thread, callback.object
    );
    let mut finding = finding(entry, retired, Place::of_call(entry, text));
    finding.title = "an allocator hands out memory that was freed".into();
    finding.clauses = &["GE-UNREG-3"];
    finding.help = "unregister the allocator before its memory is freed".into();
    findings.add("block", finding);
}

/// The freed memory that has one of these bytes, if this thread freed it and nobody has it again: an allocation, or a block that the
/// program took from a pool.
fn freed(state: &State, thread: u64, start: usize, end: usize) -> Option<Rc<Retired>> {
    let freed_in = |blocks: &Blocks| {
        let is_live = blocks.overlapping(start, end).next().is_some();
        let mut retired = blocks.retired(start, end).filter(|_| !is_live);
        retired.find(|retired| retired.thread == thread && is_of_program(&retired.block)).cloned()
    };
    freed_in(&state.allocations).or_else(|| freed_in(&state.pool_blocks))
}

fn is_of_program(block: &Block) -> bool {
    match block.kind {
        MemoryKind::Device(_) | MemoryKind::Pinned | MemoryKind::Mapped { .. } => true,
        MemoryKind::PoolBlock { .. } => block.purpose == Purpose::User,
        _ => false,
    }
}

fn report(entry: &Entry<'static>, retired: &Retired, place: Place, findings: &mut Findings) {
    findings.add("", finding(entry, retired, place));
}

fn finding(entry: &Entry<'static>, retired: &Retired, place: Place) -> Finding {
    let freed = Place::of_free(retired);
    Finding {
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
    }
}
