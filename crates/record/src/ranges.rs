//! Ranges of addresses.

use std::ops::Range;

/// What lies of `whole` before a hole, in it and behind it; each may be empty. The segments of a pool are freed in parts, and
/// together with their neighbours: whoever follows them cuts them.
pub fn cut(whole: Range<usize>, hole: Range<usize>) -> [Range<usize>; 3] {
    let start = hole.start.clamp(whole.start, whole.end);
    let end = hole.end.clamp(start, whole.end);
    [whole.start..start, start..end, end..whole.end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole() {
        for (hole, parts) in [
            (2..4, [0..2, 2..4, 4..8]),
            (0..8, [0..0, 0..8, 8..8]),
            (6..20, [0..6, 6..8, 8..8]),
            (9..12, [0..8, 8..8, 8..8]),
        ] {
            assert_eq!(cut(0..8, hole), parts);
        }
    }
}
