//! The summary as text.

use std::fmt::Write;

use super::{
    counts::{Tasks, Times},
    figures::{Breakdown, Place, Pool, Shares, Summary, site_name},
};
use crate::{
    gaps,
    text::{format_bytes, format_ns, format_table, visible},
};
use cairn_record::entry::Communicator;

/// How many rows of a list are shown.
const ROWS: usize = 10;

/// The summary, a paragraph for each question.
pub fn render(summary: &Summary) -> String {
    let mut out = String::new();
    let counts = &summary.counts;
    let end = match counts.ended_in_order {
        true => "ended in order",
        false => "did not end in order: it was killed, or is still running",
    };
    let _ = writeln!(
        out,
        "{} (process {}): {} entries in {}; it {end}",
        summary.header.command,
        summary.header.pid,
        counts.entries,
        format_ns(summary.duration_ns)
    );
    for gap in gaps::describe(counts.entries, &summary.damage, summary.is_cut_short) {
        let _ = writeln!(out, "{gap}");
    }
    let touched = summary.places.iter().filter(|place| place.peak > 0);
    touched.for_each(|place| put_place(&mut out, place));
    put_pools(&mut out, summary);
    put_traffic(&mut out, summary);
    put_tasks(&mut out, summary);
    put_communicators(&mut out, summary);
    put_waits(&mut out, summary);
    put_callbacks(&mut out, summary);
    let rows =
        counts.happenings.iter().map(|(what, count)| vec![what.to_string(), count.to_string()]);
    put_table(&mut out, "Counts", &["", ""], rows.collect());
    out
}

fn put_table(out: &mut String, title: &str, heading: &[&str], rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    let heading: Vec<String> = heading.iter().map(|cell| cell.to_string()).collect();
    let has_heading = heading.iter().any(|cell| !cell.is_empty());
    let all: Vec<_> = has_heading.then_some(heading).into_iter().chain(rows).collect();
    out.push_str(&format_table(&all));
}

fn put_place(out: &mut String, place: &Place) {
    let name = place.device.map_or("Host memory".into(), |device| format!("Device {device}"));
    let of = match place.capacity {
        0 => String::new(),
        capacity => format!(" of {}", format_bytes(capacity)),
    };
    let _ = writeln!(
        out,
        "\n{name}: peak {}{of}, {} after the start; {} live at the end",
        format_bytes(place.peak),
        format_ns(place.peak_ns),
        format_bytes(place.live_at_end)
    );
    if place.used > 0 {
        let _ = writeln!(
            out,
            "  with padding {} in use at most, and up to {} freed and kept for tasks",
            format_bytes(place.used),
            format_bytes(place.quarantined)
        );
    }
    put_breakdown(out, "at the peak", &place.at_peak);
    if place.live_at_end > 0 {
        put_breakdown(out, "live at the end", &place.at_end);
    }
}

fn put_breakdown(out: &mut String, when: &str, breakdown: &Breakdown) {
    put_shares(out, &format!("{when}, by purpose"), &breakdown.by_purpose);
    put_shares(out, &format!("{when}, by graph and operator"), &breakdown.by_owner);
    put_shares(out, &format!("{when}, by call"), &breakdown.by_site);
}

fn put_shares(out: &mut String, title: &str, shares: &Shares) {
    if shares.is_empty() {
        return;
    }
    let mut rows = vec![vec![title.to_owned(), "bytes".into(), "blocks".into()]];
    rows.extend(shares.iter().take(ROWS).map(|(name, share)| {
        vec![name.clone(), format_bytes(share.bytes), share.blocks.to_string()]
    }));
    if shares.len() > ROWS {
        let rest = &shares[ROWS..];
        let bytes = rest.iter().map(|(_, share)| share.bytes).sum();
        let blocks: u64 = rest.iter().map(|(_, share)| share.blocks).sum();
        rows.push(vec![format!("{} more", rest.len()), format_bytes(bytes), blocks.to_string()]);
    }
    out.push_str(&format_table(&rows));
}

fn put_pools(out: &mut String, summary: &Summary) {
    let rows = summary.pools.iter().map(|(pool, reserve)| {
        let name = match pool {
            Pool::Own(device, pool) => format!("pool {pool} of device {device}"),
            Pool::User(object) => format!("user allocator {object:#x}"),
        };
        let ratio = match reserve.peak_live {
            0 => "-".into(),
            live => format!("{:.2}", reserve.peak_reserved as f64 / live as f64),
        };
        vec![name, format_bytes(reserve.peak_reserved), format_bytes(reserve.peak_live), ratio]
    });
    let heading = ["pool", "reserved at most", "in blocks at most", "ratio"];
    put_table(out, "Reserved over live", &heading, rows.collect());
}

fn put_traffic(out: &mut String, summary: &Summary) {
    let rows = summary.counts.traffic.iter().map(|(memory, traffic)| {
        let (allocations, frees) = (traffic.allocations.to_string(), traffic.frees.to_string());
        vec![memory.to_string(), allocations, frees, format_bytes(traffic.bytes)]
    });
    put_table(out, "Allocations", &["memory", "allocations", "frees", "bytes"], rows.collect());
}

fn put_tasks(out: &mut String, summary: &Summary) {
    let mut tasks: Vec<(&str, &Tasks)> =
        summary.counts.tasks.iter().map(|(name, tasks)| (&**name, tasks)).collect();
    tasks.sort_by_key(|(name, tasks)| (std::cmp::Reverse(tasks.run.total_ns), *name));
    let row = |name: String, submitted: u64, bad: u64, run: &Times| {
        let times = [format_ns(run.total_ns), format_ns(run.longest_ns)];
        let mut row = vec![name, submitted.to_string(), bad.to_string()];
        row.extend(times);
        row
    };
    let bad = |tasks: &Tasks| tasks.failed + tasks.dropped;
    let mut rows: Vec<_> = (tasks.iter().take(ROWS))
        .map(|(name, tasks)| row(name.to_string(), tasks.submitted, bad(tasks), &tasks.run))
        .collect();
    if tasks.len() > ROWS {
        let rest = &tasks[ROWS..];
        let run = Times {
            count: 0,
            total_ns: rest.iter().map(|(_, tasks)| tasks.run.total_ns).sum(),
            longest_ns: rest.iter().map(|(_, tasks)| tasks.run.longest_ns).max().unwrap_or(0),
        };
        let submitted = rest.iter().map(|(_, tasks)| tasks.submitted).sum();
        let failed = rest.iter().map(|(_, tasks)| bad(tasks)).sum();
        rows.push(row(format!("{} more names", rest.len()), submitted, failed, &run));
    }
    put_table(out, "Tasks", &["name", "submitted", "failed", "ran for", "longest"], rows);
    match summary.counts.unfinished() {
        0 => {}
        count => _ = writeln!(out, "  {count} of them have no end in the record"),
    }
}

fn put_communicators(out: &mut String, summary: &Summary) {
    let rows = summary.communicators.iter().map(|figures| {
        let Communicator { name, rank, size, .. } = &figures.communicator;
        let waited = figures.waited_ns.filter(|_| figures.inside_ns > 0);
        let share = |ns: u64| format!("{:.1} %", ns as f64 * 100.0 / figures.inside_ns as f64);
        vec![
            visible(name),
            format!("{rank} of {size}"),
            figures.operators.to_string(),
            format_bytes(figures.bytes),
            format_ns(figures.inside_ns),
            waited.map_or("-".into(), share),
        ]
    });
    let heading = ["name", "rank", "operators", "bytes", "time inside", "waiting for ranks"];
    put_table(out, "Communicators", &heading, rows.collect());
}

fn put_waits(out: &mut String, summary: &Summary) {
    let rows = summary
        .counts
        .waits
        .iter()
        .map(|((what, site), times)| timed(format!("{} for a {what}", site_name(site)), times));
    put_table(out, "Waiting", &["call", "times", "total", "longest"], rows.collect());
}

fn put_callbacks(out: &mut String, summary: &Summary) {
    let rows = summary
        .counts
        .callbacks
        .iter()
        .map(|((object, function), times)| timed(format!("{function} of {object:#x}"), times));
    let heading = ["function", "times", "total", "longest"];
    put_table(out, "Callbacks of user allocators", &heading, rows.collect());
}

fn timed(name: String, times: &Times) -> Vec<String> {
    vec![name, times.count.to_string(), format_ns(times.total_ns), format_ns(times.longest_ns)]
}
