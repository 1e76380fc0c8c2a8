//! From plain products to scores: scale, shift, slopes, masks; and dropout.

use super::panel::{Lane, Panel, select};
use super::{Attention, KEYS, LANES, Slopes, offset_of};
use crate::View;
use crate::kernels::access::PositionAccess;
use crate::kernels::strip::load;
use crate::kernels::transpose::transpose;
use std::ops::Range;

/// `f32` of scratch that [`Attention::score`] and [`Attention::apply_dropout`] need.
pub const TILE_SCRATCH: usize = 2 * KEYS * LANES;

/// The shift, mask or dropout factors of a tile, one for each score: loaded query by query and transposed to lie key by key, as
/// the scores do.
struct ScoreOperands<'s> {
    /// Query by query, [`KEYS`] apart.
    lines: &'s mut [f32],
    lanes: &'s mut [Lane],
}

impl<'s> ScoreOperands<'s> {
    fn new(scratch: &'s mut [f32]) -> ScoreOperands<'s> {
        let (lines, lanes) = scratch.split_at_mut(KEYS * LANES);
        ScoreOperands { lines, lanes: lanes.as_chunks_mut().0 }
    }

    /// Has `line` write a line for each query, and returns them as lanes.
    #[inline(always)]
    fn filled(
        &mut self,
        panel: &Panel,
        keys: usize,
        mut line: impl FnMut(usize, &mut [f32]),
    ) -> &[Lane] {
        for (query, slots) in panel.queries.clone().zip(self.lines.chunks_exact_mut(KEYS)) {
            line(query, &mut slots[..keys]);
        }
        // SAFETY: there are as many lines as queries, at most `LANES`, and a row of lanes for each key.
        unsafe {
            let to = self.lanes.as_mut_ptr().cast::<f32>();
            transpose(to, LANES, self.lines.as_ptr(), KEYS, keys, panel.count());
        }
        &self.lanes[..keys]
    }
}

/// Loads the elements of a view at a query and some keys.
fn load_line(view: &View<'_>, at: [usize; 4], line: &mut [f32]) {
    let offset = offset_of(view, [at[0], at[1], at[2]]) + at[3] as isize * view.strides()[3];
    // SAFETY: the line is inside the view, which nobody writes.
    unsafe {
        let from = view.first().offset(offset * view.item() as isize);
        load(view.dtype(), from, view.strides()[3], line);
    }
}

impl Attention<'_> {
    /// Turns plain products of a panel with a tile of keys into scores; those that do not count become minus infinity.
    #[inline(always)]
    pub(super) fn score(
        &self,
        panel: &Panel,
        tile: &Range<usize>,
        scores: &mut [Lane],
        scratch: &mut [f32],
    ) {
        let mut operands = ScoreOperands::new(scratch);
        let Panel { batch, head, .. } = *panel;
        match &self.shift {
            None => {
                scores.as_flattened_mut().iter_mut().for_each(|score| *score *= self.scale);
            }
            Some(shift) => {
                let (before, after) =
                    if self.shift_last { (self.scale, 1.0) } else { (1.0, self.scale) };
                let shifts = operands.filled(panel, tile.len(), |query, line| {
                    let at = [batch, head, query, tile.start];
                    if !self.shift_by_distance {
                        return load_line(shift, at, line);
                    }
                    let at = same_distance(shift, at);
                    let present = line.len().min(shift.dims()[3].saturating_sub(at[3]));
                    line[present..].fill(0.0);
                    if present > 0 {
                        load_line(shift, at, &mut line[..present]);
                    }
                });
                let scores = scores.as_flattened_mut().iter_mut();
                for (score, shift) in scores.zip(shifts.as_flattened()) {
                    *score = (*score * before + shift) * after;
                }
            }
        }
        if let Some(slopes) = &self.slopes {
            slopes.add(panel, tile.start, scores);
        }
        if let Some(mask) = &self.mask {
            let masked = operands.filled(panel, tile.len(), |query, line| {
                load_line(mask, [batch, head, query, tile.start], line);
            });
            let scores = scores.as_flattened_mut().iter_mut();
            for (score, masked) in scores.zip(masked.as_flattened()) {
                *score = select(*masked != 0.0, f32::NEG_INFINITY, *score);
            }
        }
        panel.apply_band(tile, scores);
    }

    /// Dropout of numbers for each key and query: dropped ones become 0, the others are scaled.
    #[inline(always)]
    pub(super) fn apply_dropout(
        &self,
        panel: &Panel,
        tile: &Range<usize>,
        numbers: &mut [Lane],
        scratch: &mut [f32],
    ) {
        let Some(kept) = &self.kept else {
            return;
        };
        let sizes = self.sizes();
        let factor = 1.0 / self.keep;
        let mut operands = ScoreOperands::new(scratch);
        let factors = operands.filled(panel, tile.len(), |query, line| {
            let row = (panel.batch * sizes.heads + panel.head) * sizes.queries + query;
            let first = self.first_kept + row * sizes.keys + tile.start;
            for (at, slot) in line.iter_mut().enumerate() {
                let bit = first + at;
                // SAFETY: the mask has a bit for each score.
                let byte = unsafe { kept.first().add(bit / 8).read() };
                *slot = if byte >> (bit % 8) & 1 != 0 { factor } else { 0.0 };
            }
        });
        let numbers = numbers.as_flattened_mut().iter_mut();
        for (number, factor) in numbers.zip(factors.as_flattened()) {
            *number = select(*factor != 0.0, *number * factor, 0.0);
        }
    }
}

impl Slopes<'_> {
    /// Adds the biases to the scores of a panel with keys from `first` on.
    #[inline(always)]
    fn add(&self, panel: &Panel, first: usize, scores: &mut [Lane]) {
        let factors = PositionAccess::new(self.factors);
        let factor = -factors.get::<f32>(&[panel.batch, panel.head]);
        let first_distance = first as isize + self.lead - panel.queries.start as isize;
        for (key, scores) in scores.iter_mut().enumerate() {
            for (lane, score) in scores.iter_mut().enumerate() {
                let distance =
                    (first_distance + key as isize - lane as isize).unsigned_abs() as f32;
                *score += factor * if self.rooted { distance.sqrt() } else { distance };
            }
        }
    }
}

/// The position in the last rows of a square with the same distance between key and query.
fn same_distance(shift: &View<'_>, at: [usize; 4]) -> [usize; 4] {
    let missing = shift.dims()[3].saturating_sub(shift.dims()[2]);
    match at[2] < missing {
        true => [at[0], at[1], 0, at[3] + missing - at[2]],
        false => [at[0], at[1], at[2] - missing, at[3]],
    }
}
