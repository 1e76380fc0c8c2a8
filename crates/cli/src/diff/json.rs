//! The changes as JSON. Sizes are bytes.

use serde_json::{Value, json};

use super::{
    Threshold,
    changes::{Changes, Pair, Pairs, PlaceChanges},
};

/// One object.
pub fn render(changes: &Changes) -> String {
    let value = json!({
        "before": changes.before,
        "after": changes.after,
        "memory": changes.places.iter().map(place).collect::<Vec<_>>(),
        "pools": list(&changes.pools),
        "allocations": list(&changes.allocations),
        "allocated_bytes": list(&changes.allocated_bytes),
        "tasks": list(&changes.tasks),
        "counts": list(&changes.counts),
        "fail_above": changes.threshold.map(|threshold| match threshold {
            Threshold::Percent(percent) => json!({"percent": percent}),
            Threshold::Bytes(bytes) => json!({"bytes": bytes}),
        }),
        "exceeding": changes.exceeding().map(|place| place.device).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn place(place: &PlaceChanges) -> Value {
    json!({
        "device": place.device,
        "peak": pair(&place.peak),
        "live_at_end": pair(&place.live_at_end),
        "purposes": list(&place.purposes),
        "owners": list(&place.owners),
        "sites": list(&place.sites),
    })
}

fn pair(pair: &Pair) -> Value {
    json!({"before": pair.before, "after": pair.after})
}

fn list(pairs: &Pairs) -> Value {
    let one = |(name, pair): &(String, Pair)| json!({"name": name, "before": pair.before, "after": pair.after});
    pairs.iter().map(one).collect()
}
