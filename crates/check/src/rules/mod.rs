//! The rules, a file each. A rule is a function from (state, moment) to findings.

mod block_overrun;
mod different_collectives;
mod freed_on_another_stream;
mod freed_while_pending;
mod host_touch;
mod late_registration;
mod leak;
mod missing_collective;
mod model_on_two_streams;
mod order;
mod output_lifetime;
mod overlapping_blocks;
mod pool_on_two_streams;
mod reused_before_use;
mod uninitialised;
mod unpaired_message;
mod use_after_free;
mod wrong_block;
mod wrong_free;

use crate::finding::{Fact, Findings, Place};
use crate::moment::{Moment, Touch};
use crate::ranks::RankMoment;
use crate::state::State;
use cairn_record::Mode;

/// A set of rules that is switched on and off as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The clauses of the contract of users' allocators.
    Contract,
    /// Accesses that nothing orders.
    Order,
    /// Memory that is freed, overlaps or is too short.
    Memory,
    /// What is never given back.
    Leak,
    /// Reads of bytes that nobody wrote.
    Init,
    /// Ranks of a communicator that do not agree, and communicators that are never destroyed.
    Ranks,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Tool; 6] =
        [Tool::Contract, Tool::Order, Tool::Memory, Tool::Leak, Tool::Init, Tool::Ranks];

    /// Those that are on unless the user says otherwise.
    pub const DEFAULT: [Tool; 4] = [Tool::Contract, Tool::Order, Tool::Memory, Tool::Ranks];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Contract => "contract",
            Tool::Order => "order",
            Tool::Memory => "memory",
            Tool::Leak => "leak",
            Tool::Init => "init",
            Tool::Ranks => "ranks",
        }
    }
}

/// A rule.
pub struct Rule {
    /// Its id, in reports and suppressions; a section of `docs/check.md` has this name.
    pub id: &'static str,
    /// What it belongs to.
    pub tool: Tool,
    /// Looks at a moment, before the state has changed.
    pub check: fn(&State, &Moment<'_>, &mut Findings),
}

/// A rule of the tool `ranks` that looks at several ranks of a communicator at a time.
pub struct RankRule {
    /// Its id, as that of a [`Rule`].
    pub id: &'static str,
    /// Looks at a moment.
    pub check: fn(&RankMoment<'_>, &mut Findings),
}

/// Every rule across ranks.
pub const ACROSS_RANKS: [RankRule; 3] =
    [different_collectives::RULE, missing_collective::RULE, unpaired_message::RULE];

/// The ids of all rules, those across ranks last.
pub fn ids() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|rule| rule.id).chain(ACROSS_RANKS.iter().map(|rule| rule.id))
}

/// Every rule on one process.
pub const ALL: [Rule; 19] = [
    order::RULE,
    pool_on_two_streams::RULE,
    model_on_two_streams::RULE,
    freed_while_pending::RULE,
    freed_while_pending::POOL_RULE,
    freed_on_another_stream::RULE,
    late_registration::RULE,
    output_lifetime::RULE,
    use_after_free::RULE,
    reused_before_use::RULE,
    wrong_free::RULE,
    wrong_block::RULE,
    block_overrun::RULE,
    overlapping_blocks::RULE,
    host_touch::RULE,
    leak::CONTRACT_RULE,
    leak::RULE,
    leak::COMMUNICATOR_RULE,
    uninitialised::RULE,
];

/// What an access does, as a verb with its bytes.
fn describe_access(mode: Mode, start: usize, end: usize) -> String {
    format!("{} {start:#x}+{}", verb(mode), end - start)
}

fn verb(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "reads",
        Mode::Write => "writes",
        Mode::ReadWrite => "reads and writes",
    }
}

/// The place of a task's access.
fn place_of(touch: &Touch) -> Place {
    let (start, end) = touch.access.bounds();
    let access = describe_access(touch.access.mode, start as usize, end as usize);
    let task = &touch.task;
    let step = match (&task.graph, &touch.step) {
        (Some(graph), Some(step)) => format!(" ({graph}, node {step})"),
        (Some(graph), None) => format!(" ({graph})"),
        _ => String::new(),
    };
    let text = format!(
        "stream {}, task {}: {}{step} {access}",
        task.epoch.stream, task.epoch.seq, task.name
    );
    Place::of_task(task, text).labelled(format!("{} {}", task.name, verb(touch.access.mode)))
}

/// The innermost block at an address, and who allocated it.
fn block_fact(state: &State, address: usize) -> Option<Fact> {
    let block = (state.user_blocks.at(address))
        .or_else(|| state.pool_blocks.at(address))
        .or_else(|| state.allocations.at(address))?;
    let site = match block.site.entry.is_empty() {
        true => String::new(),
        false => format!(", allocated in {}", block.site.entry),
    };
    let text = format!("the bytes lie in the block {}{site}", block.describe());
    Some(Fact { text, site: Some(block.site.clone()) })
}
