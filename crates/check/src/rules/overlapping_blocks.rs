//! `overlapping-blocks`: a user's allocator hands out bytes that are out already.

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::{Happening, MemoryKind, UserCall};

/// The rule.
pub const RULE: Rule = Rule { id: "overlapping-blocks", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::Callback(callback) = &entry.happening else { return };
    let (UserCall::Address(handle), Some(address)) = (callback.request, callback.answer) else {
        return;
    };
    if address == 0 {
        return;
    }
    // A block that is asked for its address again is the same block, not another one.
    let is_other = |kind: MemoryKind| !matches!(kind, MemoryKind::External { object, block, .. } if object == callback.object && block == handle);
    let Some(block) = state.user_blocks.at(address).filter(|block| is_other(block.kind)) else {
        return;
    };
    findings.add("", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: format!("the allocator {:#x} hands out {address:#x}, which is out already", callback.object),
        clauses: &["GE-REG-7"],
        places: vec![
            Place::of_block(block, format!("the block {} is taken", block.describe())),
            Place::of_call(entry, format!("thread {}: the block {handle:#x} is said to be at {address:#x}", entry.thread)),
        ],
        facts: Vec::new(),
        help: "hand bytes out again only after the engine has called free for the block that has them".into(),
        count: 1,
        time_ns: entry.time_ns,
    });
}
