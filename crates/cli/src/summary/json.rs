//! The summary as JSON. Times are nanoseconds, sizes bytes.

use serde_json::{Value, json};

use cairn_record::entry::Communicator;

use super::{
    communicators::CommunicatorFigures,
    counts::Times,
    figures::{Breakdown, Place, Pool, Reserve, Shares, Summary, site_name},
};

/// Summaries as text: one object, or a list of several.
pub fn render(summaries: &[Summary]) -> String {
    match summaries {
        [one] => format!("{:#}\n", value(one)),
        several => format!("{:#}\n", Value::from_iter(several.iter().map(value))),
    }
}

/// The summary as one object.
pub fn value(summary: &Summary) -> Value {
    let counts = &summary.counts;
    let traffic = counts.traffic.iter().map(|(memory, traffic)| {
        json!({"memory": memory, "allocations": traffic.allocations, "frees": traffic.frees, "bytes": traffic.bytes})
    });
    let tasks = counts.tasks.iter().map(|(name, tasks)| {
        json!({"name": &**name, "submitted": tasks.submitted, "failed": tasks.failed, "dropped": tasks.dropped,
               "run": times(&tasks.run)})
    });
    let callbacks = counts.callbacks.iter().map(|((object, function), spent)| {
        json!({"object": format!("{object:#x}"), "function": function, "time": times(spent)})
    });
    let waits = counts.waits.iter().map(
        |((what, site), spent)| json!({"for": what, "site": site_name(site), "time": times(spent)}),
    );
    let damage = summary
        .damage
        .iter()
        .map(|damage| json!({"thread": damage.thread, "reason": damage.reason}));
    json!({
        "command": summary.header.command,
        "pid": summary.header.pid,
        "duration_ns": summary.duration_ns,
        "ended_in_order": counts.ended_in_order,
        "entries": counts.entries,
        "memory": summary.places.iter().map(place).collect::<Vec<_>>(),
        "pools": summary.pools.iter().map(pool).collect::<Vec<_>>(),
        "traffic": traffic.collect::<Vec<_>>(),
        "tasks": tasks.collect::<Vec<_>>(),
        "unfinished_tasks": counts.unfinished(),
        "communicators": summary.communicators.iter().map(communicator).collect::<Vec<_>>(),
        "callbacks": callbacks.collect::<Vec<_>>(),
        "waits": waits.collect::<Vec<_>>(),
        "counts": counts.happenings,
        "damage": damage.collect::<Vec<_>>(),
    })
}

fn communicator(figures: &CommunicatorFigures) -> Value {
    let Communicator { name, identity, rank, size, device, .. } = &figures.communicator;
    json!({
        "name": name,
        "identity": format!("{identity:#x}"),
        "rank": rank,
        "size": size,
        "device": device,
        "operators": figures.operators,
        "bytes": figures.bytes,
        "inside_ns": figures.inside_ns,
        "waited_ns": figures.waited_ns,
    })
}

fn times(times: &Times) -> Value {
    json!({"count": times.count, "total_ns": times.total_ns, "longest_ns": times.longest_ns})
}

fn place(place: &Place) -> Value {
    json!({
        "device": place.device,
        "capacity": place.capacity,
        "peak": {"bytes": place.peak, "at_ns": place.peak_ns, "of": breakdown(&place.at_peak)},
        "used": place.used,
        "quarantined": place.quarantined,
        "live_at_end": {"bytes": place.live_at_end, "of": breakdown(&place.at_end)},
    })
}

fn breakdown(breakdown: &Breakdown) -> Value {
    let list = |shares: &Shares| -> Value {
        let share = |(name, share): &(String, super::figures::Share)| json!({"name": name, "bytes": share.bytes, "blocks": share.blocks});
        shares.iter().map(share).collect()
    };
    json!({
        "purposes": list(&breakdown.by_purpose),
        "owners": list(&breakdown.by_owner),
        "sites": list(&breakdown.by_site),
    })
}

fn pool((pool, reserve): (&Pool, &Reserve)) -> Value {
    let (device, number, object) = match pool {
        Pool::Own(device, number) => (Some(device), Some(number), None),
        Pool::User(object) => (None, None, Some(format!("{object:#x}"))),
    };
    json!({
        "device": device,
        "pool": number,
        "object": object,
        "peak_reserved": reserve.peak_reserved,
        "live_at_peak_reserved": reserve.live_at_peak_reserved,
        "peak_live": reserve.peak_live,
        "reserved_at_end": reserve.reserved,
        "live_at_end": reserve.live,
    })
}
