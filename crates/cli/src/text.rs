//! Numbers, tables and foreign text as people read them.

use std::fmt::Write;

/// Bytes in the largest unit that has a whole part.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match UNITS.iter().find(|(shift, _)| bytes >> shift != 0) {
        Some((shift, unit)) => format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Nanoseconds in the largest unit that has a whole part.
pub fn format_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// A text of somebody else's with its control characters written out, so that a terminal shows them and does not obey.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => _ = write!(out, "\\x{:02x}", u32::from(character)),
            _ => out.push(character),
        }
    }
    out
}

/// Rows with aligned columns: the first to the left, the others to the right. The first row is the heading.
pub fn format_table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        out.push_str("  ");
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(3 << 40), "3.00 TiB");
        assert_eq!(format_ns(999), "999 ns");
        assert_eq!(format_ns(1_500_000_000), "1.500 s");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            visible("\x1b[31mä\x01\x7f\u{9b}2J\r\n\t."),
            "\\x1b[31mä\\x01\\x7f\\x9b2J\\x0d\n\t."
        );
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let text = format_table(&[row(["name", "count"]), row(["ä", "7"])]);
        assert_eq!(text, "  name  count\n  ä         7\n");
    }
}
