//! Holes of several lanes that lie side by side.

use crate::lane::Lane;
use crate::tlsf::BlockId;
use std::ops::Range;

/// A hole of a lane, or of the root. No lock is held: it may have changed, so whoever takes it checks it again.
#[derive(Clone)]
pub(crate) struct Piece<'a> {
    /// Where it lies.
    pub range: Range<u64>,
    /// The lane that it belongs to; `None` for the root.
    pub lane: Option<&'a Lane>,
    /// Its id in the [`Tlsf`](crate::tlsf::Tlsf) of that lane or of the root.
    pub id: BlockId,
}

/// Adjacent pieces that together hold a block of `bytes` at a multiple of `align`, from the shortest run of pieces
/// that does. They are cut to the block, and to at most `extra` bytes after it.
pub(crate) fn find_adjacent<'a>(
    mut pieces: Vec<Piece<'a>>,
    bytes: u64,
    align: u64,
    extra: u64,
) -> Option<Vec<Piece<'a>>> {
    pieces.sort_unstable_by_key(|piece| piece.range.start);
    let block_from = |first: usize| {
        let start = pieces[first].range.start.checked_next_multiple_of(align)?;
        Some(start..start.checked_add(bytes)?)
    };
    let mut best: Option<(u64, Range<usize>)> = None;
    let mut first = 0;
    for (last, piece) in pieces.iter().enumerate() {
        if last > 0 && pieces[last - 1].range.end != piece.range.start {
            first = last;
        }
        while first <= last && block_from(first)?.end <= piece.range.end {
            let span = piece.range.end - pieces[first].range.start;
            if best.as_ref().is_none_or(|(shortest, _)| span < *shortest) {
                best = Some((span, first..last + 1));
            }
            first += 1;
        }
    }
    let (_, found) = best?;
    let block = block_from(found.start)?;
    let end = block.end.saturating_add(extra);
    let clip = |piece: &Piece<'a>| {
        let range = piece.range.start.max(block.start)..piece.range.end.min(end);
        (!range.is_empty()).then(|| Piece { range, ..piece.clone() })
    };
    Some(pieces[found].iter().filter_map(clip).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(ranges: &[Range<u64>], bytes: u64, align: u64, extra: u64) -> Option<Vec<Range<u64>>> {
        let piece = |range: &Range<u64>| Piece { range: range.clone(), lane: None, id: 0 };
        let pieces = find_adjacent(ranges.iter().map(piece).collect(), bytes, align, extra)?;
        Some(pieces.into_iter().map(|piece| piece.range).collect())
    }

    #[test]
    fn the_shortest_run_of_neighbours_is_found() {
        let ranges = [40..50, 0..4, 4..8, 8..20, 50..53, 20..24, 30..39];
        assert_eq!(find(&ranges, 13, 1, 0), Some(vec![40..50, 50..53]));
        assert_eq!(find(&ranges, 14, 1, 0), Some(vec![4..8, 8..18]));
        assert_eq!(find(&ranges, 14, 1, 1), Some(vec![4..8, 8..19]));
        assert_eq!(find(&ranges, 14, 1, 9), Some(vec![4..8, 8..20]));
        assert_eq!(find(&ranges, 22, 1, 9), Some(vec![0..4, 4..8, 8..20, 20..24]));
        assert_eq!(find(&ranges, 25, 1, 9), None);
        assert_eq!(find(&[], 1, 1, 0), None);
    }

    #[test]
    fn a_block_begins_at_its_alignment() {
        let ranges = [3..5, 5..9, 9..12, 20..23];
        assert_eq!(find(&ranges, 4, 4, 0), Some(vec![4..5, 5..8]));
        assert_eq!(find(&ranges, 4, 8, 0), Some(vec![8..9, 9..12]));
        assert_eq!(find(&ranges, 1, 16, 0), None);
    }
}
