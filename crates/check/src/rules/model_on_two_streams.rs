//! `model-on-two-streams`: one loaded model runs on two streams, and the program has not ordered the runs. Here the engine
//! does that; on an NPU the runs share memory.

use super::{Rule, Tool};
use crate::finding::{Finding, Findings, Place, Severity};
use crate::moment::Moment;
use crate::state::State;
use cairn_record::entry::Happening;

/// The rule.
pub const RULE: Rule = Rule { id: "model-on-two-streams", tool: Tool::Contract, check };

fn check(state: &State, moment: &Moment<'_>, findings: &mut Findings) {
    let Moment::Other(entry) = moment else { return };
    let Happening::Run { plan, stream, .. } = &entry.happening else { return };
    let Some(last) = state.model_runs.get(plan) else { return };
    let epoch = last.epoch;
    if state.is_ordered_by_program(*stream, epoch) {
        return;
    }
    let label = state.plan_label(*plan).unwrap_or("the model");
    findings.add("", Finding {
        rule: RULE.id,
        severity: Severity::Error,
        title: format!("{label} runs on streams {} and {stream} at the same time", epoch.stream),
        clauses: &[],
        places: vec![
            Place::of_task(last, format!("stream {}, task {}: the model runs", epoch.stream, epoch.seq)),
            Place::of_call(entry, format!("stream {stream}: the model runs")).on_stream(*stream),
        ],
        facts: vec![format!("missing: an order of stream {stream} after the run on stream {}", epoch.stream).into()],
        help: format!("synchronize stream {} first, let stream {stream} wait for an event, or load the model a second time", epoch.stream),
        count: 1,
        time_ns: entry.time_ns,
    });
}
