//! `freed-while-pending`: memory goes back to the system while a task that touches it may be pending. In memory of a user's
//! allocator it breaks the contract (`pool-freed-while-pending`). Elsewhere it is a note: torch_npu frees what its queued
//! kernels still use, and `aclrtFree` of this library keeps such memory intact.

use super::{Rule, Tool, place_of};
use crate::blocks::Block;
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::{Moment, Touch};
use crate::state::State;
use cairn_record::Entry;
use cairn_record::entry::{Happening, MemoryKind};
use std::rc::Rc;

/// The rule for memory of whatever origin.
pub const RULE: Rule = Rule {
    id: "freed-while-pending",
    tool: Tool::Memory,
    check: |state, moment, findings| check(state, moment, findings, false),
};

/// The rule for memory that a user's allocator hands out.
pub const POOL_RULE: Rule = Rule {
    id: "pool-freed-while-pending",
    tool: Tool::Contract,
    check: |state, moment, findings| check(state, moment, findings, true),
};

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings, of_pools: bool) {
    let Moment::Other(entry) = moment else { return };
    let Happening::Free {
        kind: MemoryKind::Device(_) | MemoryKind::Pinned | MemoryKind::Mapped { .. },
        address,
        ..
    } = entry.happening
    else {
        return;
    };
    let Some(block) = state.allocations.at(address).filter(|block| block.address == address) else {
        return;
    };
    if is_of_pool(state, block) != of_pools {
        return;
    }
    let mut pending: Option<Rc<Touch>> = None;
    state.shadow.touches(block.address, block.end(), |touch| {
        if pending.is_none() && !state.known.covers(touch.task.epoch) {
            pending = Some(touch.clone());
        }
    });
    if let Some(touch) = pending {
        report(entry, block, &touch, of_pools, findings);
    }
}

/// Whether a user's allocator hands out, or handed out, parts of it.
fn is_of_pool(state: &State, block: &Block) -> bool {
    let (start, end) = (block.address, block.end());
    state.user_blocks.overlapping(start, end).next().is_some()
        || state
            .user_blocks
            .retired(start, end)
            .any(|retired| retired.block.time_ns >= block.time_ns)
}

fn report(
    entry: &Entry<'static>,
    block: &Block,
    touch: &Touch,
    of_pools: bool,
    findings: &mut Findings,
) {
    let stream = touch.task.epoch.stream;
    // A free keeps the memory for such tasks; after an unmap a device faults.
    let is_unmap = matches!(block.kind, MemoryKind::Mapped { .. });
    let (verb, done, before) = match is_unmap {
        true => ("unmaps", "unmapped", "unmapped"),
        false => ("frees", "given back", "freed"),
    };
    let freed = Place::of_call(
        entry,
        format!("thread {}: {} {verb} {}", entry.thread, entry.site.entry, block.describe()),
    );
    findings.add(
        "",
        Finding {
            rule: if of_pools { POOL_RULE.id } else { RULE.id },
            severity: if of_pools || is_unmap { Severity::Error } else { Severity::Note },
            title: format!("memory is {done} while a task of stream {stream} may still touch it"),
            clauses: if of_pools { &["GE-REG-6", "ACL-REG-7"] } else { &[] },
            places: vec![place_of(touch), freed],
            facts: vec![
                format!(
                    "missing: a synchronize of stream {stream} after its task {}",
                    touch.task.epoch.seq
                )
                .into(),
            ],
            help: format!(
                "call aclrtSynchronizeStream on stream {stream} before the memory is {before}"
            ),
            count: 1,
            time_ns: entry.time_ns,
        },
    );
}
