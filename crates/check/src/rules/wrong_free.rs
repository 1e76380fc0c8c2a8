//! `wrong-free`: the program frees memory twice, or what is no memory of this kind. The call fails here.

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::Happening;

/// The rule.
pub const RULE: Rule = Rule { id: "wrong-free", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::WrongFree { address, reason } = &entry.happening else { return };
    let mut places = Vec::new();
    let mut before = [&state.allocations, &state.pool_blocks]
        .into_iter()
        .flat_map(|blocks| blocks.retired(*address, address.saturating_add(1)));
    if let Some(retired) = before.find(|retired| retired.block.address == *address) {
        places.push(Place::of_free(retired));
    }
    let text = format!("thread {}: {} of {address:#x}", entry.thread, entry.site.entry);
    places.push(Place::of_call(entry, text));
    let what = if places.len() > 1 {
        "memory is freed twice"
    } else {
        "what is freed is no memory of this kind"
    };
    findings.add(
        "",
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: what.into(),
            clauses: &["TORCH-5"],
            places,
            facts: vec![reason.as_ref().into()],
            help: "free each block once, with the function that belongs to the one that made it"
                .into(),
            count: 1,
            time_ns: entry.time_ns,
        },
    );
}
