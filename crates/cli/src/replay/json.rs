//! The figures as JSON. Times are nanoseconds, sizes bytes.

use serde_json::{Value, json};

use super::{Replayed, figures::Measured, times::Times};
use crate::bench::spec::AllocatorSpec;

/// A list of files, each with its allocators.
pub fn render(all: &[Replayed]) -> String {
    let list: Vec<Value> = all.iter().map(file).collect();
    format!("{:#}\n", Value::from(list))
}

fn file(replayed: &Replayed) -> Value {
    json!({
        "file": replayed.file,
        "requests": replayed.selection.map(|selection| selection.describe()),
        "taken": replayed.takes,
        "given_back": replayed.frees,
        "streams": replayed.streams,
        "peak_live": replayed.peak_live,
        "damaged": replayed.is_damaged,
        "allocators": (replayed.allocators.iter())
            .map(|measured| {
                let mut value = allocator(measured);
                value["fault"] = replayed.fault(&measured.0, &measured.1).into();
                value
            })
            .collect::<Vec<_>>(),
    })
}

/// One allocator.
pub fn allocator((spec, measured): &(AllocatorSpec, Measured)) -> Value {
    let times = |times: Option<Times>| times.map(Times::json);
    match measured {
        Err(reason) => json!({"allocator": spec.to_string(), "error": reason}),
        Ok(figures) => json!({
            "allocator": spec.to_string(),
            "peak_reserved": figures.peak_reserved,
            "peak_live": figures.peak_live,
            "reserved_over_live": figures.ratio(),
            "alloc": times(figures.alloc),
            "free": times(figures.free),
            "failures": figures.failures,
            "first_failure": figures.first_failure,
            "overlap": figures.overlap,
            "remark": figures.remark(),
        }),
    }
}
