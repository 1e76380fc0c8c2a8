//! `unpaired-message`: a send without its receive, a receive without its send, or one with another count or type.

use super::RankRule;
use crate::finding::{Fact, Finding, Findings, Place, Severity};
use crate::ranks::{Call, Channel, Group, RankMoment, elements};

/// The rule.
pub const RULE: RankRule = RankRule { id: "unpaired-message", check };

fn check(moment: &RankMoment<'_>, findings: &mut Findings) {
    match moment {
        RankMoment::Message(group, [send, receive]) => check_pair(group, send, receive, findings),
        RankMoment::End(group) => {
            for (pair, channel) in &group.channels {
                check_rest(group, *pair, channel, findings);
            }
        }
        RankMoment::Round(..) => {}
    }
}

/// Batches do not say how many elements each of their messages has.
fn check_pair(group: &Group, send: &Call, receive: &Call, findings: &mut Findings) {
    let size = |call: &Call| (call.collective.count, call.collective.data_type);
    let is_known = send.collective.count > 0 && receive.collective.count > 0;
    if !is_known || size(send) == size(receive) {
        return;
    }
    let text = |call: &Call| elements(call.collective.count, call.collective.data_type);
    let title = format!(
        "rank {} of {} sends {} to rank {}, which receives {}",
        send.rank,
        group.title(),
        text(send),
        receive.rank,
        text(receive)
    );
    let help = "a receive has the count and the type of its send".into();
    add("pair", group, title, &[send, receive], Vec::new(), help, findings);
}

/// The two ranks are seen, and the one that did too little does nothing more.
fn check_rest(group: &Group, pair: (u32, u32), channel: &Channel, findings: &mut Findings) {
    let (sender, receiver) = pair;
    let (Some(from), Some(to)) = (group.members.get(&sender), group.members.get(&receiver)) else {
        return;
    };
    let (call, has_ended, title) = match (channel.sends.front(), channel.receives.front()) {
        (Some(send), _) => {
            let title = format!("sends to rank {receiver} what that one does not receive");
            (send, to.has_ended, format!("rank {sender} of {} {title}", group.title()))
        }
        (None, Some(receive)) => {
            let title = format!("waits for a message that rank {sender} does not send");
            (receive, from.has_ended, format!("rank {receiver} of {} {title}", group.title()))
        }
        (None, None) => return,
    };
    if !has_ended {
        return;
    }
    let [sent, received] = channel.counts;
    let facts = vec![
        format!(
            "rank {sender} sends {sent} messages to rank {receiver}, which receives {received}"
        )
        .into(),
    ];
    let help = "every send has a receive on the other rank, and every receive a send".into();
    add("rest", group, title, &[call], facts, help, findings);
}

fn add(
    kind: &str,
    group: &Group,
    title: String,
    calls: &[&Call],
    mut facts: Vec<Fact>,
    help: String,
    findings: &mut Findings,
) {
    let place = |call: &&Call| {
        let text = format!("rank {}, message {}: {}", call.rank, call.number, call.describe());
        Place::of_site(&call.site, call.time_ns, text)
    };
    let ranks: Vec<u32> = calls.iter().map(|call| call.rank).collect();
    facts.extend(group.describe_processes(&ranks).map(Fact::from));
    findings.add(
        &format!("{kind}: {title}"),
        Finding {
            rule: RULE.id,
            severity: Severity::Error,
            title,
            clauses: &[],
            places: calls.iter().map(place).collect(),
            facts,
            help,
            count: 1,
            time_ns: calls[0].time_ns,
        },
    );
}
