//! Holes of several lanes that lie side by side.

use crate::lane::Lane;
use crate::tlsf::BlockId;
use std::ops::Range;

/// A hole of a lane, or of the root. Seen a moment ago: whoever wants it looks again.
#[derive(Clone)]
pub(crate) struct Piece<'a> {
    /// Where it lies.
    pub range: Range<u64>,
    /// Whose it is; the root's if nobody's.
    pub lane: Option<&'a Lane>,
    /// Its number there.
    pub id: BlockId,
}

/// The pieces for a block of `bytes` at a multiple of `align`, cut to what is needed: one after the other
/// without a gap, and as few bytes as can be. As much as `spare` more comes with them, if it is there.
pub(crate) fn side_by_side<'a>(
    mut pieces: Vec<Piece<'a>>,
    bytes: u64,
    align: u64,
    spare: u64,
) -> Option<Vec<Piece<'a>>> {
    pieces.sort_unstable_by_key(|piece| piece.range.start);
    let block = |first: usize| {
        let at = pieces[first].range.start.checked_next_multiple_of(align)?;
        Some(at..at.checked_add(bytes)?)
    };
    let mut best: Option<(u64, Range<usize>)> = None;
    let mut first = 0;
    for (last, piece) in pieces.iter().enumerate() {
        if last > 0 && pieces[last - 1].range.end != piece.range.start {
            first = last;
        }
        while first <= last && block(first)?.end <= piece.range.end {
            let span = piece.range.end - pieces[first].range.start;
            if best.as_ref().is_none_or(|(least, _)| span < *least) {
                best = Some((span, first..last + 1));
            }
            first += 1;
        }
    }
    let (_, found) = best?;
    let block = block(found.start)?;
    let end = block.end.saturating_add(spare);
    let cut = |piece: &Piece<'a>| {
        let range = piece.range.start.max(block.start)..piece.range.end.min(end);
        (!range.is_empty()).then(|| Piece { range, ..piece.clone() })
    };
    Some(pieces[found].iter().filter_map(cut).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ranges: &[Range<u64>], bytes: u64, align: u64, spare: u64) -> Option<Vec<Range<u64>>> {
        let piece = |range: &Range<u64>| Piece { range: range.clone(), lane: None, id: 0 };
        let pieces = side_by_side(ranges.iter().map(piece).collect(), bytes, align, spare)?;
        Some(pieces.into_iter().map(|piece| piece.range).collect())
    }

    #[test]
    fn the_shortest_run_of_neighbours_is_found() {
        let ranges = [40..50, 0..4, 4..8, 8..20, 50..53, 20..24, 30..39];
        assert_eq!(found(&ranges, 13, 1, 0), Some(vec![40..50, 50..53]));
        assert_eq!(found(&ranges, 14, 1, 0), Some(vec![4..8, 8..18]));
        assert_eq!(found(&ranges, 14, 1, 1), Some(vec![4..8, 8..19]));
        assert_eq!(found(&ranges, 14, 1, 9), Some(vec![4..8, 8..20]));
        assert_eq!(found(&ranges, 22, 1, 9), Some(vec![0..4, 4..8, 8..20, 20..24]));
        assert_eq!(found(&ranges, 25, 1, 9), None);
        assert_eq!(found(&[], 1, 1, 0), None);
    }

    #[test]
    fn a_block_begins_where_it_may() {
        let ranges = [3..5, 5..9, 9..12, 20..23];
        assert_eq!(found(&ranges, 4, 4, 0), Some(vec![4..5, 5..8]));
        assert_eq!(found(&ranges, 4, 8, 0), Some(vec![8..9, 9..12]));
        assert_eq!(found(&ranges, 1, 16, 0), None);
    }
}
