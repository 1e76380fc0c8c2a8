//! The figures side by side, as text.

use std::fmt::Write;

use super::{
    Replayed,
    figures::{Figures, Measured},
    times::Times,
};
use crate::{
    bench::spec::AllocatorSpec,
    text::{format_bytes, format_ns, format_table},
};

/// A table for each file.
pub fn render(all: &[Replayed]) -> String {
    let mut out = String::new();
    for (index, replayed) in all.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        put_file(&mut out, replayed);
    }
    out
}

fn put_file(out: &mut String, replayed: &Replayed) {
    let Replayed { file, takes, frees, streams, peak_live, .. } = replayed;
    let plural = if *streams == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "{file}: {takes} blocks taken and {frees} given back on {streams} stream{plural}, {} live at most",
        format_bytes(*peak_live)
    );
    if let Some(selection) = replayed.selection {
        let _ = writeln!(out, "  replayed: {}", selection.describe());
    }
    if replayed.is_damaged {
        let _ = writeln!(out, "  the record is damaged: requests are missing");
    }
    out.push_str(&table(&replayed.allocators));
    for (spec, measured) in &replayed.allocators {
        let mut put = |text: &str| _ = writeln!(out, "  {}: {text}", spec.label());
        if let Ok(Figures { first_failure: Some(text), .. }) = measured {
            put(&format!("first failure: {text}"));
        }
        let remark = measured.as_ref().ok().and_then(Figures::remark);
        let fault = replayed.fault(spec, measured).filter(|fault| remark.as_ref() != Some(fault));
        remark.iter().chain(&fault).for_each(|text| put(text));
    }
}

/// A row for each allocator.
pub fn table(allocators: &[(AllocatorSpec, Measured)]) -> String {
    let heading = [
        "allocator",
        "reserved",
        "live",
        "reserved/live",
        "alloc",
        "p99",
        "free",
        "p99",
        "failures",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for (spec, measured) in allocators {
        let cells = match measured {
            Ok(figures) => cells(figures),
            Err(_) => vec!["-".to_owned(); heading.len() - 1],
        };
        rows.push([spec.label()].into_iter().chain(cells).collect());
    }
    format_table(&rows)
}

fn cells(figures: &Figures) -> Vec<String> {
    let ratio = figures.ratio().map_or("-".into(), |ratio| format!("{ratio:.3}"));
    let times = |times: Option<Times>| match times {
        Some(times) => [format_ns(times.median_ns), format_ns(times.p99_ns)],
        None => ["-".into(), "-".into()],
    };
    let mut cells =
        vec![format_bytes(figures.peak_reserved), format_bytes(figures.peak_live), ratio];
    cells.extend(times(figures.alloc));
    cells.extend(times(figures.free));
    cells.push(figures.failures.to_string());
    cells
}
