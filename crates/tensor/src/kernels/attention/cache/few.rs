//! Units with few rows, as when a sequence grows token by token: products row by row, straight from the cache.

use super::store::Side;
use super::terms::Row;
use super::{TILE, Unit};
use crate::kernels::math::exp_below;
use crate::kernels::small_product::Rows;

/// As many rows at most.
pub(super) const FEW: usize = 4;
/// Numbers that are added side by side. It does not depend on the processor, nor do the sums.
const SIDE: usize = 16;
/// Keys that are multiplied side by side.
const KEYS: usize = 4;

/// Attention of the rows of a unit.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
pub(super) fn attend(unit: Unit<'_, '_>) {
    let (task, sequence, group) = (unit.task, unit.sequence, unit.group);
    let (features, width, count) = (unit.work.features, unit.work.width, unit.rows.len());
    let mut rows = [Row::default(); FEW];
    let mut stats = [(0f32, 0f32); FEW];
    for index in 0..count {
        rows[index] = unit.row(index);
        stats[index] = Unit::first_stats(task, rows[index].head);
        let line = &mut unit.queries[index * features..][..features];
        Unit::load_query(task, &rows[index], sequence.batch, line);
    }
    unit.results[..count * width].fill(0.0);
    let rows = &rows[..count];
    let start = rows.iter().map(|row| row.start).min().unwrap_or(0);
    let end = rows.iter().map(|row| row.end).max().unwrap_or(0);
    let mut at = start;
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
        for (index, row) in rows.iter().enumerate() {
            let scores = &mut unit.scores[..tile.len()];
            // SAFETY: the tile has rows of so many features.
            unsafe { multiply(&unit.queries[index * features..][..features], keys, scores) };
            scores.iter_mut().for_each(|score| *score *= task.scale);
            if task.has_terms() {
                let terms = &mut unit.terms[..tile.len()];
                task.terms(sequence, row, &tile, terms);
                for (score, term) in scores.iter_mut().zip(&*terms) {
                    *score = if *term == f32::NEG_INFINITY { *term } else { *score + term };
                }
            }
            if row.start > tile.start || row.end < tile.end {
                let counts = row.start.clamp(tile.start, tile.end) - tile.start
                    ..row.end.clamp(tile.start, tile.end) - tile.start;
                scores[..counts.start].fill(f32::NEG_INFINITY);
                scores[counts.end..].fill(f32::NEG_INFINITY);
            }
            let results = &mut unit.results[index * width..][..width];
            let factor = exponentials(scores, &mut stats[index]);
            // SAFETY: the tile has rows of so many values.
            unsafe { accumulate(scores, values, factor, results) };
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let results = &mut unit.results[index * width..][..width];
        let (greatest, sum) = stats[index];
        let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        results.iter_mut().for_each(|number| *number *= factor);
        Unit::store_row(task, row, sequence.batch, results, (greatest, sum));
    }
}

/// The products of a query with some keys.
///
/// # Safety
/// There is a key for each score, with as many features as the query.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn multiply(query: &[f32], keys: Rows<*const f32>, scores: &mut [f32]) {
    let features = query.len();
    let key = |at: usize| {
        // SAFETY: as the caller guarantees.
        unsafe { std::slice::from_raw_parts(keys.first.add(at * keys.pitch), features) }
    };
    let whole = scores.len() / KEYS * KEYS;
    for at in (0..whole).step_by(KEYS) {
        let lines = [key(at), key(at + 1), key(at + 2), key(at + 3)];
        let mut sums = [[0f32; SIDE]; KEYS];
        let (numbers, rest) = query.as_chunks::<SIDE>();
        let chunks = lines.map(|line| line.as_chunks::<SIDE>());
        for (chunk, numbers) in numbers.iter().enumerate() {
            for line in 0..KEYS {
                let other = &chunks[line].0[chunk];
                for side in 0..SIDE {
                    sums[line][side] = numbers[side].mul_add(other[side], sums[line][side]);
                }
            }
        }
        for line in 0..KEYS {
            let tail: f32 = rest.iter().zip(chunks[line].1).map(|(a, b)| a * b).sum();
            scores[at + line] = sum_of(&sums[line]) + tail;
        }
    }
    for (at, score) in scores.iter_mut().enumerate().skip(whole) {
        let mut sums = [0f32; SIDE];
        let ((numbers, rest), (others, other_rest)) =
            (query.as_chunks::<SIDE>(), key(at).as_chunks::<SIDE>());
        for (numbers, others) in numbers.iter().zip(others) {
            for side in 0..SIDE {
                sums[side] = numbers[side].mul_add(others[side], sums[side]);
            }
        }
        let tail: f32 = rest.iter().zip(other_rest).map(|(a, b)| a * b).sum();
        *score = sum_of(&sums) + tail;
    }
}

/// The sum of numbers, in pairs.
#[inline(always)]
fn sum_of(numbers: &[f32; SIDE]) -> f32 {
    let mut numbers = *numbers;
    let mut half = SIDE / 2;
    while half > 0 {
        for at in 0..half {
            numbers[at] += numbers[at + half];
        }
        half /= 2;
    }
    numbers[0]
}

/// Turns scores into exponentials over the greatest so far and adds them to the sum; returns what earlier exponentials are
/// multiplied by.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn exponentials(scores: &mut [f32], (greatest, sum): &mut (f32, f32)) -> f32 {
    let mut most = [*greatest; SIDE];
    let (whole, rest) = scores.as_chunks::<SIDE>();
    for scores in whole {
        for side in 0..SIDE {
            most[side] = most[side].max(scores[side]);
        }
    }
    let now = most.iter().chain(rest).fold(*greatest, |most, score| most.max(*score));
    let base = if now == f32::NEG_INFINITY { 0.0 } else { now };
    let factor = exp_below(*greatest - base);
    let mut sums = [0f32; SIDE];
    let (whole, rest) = scores.as_chunks_mut::<SIDE>();
    for scores in whole {
        for side in 0..SIDE {
            scores[side] = exp_below(scores[side] - base);
            sums[side] += scores[side];
        }
    }
    let mut tail = 0.0;
    for score in rest {
        *score = exp_below(*score - base);
        tail += *score;
    }
    *greatest = now;
    *sum = *sum * factor + (sum_of(&sums) + tail);
    factor
}

/// Multiplies results by a factor and adds values, each times its weight.
///
/// # Safety
/// There is a row of values for each weight, as long as the results.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn accumulate(weights: &[f32], values: Rows<*const f32>, factor: f32, results: &mut [f32]) {
    const WIDE: usize = 4 * SIDE;
    debug_assert!(weights.len() <= TILE);
    let mut first = 0;
    while first < results.len() {
        let width = (results.len() - first).min(WIDE);
        let results = &mut results[first..first + width];
        let value = |at: usize| {
            // SAFETY: as the caller guarantees.
            unsafe {
                std::slice::from_raw_parts(values.first.add(at * values.pitch + first), width)
            }
        };
        if let Ok(results) = <&mut [f32; WIDE]>::try_from(&mut *results) {
            let mut sums = *results;
            sums.iter_mut().for_each(|sum| *sum *= factor);
            for (at, weight) in weights.iter().enumerate() {
                let value = <&[f32; WIDE]>::try_from(value(at)).expect("as wide");
                for side in 0..WIDE {
                    sums[side] = value[side].mul_add(*weight, sums[side]);
                }
            }
            *results = sums;
        } else {
            results.iter_mut().for_each(|sum| *sum *= factor);
            for (at, weight) in weights.iter().enumerate() {
                for (sum, value) in results.iter_mut().zip(value(at)) {
                    *sum = value.mul_add(*weight, *sum);
                }
            }
        }
        first += width;
    }
}
