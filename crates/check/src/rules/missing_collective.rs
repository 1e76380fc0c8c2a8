//! `missing-collective`: a rank leaves a communicator, or ends, without a collective that another rank has called.

use super::RankRule;
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::ranks::{Group, RankMoment, list_ranks};

/// The rule.
pub const RULE: RankRule = RankRule { id: "missing-collective", check };

fn check(moment: &RankMoment<'_>, findings: &mut Findings) {
    let RankMoment::End(group) = moment else { return };
    // Of the ranks that end first, the one with the fewest calls: those after it may have stopped for want of it.
    let ended = group.members.iter().filter(|(_, member)| member.has_ended);
    let Some(fewest) = ended.map(|(_, member)| member.calls).min() else { return };
    let short: Vec<u32> = ranks_with(group, |calls, has_ended| has_ended && calls == fewest);
    let Some(call) = (fewest + 1).checked_sub(group.first_round).and_then(|index| {
        let round = group.rounds.get(index as usize)?;
        round.iter().min_by_key(|call| call.rank)
    }) else {
        return;
    };
    let longer: Vec<u32> = ranks_with(group, |calls, _| calls > fewest);
    let text = format!("rank {}, collective {}: {}", call.rank, call.number, call.describe());
    let mut places = vec![Place::of_site(&call.site, call.time_ns, text)];
    if let Some(last) = &group.members[&short[0]].last {
        let text = format!(
            "rank {}, its last collective, {}: {}",
            last.rank,
            last.number,
            last.describe()
        );
        places.push(Place::of_site(&last.site, last.time_ns, text));
    }
    let verb = |ranks: &[u32]| if ranks.len() == 1 { "calls" } else { "call" };
    let mut facts: Vec<Fact> = vec![
        format!(
            "{} {} {fewest} collective{} in all, {} more",
            list_ranks(&short),
            verb(&short),
            if fewest == 1 { "" } else { "s" },
            list_ranks(&longer)
        )
        .into(),
    ];
    facts.extend(group.describe_processes(&[call.rank, short[0]]).map(Fact::from));
    let end = if short.len() == 1 { "ends" } else { "end" };
    findings.add(
        &group.name,
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title: format!(
                "{} of {} {end} without a collective that {} {}",
                list_ranks(&short),
                group.title(),
                list_ranks(&longer),
                verb(&longer)
            ),
            clauses: &[],
            places,
            facts,
            help: format!(
                "call {} on every rank, or on none: the ranks that call it wait for those that do not",
                call.collective.operator
            ),
            count: 1,
            time_ns: call.time_ns,
        },
    );
}

fn ranks_with(group: &Group, is_one: impl Fn(u64, bool) -> bool) -> Vec<u32> {
    let members = group.members.iter().filter(|(_, member)| is_one(member.calls, member.has_ended));
    members.map(|(rank, _)| *rank).collect()
}
