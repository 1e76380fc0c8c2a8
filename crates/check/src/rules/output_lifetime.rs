//! `output-lifetime`: an output that the engine made is used after what it comes from is gone. An output of a user's allocator
//! ends with the memory of that allocator; one of the built-in allocator ends with its graph.

use super::{Rule, Tool, describe_access, place_of};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::Entry;
use cairn_record::entry::{Happening, MemoryKind, Purpose};

/// The rule.
pub const RULE: Rule = Rule { id: "output-lifetime", tool: Tool::Contract, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    match moment {
        Moment::Other(entry) => match entry.happening {
            Happening::Free { kind: MemoryKind::Device(_), address, .. } => {
                pool_freed(state, entry, address, findings);
            }
            Happening::Free { kind: MemoryKind::PoolBlock { .. }, address, .. } => {
                released_late(state, entry, address, findings);
            }
            Happening::Touch { ref name, ref accesses } => {
                for access in accesses.iter() {
                    let (start, end) = access.bounds();
                    let (start, end) = (start as usize, end as usize);
                    if unloaded_output(state, start).is_some() {
                        let access = describe_access(access.mode, start, end);
                        let text = format!("thread {}: {name} {access}", entry.thread);
                        let place = Place::of_call(entry, text);
                        touched_late(state, entry, start, place, findings);
                    }
                }
            }
            _ => {}
        },
        Moment::Submit(entry, submission) => {
            for touch in &submission.touches {
                let address = touch.access.bounds().0 as usize;
                if unloaded_output(state, address).is_some() {
                    touched_late(state, entry, address, place_of(touch), findings);
                }
            }
        }
        Moment::End => {}
    }
}

fn touched_late(
    state: &State,
    entry: &Entry<'static>,
    address: usize,
    place: Place,
    findings: &mut Findings,
) {
    let Some((block, unload)) = unloaded_output(state, address) else { return };
    findings.add(
        "touched",
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: "an output of the built-in allocator is touched after its graph was unloaded"
                .into(),
            clauses: &["GE-RUN-5"],
            places: vec![unload, place],
            facts: vec![format!("the output is {}", block.describe()).into()],
            help: "copy the output, or release it, before the graph is unloaded".into(),
            count: 1,
            time_ns: entry.time_ns,
        },
    );
}

/// The memory of a user's allocator is freed while blocks of it are out.
fn pool_freed(state: &State, entry: &Entry<'static>, address: usize, findings: &mut Findings) {
    let Some(memory) = state.allocations.at(address).filter(|memory| memory.address == address)
    else {
        return;
    };
    let Some(block) = state.user_blocks.overlapping(memory.address, memory.end()).next() else {
        return;
    };
    let is_output = block.purpose == Purpose::Output;
    let what = if is_output { "an output" } else { "a block" };
    findings.add("pool", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: format!("the memory of a user's allocator is freed while {what} in it is out"),
        clauses: if is_output { &["GE-RUN-4", "GE-UNREG-3"] } else { &["GE-UNREG-3"] },
        places: vec![
            Place::of_block(block, format!("the block {} is taken", block.describe())),
            Place::of_call(entry, format!("thread {}: {} frees the memory around it", entry.thread, entry.site.entry)),
        ],
        facts: Vec::new(),
        help: "release every output and unload every graph before the allocator gives its memory back".into(),
        count: 1,
        time_ns: entry.time_ns,
    });
}

fn released_late(state: &State, entry: &Entry<'static>, address: usize, findings: &mut Findings) {
    let Some((block, unload)) = unloaded_output(state, address) else { return };
    findings.add("released", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: "an output of the built-in allocator is released after its graph was unloaded".into(),
        clauses: &["GE-RUN-5"],
        places: vec![
            unload,
            Place::of_call(entry, format!("thread {}: the output is released", entry.thread)),
        ],
        facts: vec![format!("the output is {}", block.describe()).into()],
        help: "release the output before the graph is unloaded (the session destroyed, GEFinalize)".into(),
        count: 1,
        time_ns: entry.time_ns,
    });
}

/// The output of the built-in allocator at an address whose graph is gone, and where the graph was unloaded.
fn unloaded_output(state: &State, address: usize) -> Option<(&crate::blocks::Block, Place)> {
    let block = state.pool_blocks.at(address).filter(|block| block.purpose == Purpose::Output)?;
    let graph = state.graphs.get(&block.owner.loaded?)?;
    let (site, time_ns) = graph.unloaded.as_ref()?;
    let text = format!("{} is unloaded", graph.label);
    Some((block, Place::of_site(site, *time_ns, text)))
}
