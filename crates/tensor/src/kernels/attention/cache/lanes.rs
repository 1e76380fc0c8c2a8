//! Units of many rows: panels with a lane for each row, multiplied with whole tiles of keys.

use super::super::panel::{Lane, Softmax, lanes, rescale, select};
use super::super::{LANES, PANELS};
use super::store::Side;
use super::terms::Row;
use super::{TILE, Unit};
use crate::kernels::small_product::{GRAIN, Left, Rows, Shape, product};
use crate::kernels::transpose::transpose;
use std::ops::Range;

/// Some rows, their softmax so far, and the keys that count for each.
#[derive(Clone, Copy)]
struct Panel {
    rows: [Row; LANES],
    count: usize,
    softmax: Softmax,
}

impl Panel {
    /// Every key that counts for a row is in here.
    fn keys(&self) -> Range<usize> {
        let rows = || self.rows[..self.count].iter().filter(|row| row.start < row.end);
        let start = rows().map(|row| row.start).min().unwrap_or(0);
        start..rows().map(|row| row.end).max().unwrap_or(start)
    }

    /// Scores of a tile outside the bands of their rows become minus infinity.
    #[inline(always)]
    fn apply_bands(&self, tile: &Range<usize>, scores: &mut [Lane]) {
        let rows = &self.rows[..self.count];
        if rows.iter().all(|row| row.start <= tile.start && tile.end <= row.end) {
            return;
        }
        let (mut starts, mut ends) = ([0i32; LANES], [0i32; LANES]);
        for (lane, row) in rows.iter().enumerate() {
            starts[lane] = (row.start.clamp(tile.start, tile.end) - tile.start) as i32;
            ends[lane] = (row.end.clamp(tile.start, tile.end) - tile.start) as i32;
        }
        let lanes = lanes();
        for (key, scores) in scores.iter_mut().enumerate() {
            let key = key as i32;
            let bounds = starts[..lanes].iter().zip(&ends[..lanes]);
            for (score, (start, end)) in scores[..lanes].iter_mut().zip(bounds) {
                *score = select((key >= *start) & (key < *end), *score, f32::NEG_INFINITY);
            }
        }
    }
}

/// Attention of the rows of a unit.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
pub(super) fn attend(unit: Unit<'_, '_>) {
    let (task, sequence, group) = (unit.task, unit.sequence, unit.group);
    let (features, width, count) = (unit.work.features, unit.work.width, unit.rows.len());
    let empty = Softmax { greatest: [f32::NEG_INFINITY; LANES], sum: [0.0; LANES] };
    let mut panels = [Panel { rows: [Row::default(); LANES], count: 0, softmax: empty }; PANELS];
    let panels = &mut panels[..count.div_ceil(LANES)];
    for (number, panel) in panels.iter_mut().enumerate() {
        panel.count = (count - number * LANES).min(LANES);
        for lane in 0..panel.count {
            let row = unit.row(number * LANES + lane);
            panel.rows[lane] = row;
            (panel.softmax.greatest[lane], panel.softmax.sum[lane]) =
                Unit::first_stats(task, row.head);
            let line = &mut unit.lines[lane * features..][..features];
            Unit::load_query(task, &row, sequence.batch, line);
        }
        // SAFETY: lines and transposed queries hold those of a panel.
        unsafe {
            let to = unit.queries[number * LANES * features..].as_mut_ptr();
            transpose(to, LANES, unit.lines.as_ptr(), features, features, panel.count);
        }
    }
    unit.results[..panels.len() * LANES * width].fill(0.0);
    let ranges = || panels.iter().map(Panel::keys).filter(|keys| !keys.is_empty());
    let mut at = ranges().map(|keys| keys.start).min().unwrap_or(0);
    let end = ranges().map(|keys| keys.end).max().unwrap_or(0);
    while at < end {
        let tile = sequence.tile(task.stores, at, end);
        at = tile.end;
        // SAFETY: the keys are in blocks of the stores, and the scratch holds a tile.
        let (keys, values) = unsafe {
            (
                sequence.rows(task.stores, (Side::Key, group), &tile, (unit.key_lines, features)),
                sequence.rows(task.stores, (Side::Value, group), &tile, (unit.value_lines, width)),
            )
        };
        for (number, panel) in panels.iter_mut().enumerate() {
            let counting = panel.keys();
            let part = tile.start.max(counting.start)..tile.end.min(counting.end);
            if part.is_empty() {
                continue;
            }
            let skipped = (part.start - tile.start) as isize;
            let from =
                |rows: Left| Left { first: rows.first.wrapping_offset(skipped * rows.row), ..rows };
            let (keys, values, tile) = (from(keys.left()), from(values.left()), part);
            let scores = &mut unit.scores.as_chunks_mut::<LANES>().0[..tile.len()];
            let columns = panel.count.next_multiple_of(GRAIN);
            // SAFETY: the tile of keys, the transposed queries and the scores have these sizes.
            unsafe {
                let shape = Shape { rows: tile.len(), columns, depth: features, add: false };
                let queries = unit.queries[number * LANES * features..].as_ptr();
                let queries = Rows { first: queries, pitch: LANES };
                let out = Rows { first: scores.as_mut_ptr().cast(), pitch: LANES };
                product(shape, keys, queries, out);
            }
            scores.as_flattened_mut().iter_mut().for_each(|score| *score *= task.scale);
            if task.has_terms() {
                for (row, line) in panel.rows[..panel.count].iter().zip(unit.lines.chunks_mut(TILE))
                {
                    task.terms(sequence, row, &tile, &mut line[..tile.len()]);
                }
                // SAFETY: the lines hold the terms of a panel, and there is a lane for each row and key.
                unsafe {
                    let to = unit.terms.as_mut_ptr();
                    transpose(to, LANES, unit.lines.as_ptr(), TILE, tile.len(), panel.count);
                }
                let scores = scores.as_flattened_mut().iter_mut();
                for (score, term) in scores.zip(&*unit.terms) {
                    *score = select(*term == f32::NEG_INFINITY, *term, *score + term);
                }
            }
            panel.apply_bands(&tile, scores);
            let factors = panel.softmax.add_tile(scores);
            let results = &mut unit.results[number * LANES * width..][..LANES * width];
            rescale(results, &factors);
            // SAFETY: as above.
            unsafe {
                let shape = Shape { rows: width, columns, depth: tile.len(), add: true };
                let scores = Rows { first: scores.as_ptr().cast(), pitch: LANES };
                let out = Rows { first: results.as_mut_ptr(), pitch: LANES };
                product(shape, values.transposed(), scores, out);
            }
        }
    }
    for (number, panel) in panels.iter().enumerate() {
        let results = &mut unit.results[number * LANES * width..][..LANES * width];
        rescale(results, &panel.softmax.factors());
        // SAFETY: the lines hold the results of a panel.
        unsafe {
            transpose(unit.lines.as_mut_ptr(), width, results.as_ptr(), LANES, panel.count, width);
        }
        for (lane, row) in panel.rows[..panel.count].iter().enumerate() {
            let line = &unit.lines[lane * width..][..width];
            let stats = (panel.softmax.greatest[lane], panel.softmax.sum[lane]);
            Unit::store_row(task, row, sequence.batch, line, stats);
        }
    }
}
