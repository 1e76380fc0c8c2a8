//! What a record lacks, in words.

use cairn_record::reader::Damage;

/// A line for each gap; none if the record is whole.
pub fn describe(entries: u64, damage: &[Damage], is_cut_short: bool) -> Vec<String> {
    let mut lines: Vec<String> = (damage.iter())
        .map(|one| format!("thread {} cannot be read to its end: {}", one.thread, one.reason))
        .collect();
    if is_cut_short {
        lines.push(
            "the record could not grow, the log of the process says why: the rest is missing"
                .into(),
        );
    }
    if entries == 0 {
        lines.push("the record has no entries".into());
    }
    lines
}
