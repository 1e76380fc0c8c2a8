//! `different-collectives`: ranks of one communicator call different operators, or one with different arguments.

use super::RankRule;
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::ranks::{Call, RankMoment, list_ranks};
use std::rc::Rc;

/// The rule.
pub const RULE: RankRule = RankRule { id: "different-collectives", check };

fn check(moment: &RankMoment<'_>, findings: &mut Findings) {
    let RankMoment::Round(group, round) = moment else { return };
    let kinds = kinds(round);
    if kinds.len() < 2 {
        return;
    }
    let (first, other) = (kinds[0][0], kinds[1][0]);
    let what = match first.collective.operator == other.collective.operator {
        true => format!("do not agree on {}", first.collective.operator),
        false => "call different operators".into(),
    };
    let ranks = |kind: &[&Call]| kind.iter().map(|call| call.rank).collect::<Vec<_>>();
    let places = (kinds.iter())
        .map(|kind| {
            let (call, ranks) = (kind[0], list_ranks(&ranks(kind)));
            let text = format!("{ranks}, collective {}: {}", call.number, call.describe());
            Place::of_site(&call.site, call.time_ns, text)
        })
        .collect();
    let mut facts: Vec<Fact> = Vec::new();
    if first.number > 1 {
        facts.push(match first.number {
            2 => "collective 1 was the same on all of them".into(),
            number => {
                format!("collectives 1 to {} were the same on all of them", number - 1).into()
            }
        });
    }
    let named: Vec<u32> = kinds.iter().map(|kind| kind[0].rank).collect();
    facts.extend(group.describe_processes(&named).map(Fact::from));
    let mut all: Vec<u32> = round.iter().map(|call| call.rank).collect();
    all.sort_unstable();
    findings.add(
        &group.name,
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!("{} of {} {what}", list_ranks(&all), group.title()),
            clauses: &[],
            places,
            facts,
            help: "all ranks of a communicator call the same operators in the same order, with the same count, type, reduction and root"
                .into(),
            count: 1,
            time_ns: first.time_ns,
        },
    );
}

/// The calls in groups of equal ones, by the lowest rank of each.
fn kinds(round: &[Rc<Call>]) -> Vec<Vec<&Call>> {
    let mut calls: Vec<&Call> = round.iter().map(|call| &**call).collect();
    calls.sort_by_key(|call| call.rank);
    let mut kinds: Vec<Vec<&Call>> = Vec::new();
    for call in calls {
        match kinds.iter_mut().find(|kind| kind[0].agrees(call)) {
            Some(kind) => kind.push(call),
            None => kinds.push(vec![call]),
        }
    }
    kinds
}
