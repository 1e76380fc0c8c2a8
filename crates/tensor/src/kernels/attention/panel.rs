//! A panel of queries: which keys count for each, and the softmax of its scores, tile by tile.

use super::{Attention, LANES};
use crate::kernels::access::PositionAccess;
use crate::kernels::math::exp_below;
use std::ops::Range;

/// A number for each query of a panel.
pub type Lane = [f32; LANES];

/// [`LANES`], unknown to the compiler: a loop of known length is unrolled before it can become one of vectors.
#[inline(always)]
pub fn lanes() -> usize {
    std::hint::black_box(LANES)
}

/// One of two numbers, without a branch: of one the compiler makes a masked store, which is slow.
#[inline(always)]
pub fn select(first: bool, x: f32, y: f32) -> f32 {
    let bits = u32::from(first).wrapping_neg();
    f32::from_bits(x.to_bits() & bits | y.to_bits() & !bits)
}

/// Multiplies all numbers of each query by its factor.
#[inline(always)]
pub fn rescale(numbers: &mut [f32], factors: &Lane) {
    if factors.iter().all(|factor| *factor == 1.0) {
        return;
    }
    let lanes = lanes();
    for numbers in numbers.as_chunks_mut::<LANES>().0 {
        for (number, factor) in numbers[..lanes].iter_mut().zip(&factors[..lanes]) {
            *number *= factor;
        }
    }
}

/// A few queries of one head, and the keys that count for each as far as band and prefix say.
pub struct Panel {
    pub batch: usize,
    pub head: usize,
    pub queries: Range<usize>,
    /// Every key that counts is in here.
    pub keys: Range<usize>,
    /// These count for every query.
    pub always: Range<usize>,
    /// The band of each query, and its prefix.
    starts: [usize; LANES],
    ends: [usize; LANES],
    prefixes: [usize; LANES],
}

impl Panel {
    pub fn new(task: &Attention<'_>, [batch, head]: [usize; 2], queries: Range<usize>) -> Panel {
        let keys = task.key.dims()[2];
        let mut panel = Panel {
            batch,
            head,
            keys: 0..keys,
            always: 0..keys,
            starts: [0; LANES],
            ends: [keys; LANES],
            prefixes: [0; LANES],
            queries,
        };
        let Some((low, high)) = task.band else {
            return panel;
        };
        let prefix = task.prefixes.get(batch).map_or(0, |prefix| (*prefix).min(keys));
        for lane in 0..LANES {
            let query = (panel.queries.start + lane).min(panel.queries.end - 1) as isize;
            let start = query.saturating_add(low).clamp(0, keys as isize) as usize;
            let end = query.saturating_add(high).saturating_add(1).clamp(0, keys as isize) as usize;
            panel.starts[lane] = start.min(end);
            panel.ends[lane] = end;
        }
        panel.prefixes = [prefix; LANES];
        let (starts, ends) = (panel.starts.iter(), panel.ends.iter());
        let first = if prefix > 0 { 0 } else { starts.clone().min().map_or(0, |one| *one) };
        panel.keys = first..ends.clone().max().map_or(0, |one| *one).max(prefix);
        panel.always = starts.max().map_or(0, |one| *one)..ends.min().map_or(0, |one| *one);
        panel
    }

    /// How many queries there are.
    pub fn count(&self) -> usize {
        self.queries.len()
    }

    /// Scores of a tile that do not count become minus infinity, as far as band and prefix say.
    #[inline(always)]
    pub fn apply_band(&self, tile: &Range<usize>, scores: &mut [Lane]) {
        if self.always.start <= tile.start && tile.end <= self.always.end {
            return;
        }
        let relative_to_tile = |limits: &[usize; LANES]| {
            let mut relative = [0i32; LANES];
            for lane in 0..LANES {
                relative[lane] = (limits[lane].clamp(tile.start, tile.end) - tile.start) as i32;
            }
            relative
        };
        let (starts, ends, prefixes) = (
            relative_to_tile(&self.starts),
            relative_to_tile(&self.ends),
            relative_to_tile(&self.prefixes),
        );
        let lanes = lanes();
        for (key, scores) in scores.iter_mut().enumerate() {
            let at = tile.start + key;
            if self.always.contains(&at) {
                continue;
            }
            let key = key as i32;
            let (starts, ends) = (&starts[..lanes], &ends[..lanes]);
            let bounds = starts.iter().zip(ends).zip(&prefixes[..lanes]);
            for (score, ((start, end), prefix)) in scores[..lanes].iter_mut().zip(bounds) {
                let counts = (key < *prefix) | ((key >= *start) & (key < *end));
                *score = select(counts, *score, f32::NEG_INFINITY);
            }
        }
    }
}

/// The greatest score of each query so far, and the sum of the exponentials of scores less that.
#[derive(Clone, Copy)]
pub struct Softmax {
    pub greatest: Lane,
    pub sum: Lane,
}

impl Softmax {
    /// Before any key: the sink of the head, where there is one.
    pub fn new(task: &Attention<'_>, head: usize) -> Softmax {
        let sink = sink_score(task, head);
        let (greatest, sum) = match sink {
            f32::NEG_INFINITY => (sink, 0.0),
            _ if sink.is_nan() => (f32::NEG_INFINITY, sink),
            _ => (sink, 1.0),
        };
        Softmax { greatest: [greatest; LANES], sum: [sum; LANES] }
    }

    /// Turns the scores of a tile into exponentials and adds them to the sum; returns what earlier exponentials are
    /// multiplied by, now that the greatest score may be another.
    #[inline(always)]
    pub fn add_tile(&mut self, scores: &mut [Lane]) -> Lane {
        let (mut greatest, lanes) = (self.greatest, lanes());
        for scores in scores.iter() {
            for (greatest, score) in greatest[..lanes].iter_mut().zip(&scores[..lanes]) {
                *greatest = greatest.max(*score);
            }
        }
        let (mut base, mut factors) = (greatest, [0f32; LANES]);
        for lane in 0..LANES {
            base[lane] = if greatest[lane] == f32::NEG_INFINITY { 0.0 } else { greatest[lane] };
            factors[lane] = exp_below(self.greatest[lane] - base[lane]);
        }
        let mut sums = [0f32; LANES];
        for scores in scores {
            let sums = sums[..lanes].iter_mut().zip(&base[..lanes]);
            for (score, (sum, base)) in scores[..lanes].iter_mut().zip(sums) {
                *score = exp_below(*score - base);
                *sum += *score;
            }
        }
        self.greatest = greatest;
        for lane in 0..LANES {
            self.sum[lane] = self.sum[lane] * factors[lane] + sums[lane];
        }
        factors
    }

    /// What the exponentials of each query are multiplied by at the end; 0 where no key counts.
    pub fn factors(&self) -> Lane {
        self.sum.map(|sum| if sum == 0.0 { 0.0 } else { 1.0 / sum })
    }

    /// The greatest score of a query and the sum of exponentials, as [`super::forward`] writes them.
    pub fn stats(&self, lane: usize) -> (f32, f32) {
        match (self.greatest[lane], self.sum[lane]) {
            (f32::INFINITY, sum) => (f32::INFINITY, sum),
            (_, sum) if sum.is_nan() => (sum, sum),
            (f32::NEG_INFINITY, sum) => (f32::MIN, sum),
            both => both,
        }
    }
}

/// The attention sink of a head; minus infinity without one.
pub fn sink_score(task: &Attention<'_>, head: usize) -> f32 {
    task.sink.map_or(f32::NEG_INFINITY, |sink| PositionAccess::new(sink).get(&[head]))
}
