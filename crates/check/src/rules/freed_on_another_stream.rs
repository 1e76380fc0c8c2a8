//! `freed-on-another-stream`: a block of a memory pool is freed on a stream while a task of another one, which nothing orders before
//! that free, may still touch it.

use super::{Rule, Tool, place_of};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::{Moment, Touch};
use crate::state::State;
use cairn_record::entry::{Happening, MemoryKind, Purpose};
use std::rc::Rc;

/// The rule.
pub const RULE: Rule = Rule { id: "freed-on-another-stream", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::Free { kind: MemoryKind::PoolBlock { .. }, address, stream: Some(on), .. } =
        entry.happening
    else {
        return;
    };
    let block = state.pool_blocks.at(address).filter(|block| block.address == address);
    let is_of_program = |purpose| matches!(purpose, Purpose::User | Purpose::Output);
    let Some(block) = block.filter(|block| is_of_program(block.purpose)) else { return };
    let mut pending: Option<Rc<Touch>> = None;
    state.shadow.touches(block.address, block.end(), |touch| {
        let epoch = touch.task.epoch;
        if pending.is_none() && !state.is_ordered_by_program(on, epoch) {
            pending = Some(touch.clone());
        }
    });
    let Some(touch) = pending else { return };
    let other = touch.task.epoch.stream;
    findings.add("", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: format!("a block is freed on stream {on} while a task of stream {other} may still touch it"),
        clauses: &[],
        places: vec![
            place_of(&touch),
            Place::of_call(
                entry,
                format!("thread {}: {} is freed on stream {on}", entry.thread, block.describe()),
            )
            .on_stream(on),
        ],
        facts: vec![
            format!("missing: an order of stream {on} after task {} of stream {other}", touch.task.epoch.seq).into(),
        ],
        help: format!("record an event on stream {other} after {} and let stream {on} wait for it before the free, or free the block on stream {other}", touch.task.name),
        count: 1,
        time_ns: entry.time_ns,
    });
}
