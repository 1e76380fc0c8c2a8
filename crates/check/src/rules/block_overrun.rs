//! `block-overrun`: a task that begins in a block of a user's allocator, or of a pool, goes on beyond its end, into bytes that
//! are somebody else's.

use super::{Rule, Tool, place_of};
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;

/// The rule.
pub const RULE: Rule = Rule { id: "block-overrun", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Submit(entry, submission) = moment else { return };
    for touch in submission.touches.iter().filter(|touch| !touch.access.indexed) {
        let (start, end) = touch.access.bounds();
        let (start, end) = (start as usize, end as usize);
        for blocks in [&state.user_blocks, &state.pool_blocks] {
            let Some(block) = blocks.at(start).filter(|block| block.end() < end) else { continue };
            let beyond = end - block.end();
            let mut facts: Vec<Fact> = vec![
                format!("the block ends at {:#x}, the access {beyond} bytes later", block.end())
                    .into(),
            ];
            facts.extend(blocks.at(block.end()).map(|next| Fact {
                text: format!("the next block is {}", next.describe()),
                site: Some(next.site.clone()),
            }));
            findings.add("", Finding {
                rule: RULE.id,
                severity: Severity::Error,
                title: format!("{} goes on beyond the end of a block", touch.task.name),
                clauses: &[],
                places: vec![
                    Place::of_block(block, format!("the block {} is taken", block.describe())),
                    place_of(touch),
                ],
                facts,
                help: "ask the pool for as many bytes as the tensor has, or correct the tensor's shape".into(),
                count: 1,
                time_ns: entry.time_ns,
            });
        }
    }
}
