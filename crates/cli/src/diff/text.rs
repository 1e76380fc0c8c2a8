//! The changes as text.

use std::fmt::Write;

use super::{
    Threshold,
    changes::{Changes, Pair, Pairs, PlaceChanges},
};
use crate::text::{format_bytes, format_table};

/// How many rows of a list are shown.
const ROWS: usize = 10;

/// The changes, a paragraph for each device, then counts; at the end what is too much.
pub fn render(changes: &Changes) -> String {
    let mut out = format!("before: {}\nafter:  {}\n", changes.before, changes.after);
    changes.places.iter().for_each(|place| put_place(&mut out, place));
    put_pairs(&mut out, "Reserved by pools at most", &changes.pools, format_bytes);
    put_pairs(&mut out, "Allocations", &changes.allocations, |count| count.to_string());
    put_pairs(&mut out, "Bytes allocated in all", &changes.allocated_bytes, format_bytes);
    put_pairs(&mut out, "Tasks, where their number changed", &changes.tasks, |count| {
        count.to_string()
    });
    put_pairs(&mut out, "Counts that changed", &changes.counts, |count| count.to_string());
    if let Some(threshold) = changes.threshold {
        out.push('\n');
        put_outcome(&mut out, changes, threshold);
    }
    out
}

fn place_name(place: &PlaceChanges) -> String {
    place.device.map_or("Host memory".into(), |device| format!("Device {device}"))
}

fn put_place(out: &mut String, place: &PlaceChanges) {
    let Pair { before, after } = place.peak;
    let _ = writeln!(
        out,
        "\n{}: peak {} -> {}{}",
        place_name(place),
        format_bytes(before),
        format_bytes(after),
        describe_growth(place.peak)
    );
    if place.live_at_end.is_changed() {
        let Pair { before, after } = place.live_at_end;
        let _ =
            writeln!(out, "  live at the end {} -> {}", format_bytes(before), format_bytes(after));
    }
    put_table(out, "at the peak, by purpose", &place.purposes, format_bytes);
    put_table(out, "changed at the peak, by graph and operator", &place.owners, format_bytes);
    put_table(out, "changed at the peak, by call", &place.sites, format_bytes);
}

/// ` (+1.00 MiB, +7.1 %)`; nothing if nothing changed.
fn describe_growth(pair: Pair) -> String {
    match (pair.growth(), pair.before) {
        (0, _) => ", as before".into(),
        (growth, 0) => format!(" ({})", signed(growth, format_bytes)),
        (growth, before) => {
            let percent = growth as f64 * 100.0 / before as f64;
            format!(" ({}, {percent:+.1} %)", signed(growth, format_bytes))
        }
    }
}

fn signed(growth: i128, format: fn(u64) -> String) -> String {
    let size = format(growth.unsigned_abs() as u64);
    match growth {
        0 => "-".into(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

fn put_pairs(out: &mut String, title: &str, pairs: &Pairs, format: fn(u64) -> String) {
    if !pairs.is_empty() {
        out.push('\n');
        put_table(out, title, pairs, format);
    }
}

fn put_table(out: &mut String, title: &str, pairs: &Pairs, format: fn(u64) -> String) {
    if pairs.is_empty() {
        return;
    }
    let mut rows = vec![[title, "before", "after", "change"].map(String::from).to_vec()];
    rows.extend(pairs.iter().take(ROWS).map(|(name, pair)| {
        vec![name.clone(), format(pair.before), format(pair.after), signed(pair.growth(), format)]
    }));
    if pairs.len() > ROWS {
        rows.push(vec![format!("{} more", pairs.len() - ROWS)]);
    }
    out.push_str(&format_table(&rows));
}

fn put_outcome(out: &mut String, changes: &Changes, threshold: Threshold) {
    let limit = match threshold {
        Threshold::Percent(percent) => format!("{percent} %"),
        Threshold::Bytes(bytes) => format_bytes(bytes),
    };
    for place in changes.exceeding() {
        let name = place_name(place);
        let _ = writeln!(
            out,
            "{name}: the peak is higher by {}, and more than {limit} is too much",
            format_bytes(place.peak.growth().unsigned_abs() as u64)
        );
    }
    if changes.exceeding().next().is_none() {
        let _ = writeln!(out, "no device's peak is higher by more than {limit}");
    }
}
