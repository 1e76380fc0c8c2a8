//! `host-touch`: the program itself loads from, or stores to, device memory. On an NPU that is a fault; on a CPU it just works,
//! and the mistake travels. Seen only while the program runs under `CAIRN_MEMORY=no-host-access`.

use super::{Rule, Tool, block_fact};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::Happening;

/// The rule.
pub const RULE: Rule = Rule { id: "host-touch", tool: Tool::Memory, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::HostFault { address, writes } = entry.happening else { return };
    let verb = if writes { "stores to" } else { "loads from" };
    findings.add(
        "",
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!("the program itself {verb} device memory at {address:#x}"),
            clauses: &[],
            places: vec![Place::of_call(
                entry,
                format!("thread {}: {verb} {address:#x}", entry.thread),
            )],
            facts: block_fact(state, address).into_iter().collect(),
            help: "copy with aclrtMemcpy; only tasks may touch device memory".into(),
            count: 1,
            time_ns: entry.time_ns,
        },
    );
}
