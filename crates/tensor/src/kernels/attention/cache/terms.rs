//! What is added to scores, and which of them count.

use super::super::offset_of;
use super::{Inference, Sequence, TILE, Work};
use crate::View;
use crate::kernels::access::PositionAccess;
use crate::kernels::strip::load;
use std::ops::Range;

/// A query of one head.
#[derive(Clone, Copy, Default)]
pub(super) struct Row {
    pub head: usize,
    /// The position of its query.
    pub query: usize,
    /// The keys that count for it, as far as the band says.
    pub start: usize,
    pub end: usize,
}

impl Row {
    /// The row at an index among all rows of a group: head by head, and in each query by query.
    pub(super) fn new(
        sequence: &Sequence<'_>,
        work: &Work,
        group: usize,
        index: usize,
        keys: usize,
    ) -> Row {
        let queries = sequence.queries.len();
        let (head, number) = (group * work.shared() + index / queries, index % queries);
        let query = sequence.queries.start + number;
        let Some((low, high)) = sequence.band else {
            return Row { head, query, start: 0, end: keys };
        };
        let (number, keys) = (number as isize, keys as isize);
        let end = number.saturating_add(high).saturating_add(1).clamp(0, keys);
        let start = number.saturating_add(low).clamp(0, end);
        Row { head, query, start: start as usize, end: end as usize }
    }
}

impl Inference<'_> {
    /// Whether scores have terms besides the band.
    pub(super) fn has_terms(&self) -> bool {
        self.shift.is_some() || self.slopes.is_some() || self.mask.is_some()
    }

    /// What is added to the scores of a row with a tile of keys: minus infinity where the mask says that they do not count.
    pub(super) fn terms(
        &self,
        sequence: &Sequence<'_>,
        row: &Row,
        tile: &Range<usize>,
        line: &mut [f32],
    ) {
        let at = [sequence.batch, row.head, row.query];
        let column = sequence.first_column + tile.start;
        let fill = |view: &View<'_>, line: &mut [f32]| {
            let offset = offset_of(view, at) + column as isize * view.strides()[3];
            // SAFETY: the line is inside the view, which has a column for each key.
            unsafe {
                let from = view.first().offset(offset * view.item() as isize);
                load(view.dtype(), from, view.strides()[3], line);
            }
        };
        match &self.shift {
            Some(shift) => fill(shift, line),
            None => line.fill(0.0),
        }
        if let Some(slopes) = &self.slopes {
            let factor =
                PositionAccess::new(slopes.factors).get::<f32>(&[sequence.batch, row.head]);
            let number = row.query - sequence.queries.start;
            let first = tile.start as isize + slopes.lead - number as isize;
            for (key, term) in line.iter_mut().enumerate() {
                let distance = (first + key as isize).unsigned_abs() as f32;
                *term -= factor * if slopes.rooted { distance.sqrt() } else { distance };
            }
        }
        if let Some(mask) = &self.mask {
            let mut masked = [0f32; TILE];
            fill(mask, &mut masked[..line.len()]);
            for (term, masked) in line.iter_mut().zip(&masked) {
                if *masked != 0.0 {
                    *term = f32::NEG_INFINITY;
                }
            }
        }
    }
}
