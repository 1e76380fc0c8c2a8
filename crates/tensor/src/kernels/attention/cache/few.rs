//! Units with few rows, as when a sequence grows token by token: products row by row, straight from the cache.
//!
//! Keys and values are read once for all rows, in their own type; while keys of a tile are multiplied its values are on
//! their way, and after that the keys of the next one.

#![allow(
    clippy::needless_range_loop,
    reason = "indices of registers are constants, and iterators of arrays are closures"
)]

use super::store::{Lines, Side};
use super::terms::Row;
use super::{TILE, Unit};
use crate::DType;
use crate::kernels::math::exp_below;
use crate::kernels::prefetch::prefetch_line;
use crate::kernels::sixteen::{Narrow, Sixteen, with_sixteen};

/// As many rows at most.
pub(super) const FEW: usize = 8;
/// Numbers that are added side by side. It does not depend on the processor, nor do the sums.
const SIDE: usize = 16;
/// Rows that are multiplied side by side.
const ROWS: usize = 4;
/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// Attention of the rows of a unit.
pub(super) fn attend(unit: Unit<'_, '_>) {
    let unit = &mut { unit };
    // SAFETY: keys and values are in blocks of the stores, and the scratch holds a tile.
    unsafe { with_sixteen!(attend_with(unit: &mut Unit<'_, '_>)) }
}

/// Calls `$function::<S, T, ..>` with the type of the lines' elements as `T`.
macro_rules! with_elements {
    ($lines:expr, $function:ident::<$S:ident $(, $constant:literal)*>($($argument:expr),* $(,)?)) => {
        match $lines.dtype {
            DType::Float => $function::<$S, f32 $(, $constant)*>($($argument),*),
            DType::Float16 => $function::<$S, half::f16 $(, $constant)*>($($argument),*),
            _ => $function::<$S, half::bf16 $(, $constant)*>($($argument),*),
        }
    };
}

/// See [`attend`].
#[inline(always)]
unsafe fn attend_with<S: Sixteen>(unit: &mut Unit<'_, '_>) {
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
    let end = rows.iter().map(|row| row.end).max().unwrap_or(0);
    let start = rows.iter().map(|row| row.start).min().unwrap_or(0).min(end);
    if start == end {
        return finish(unit, rows, &stats);
    }
    let mut tile = sequence.tile(task.stores, start, end);
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut keys =
            sequence.lines(task.stores, (Side::Key, group), &tile, (unit.key_lines, features));
        loop {
            let values =
                sequence.lines(task.stores, (Side::Value, group), &tile, (unit.value_lines, width));
            for first in (0..count).step_by(ROWS) {
                let ahead = (first == 0).then_some(values);
                let queries = &unit.queries[first * features..count * features];
                let scores = &mut unit.scores[first * TILE..];
                let shape = [features, tile.len()];
                match count - first {
                    1 => with_elements!(
                        keys,
                        scores_of::<S, 1, 16>(queries, keys, shape, scores, ahead)
                    ),
                    2 => with_elements!(
                        keys,
                        scores_of::<S, 2, 8>(queries, keys, shape, scores, ahead)
                    ),
                    3 => with_elements!(
                        keys,
                        scores_of::<S, 3, 4>(queries, keys, shape, scores, ahead)
                    ),
                    _ => with_elements!(
                        keys,
                        scores_of::<S, 4, 4>(queries, keys, shape, scores, ahead)
                    ),
                }
            }
            let mut factors = [0f32; FEW];
            for (index, row) in rows.iter().enumerate() {
                let scores = &mut unit.scores[index * TILE..][..tile.len()];
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
                factors[index] = exponentials(scores, &mut stats[index]);
            }
            let following = (tile.end < end).then(|| {
                let next = sequence.tile(task.stores, tile.end, end);
                let side = (Side::Key, group);
                (sequence.lines(task.stores, side, &next, (unit.key_lines, features)), next)
            });
            for first in (0..count).step_by(ROWS) {
                let ahead = following.as_ref().filter(|_| first == 0).map(|(keys, _)| *keys);
                let weights = &unit.scores[first * TILE..];
                let shape = [width, tile.len()];
                let results = &mut unit.results[first * width..count * width];
                let factors = &factors[first..];
                match count - first {
                    1 => with_elements!(
                        values,
                        accumulate::<S, 1>(weights, values, shape, factors, results, ahead)
                    ),
                    2 => with_elements!(
                        values,
                        accumulate::<S, 2>(weights, values, shape, factors, results, ahead)
                    ),
                    3 => with_elements!(
                        values,
                        accumulate::<S, 3>(weights, values, shape, factors, results, ahead)
                    ),
                    _ => with_elements!(
                        values,
                        accumulate::<S, 4>(weights, values, shape, factors, results, ahead)
                    ),
                }
            }
            match following {
                Some(next) => (keys, tile) = next,
                None => break,
            }
        }
    }
    finish(unit, rows, &stats);
}

/// Divides results by their sums and stores them.
fn finish(unit: &mut Unit<'_, '_>, rows: &[Row], stats: &[(f32, f32); FEW]) {
    let width = unit.work.width;
    for (index, row) in rows.iter().enumerate() {
        let results = &mut unit.results[index * width..][..width];
        let (greatest, sum) = stats[index];
        let factor = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        results.iter_mut().for_each(|number| *number *= factor);
        Unit::store_row(unit.task, row, unit.sequence.batch, results, (greatest, sum));
    }
}

/// Begins to load a line of a tile; what is behind its end is not there for long.
#[inline(always)]
fn prefetch(lines: Lines, line: usize) {
    let first = lines.first.wrapping_add(line * lines.pitch);
    for at in (0..lines.length).step_by(CACHE_LINE) {
        prefetch_line(first.wrapping_add(at));
    }
}

/// The products of `R` queries with the keys of a tile, `K` keys at a time: `TILE` apart for each query. Lines of `ahead` are asked for
/// meanwhile.
///
/// # Safety
/// There are so many features and keys, and as many lines are ahead.
#[inline(always)]
unsafe fn scores_of<S: Sixteen, T: Narrow, const R: usize, const K: usize>(
    queries: &[f32],
    keys: Lines,
    [features, count]: [usize; 2],
    scores: &mut [f32],
    ahead: Option<Lines>,
) {
    let mut at = 0;
    // SAFETY: as the caller guarantees.
    unsafe {
        while at < count {
            let together = if S::IS_ONE_REGISTER && count - at >= K { K } else { 1 };
            if let Some(ahead) = ahead {
                for line in at..at + together {
                    prefetch(ahead, line);
                }
            }
            if together == K {
                let sums = products::<S, T, R, K>(queries, keys, features, at);
                for (row, sums) in sums.iter().enumerate() {
                    scores[row * TILE + at..][..K].copy_from_slice(sums);
                }
            } else {
                let sums = products::<S, T, R, 1>(queries, keys, features, at);
                for (row, [sum]) in sums.iter().enumerate() {
                    scores[row * TILE + at] = *sum;
                }
            }
            at += together;
        }
    }
}

/// The products of `R` queries with `K` keys from `first` on.
#[inline(always)]
unsafe fn products<S: Sixteen, T: Narrow, const R: usize, const K: usize>(
    queries: &[f32],
    keys: Lines,
    features: usize,
    first: usize,
) -> [[f32; K]; R] {
    // SAFETY: as the caller guarantees.
    unsafe {
        let queries = queries.as_ptr();
        let keys_from = keys.first.add(first * keys.pitch);
        let mut sums = [[S::repeated(0.0); K]; R];
        let whole = features / SIDE * SIDE;
        for at in (0..whole).step_by(SIDE) {
            let mut numbers = [S::repeated(0.0); R];
            for row in 0..R {
                numbers[row] = S::load(queries.add(row * features + at));
            }
            for column in 0..K {
                let from = keys_from.add(column * keys.pitch).cast::<T>();
                let elements = T::load::<S>(from.add(at));
                for row in 0..R {
                    sums[row][column] = sums[row][column].plus(numbers[row], elements);
                }
            }
        }
        if whole < features {
            let rest = features - whole;
            for row in 0..R {
                let numbers = f32::load_some::<S>(queries.add(row * features + whole), rest);
                for column in 0..K {
                    let from = keys_from.add(column * keys.pitch).cast::<T>();
                    let elements = T::load_some::<S>(from.add(whole), rest);
                    sums[row][column] = sums[row][column].plus(numbers, elements);
                }
            }
        }
        let mut results = [[0f32; K]; R];
        if K > 1 {
            let mut all = [S::repeated(0.0); 16];
            for row in 0..R {
                for column in 0..K {
                    all[row * K + column] = sums[row][column];
                }
            }
            let mut numbers = [0f32; 16];
            S::sums(all).store(numbers.as_mut_ptr());
            results.as_flattened_mut().copy_from_slice(&numbers[..R * K]);
        } else {
            for row in 0..R {
                for column in 0..K {
                    results[row][column] = sums[row][column].sum();
                }
            }
        }
        results
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
#[inline(always)]
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

/// Multiplies `R` rows of results by their factors and adds the values of a tile, each times its weight: those of a row are `TILE` apart
/// from those of the next. Lines of `ahead` are asked for meanwhile.
///
/// # Safety
/// There are so many numbers of a row of results, and so many values.
#[inline(always)]
unsafe fn accumulate<S: Sixteen, T: Narrow, const R: usize>(
    weights: &[f32],
    values: Lines,
    [width, count]: [usize; 2],
    factors: &[f32],
    results: &mut [f32],
    mut ahead: Option<Lines>,
) {
    const WIDE: usize = 4;
    let weights = weights.as_ptr();
    let mut first = 0;
    // SAFETY: as the caller guarantees.
    unsafe {
        while first < width {
            let left = width - first;
            if left >= WIDE * SIDE && (S::IS_ONE_REGISTER || R == 1) {
                add_values::<S, T, R, WIDE>(
                    (weights, count),
                    (values, first, SIDE),
                    factors,
                    (results, width),
                    ahead.take(),
                );
                first += WIDE * SIDE;
            } else {
                add_values::<S, T, R, 1>(
                    (weights, count),
                    (values, first, left.min(SIDE)),
                    factors,
                    (results, width),
                    ahead.take(),
                );
                first += SIDE;
            }
        }
    }
}

/// As [`accumulate`], of `C` times sixteen numbers from `first` on, or of `left` numbers.
#[inline(always)]
unsafe fn add_values<S: Sixteen, T: Narrow, const R: usize, const C: usize>(
    (weights, count): (*const f32, usize),
    (values, first, left): (Lines, usize, usize),
    factors: &[f32],
    (results, width): (&mut [f32], usize),
    ahead: Option<Lines>,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut sums = [[S::repeated(0.0); C]; R];
        for row in 0..R {
            let factor = S::repeated(factors[row]);
            for column in 0..C {
                let from = results.as_ptr().add(row * width + first + column * SIDE);
                let numbers: S = match left == SIDE {
                    true => S::load(from),
                    false => f32::load_some(from, left),
                };
                sums[row][column] = numbers.times(factor);
            }
        }
        for key in 0..count {
            if let Some(ahead) = ahead {
                prefetch(ahead, key);
            }
            let from = values.first.add(key * values.pitch).cast::<T>().add(first);
            let mut elements = [S::repeated(0.0); C];
            for column in 0..C {
                elements[column] = match left == SIDE {
                    true => T::load(from.add(column * SIDE)),
                    false => T::load_some(from, left),
                };
            }
            for row in 0..R {
                let weight = S::repeated(*weights.add(row * TILE + key));
                for column in 0..C {
                    sums[row][column] = sums[row][column].plus(elements[column], weight);
                }
            }
        }
        for row in 0..R {
            for column in 0..C {
                let mut numbers = [0f32; SIDE];
                sums[row][column].store(numbers.as_mut_ptr());
                results[row * width + first + column * SIDE..][..left]
                    .copy_from_slice(&numbers[..left]);
            }
        }
    }
}
