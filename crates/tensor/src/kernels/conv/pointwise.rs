//! Convolutions without windows: products of weights and positions, where vectors have positions and nothing is copied.
//!
//! A tile of sums has some output channels and two vectors of positions, in registers from the first input channel to the last. Weights
//! are packed by tiles of output channels, then input channels.

use super::{Address, Axis, Task, by_channels, elements, for_each_unit, no_scratch, positions};
use crate::kernels::epilogue::Clipped;
use crate::kernels::prefetch::prefetch_line;
use crate::kernels::vector::{Lanes, with_vectors};
use crate::parallel::{Parallel, split};
use crate::{DType, Layout, View, ViewMut};
use std::ops::Range;

/// Multiply-adds of a unit of work, at least.
const UNIT: usize = 1 << 17;
/// Units of work that let every thread have some.
const UNITS: usize = 16;
/// Input channels, at most, where another method is as fast: what a tile covers of more of them does not stay in the first cache.
const MAX_INPUTS: usize = 192;
/// Output channels of a tile, at most, with vectors of sixteen and of eight.
const MAX_ROWS: [usize; 2] = [14, 6];

/// How a convolution is split into tiles.
#[derive(Clone, Copy)]
pub struct Tiling {
    samples: usize,
    groups: usize,
    outputs: usize,
    inputs: usize,
    /// Positions of a sample.
    positions: usize,
    /// Positions of a vector.
    lanes: usize,
}

impl Tiling {
    /// For tensors of these layouts, whose axes are one; `None` where the method cannot be used.
    pub fn new(out: &Layout, source: &Layout, axes: &[Axis; 3]) -> Option<Tiling> {
        let is_direct = |layout: &Layout| layout.dtype == DType::Float && layout.strides()[5] == 1;
        let [samples, depth, height, width] = positions(out);
        // Padding at the end makes the output longer than the source.
        let is_flat = *axes == [Axis::NONE; 3]
            && (depth, height) == (1, 1)
            && out.dims()[3..] == source.dims()[3..];
        let tiling = Tiling {
            samples,
            groups: out.dims()[1],
            outputs: out.dims()[2],
            inputs: source.dims()[2],
            positions: width,
            lanes: lanes(),
        };
        let fits = width >= tiling.tile() && tiling.inputs > 0 && tiling.outputs > 0;
        (is_flat && is_direct(out) && is_direct(source) && fits).then_some(tiling)
    }

    /// Positions of a tile.
    fn tile(&self) -> usize {
        2 * self.lanes
    }

    /// Tiles of output channels.
    fn row_tiles(&self) -> usize {
        self.outputs.div_ceil(MAX_ROWS[usize::from(self.lanes == 8)])
    }

    /// The output channels of a tile: about as many as of any other.
    fn rows_of(&self, tile: usize) -> Range<usize> {
        let tiles = self.row_tiles();
        self.outputs * tile / tiles..self.outputs * (tile + 1) / tiles
    }

    /// Whether it takes less time than vectors of channels.
    pub fn is_faster_than(&self, other: &by_channels::Tiling) -> bool {
        self.inputs <= MAX_INPUTS && self.cost() < other.cost()
    }

    /// About how many cycles a sample takes: products, and storing them.
    fn cost(&self) -> usize {
        const STORE: usize = 12;
        let vectors = self.positions.div_ceil(self.lanes);
        vectors * self.outputs * (self.inputs + STORE)
    }

    /// The order that weights are packed in: it follows from the tiles.
    pub fn order(&self) -> usize {
        self.row_tiles()
    }

    /// Elements of the packed weights.
    pub fn packed_size(&self) -> usize {
        self.groups * self.outputs * self.inputs
    }

    /// Multiply-adds in all.
    fn work(&self) -> usize {
        let sums = self.samples.saturating_mul(self.groups).saturating_mul(self.positions);
        sums.saturating_mul(self.outputs).saturating_mul(self.inputs)
    }

    /// Packs weights of any strides.
    pub fn pack(&self, parallel: &dyn Parallel, weights: &View<'_>, into: &ViewMut<'_>) {
        let (into, have) = elements(into);
        assert!(self.packed_size() <= have, "{have} elements are too few for the weights");
        let (into, strides) = (Address(into), weights.strides());
        let tiles = self.groups * self.row_tiles();
        split(parallel, tiles, 1, (1 << 15) / (self.inputs * MAX_ROWS[0]) + 1, |tiles| {
            for at in tiles {
                let (group, tile) = (at / self.row_tiles(), at % self.row_tiles());
                let rows = self.rows_of(tile);
                let to = into.at(((group * self.outputs + rows.start) * self.inputs) as isize);
                for input in 0..self.inputs {
                    for (at, row) in rows.clone().enumerate() {
                        let from = group as isize * strides[0]
                            + row as isize * strides[1]
                            + input as isize * strides[2];
                        // SAFETY: a weight, aligned or not, and a packed one, which is of this tile alone.
                        unsafe {
                            let from = weights.first().cast::<f32>().offset(from);
                            *to.add(input * rows.len() + at) = from.read_unaligned();
                        }
                    }
                }
            }
        });
    }

    /// See [`super::convolve`], with packed weights.
    pub fn convolve(&self, parallel: &dyn Parallel, task: &Task<'_>, packed: *mut f32) {
        let packed = Address(packed);
        let planes = self.samples * self.groups;
        // Ranges of positions are whole tiles, but for the last one; where there are few, the tiles of channels are divided too.
        let column_tiles = self.positions / self.tile();
        let (work, tile_work) =
            (self.work(), self.tile() * self.outputs.saturating_mul(self.inputs));
        let columns = (column_tiles * tile_work / UNIT).clamp(1, column_tiles);
        let wanted = UNITS.div_ceil(planes * columns).min(work / (planes * columns) / UNIT);
        let row_parts = wanted.clamp(1, self.row_tiles());
        let units = planes * columns * row_parts;
        let clipped = task.clipped();
        let workers = super::workers(units, work);
        for_each_unit(parallel, units, (workers, 0, 0), &no_scratch(), |unit, _| {
            let (column, rest) = (unit % columns, unit / columns);
            let (row_part, plane) = (rest % row_parts, rest / row_parts);
            let border = |at: usize| match at == columns {
                true => self.positions,
                false => column_tiles * at / columns * self.tile(),
            };
            let tiles = self.row_tiles();
            let row_tiles = tiles * row_part / row_parts..tiles * (row_part + 1) / row_parts;
            let range = border(column)..border(column + 1);
            self.convolve_part(task, clipped.as_ref(), plane, (row_tiles, range), packed);
        });
    }

    /// Some tiles of output channels of one sample and group, at some positions.
    fn convolve_part(
        &self,
        task: &Task<'_>,
        clipped: Option<&Clipped<'_>>,
        plane: usize,
        (row_tiles, positions): (Range<usize>, Range<usize>),
        packed: Address,
    ) {
        let (sample, group) = (plane / self.groups, plane % self.groups);
        let (to, from) = (task.out.strides(), task.source.strides());
        let offset = sample as isize * to[0] + group as isize * to[1];
        let source_offset = sample as isize * from[0] + group as isize * from[1];
        let part = &Part {
            tiling: *self,
            task,
            clipped,
            group,
            offset,
            source: task.source.first().cast::<f32>().wrapping_offset(source_offset),
            weights: packed.at((group * self.outputs * self.inputs) as isize),
            row_tiles: row_tiles.clone(),
            positions: positions.clone(),
        };
        // SAFETY: positions and channels are inside the tensors, and those of the output are of this unit alone.
        unsafe {
            with_vectors!(multiply(part: &Part<'_>));
            if clipped.is_none() {
                let rows = self.rows_of(row_tiles.start).start..self.rows_of(row_tiles.end - 1).end;
                let offset = offset + rows.start as isize * to[2] + positions.start as isize;
                task.apply_epilogue(offset, rows.len(), positions.len());
            }
        }
    }
}

/// Positions of a vector.
fn lanes() -> usize {
    #[cfg(target_arch = "x86_64")]
    if crate::kernels::strip::has_avx512() {
        return 16;
    }
    8
}

/// A unit of work.
struct Part<'a> {
    tiling: Tiling,
    task: &'a Task<'a>,
    clipped: Option<&'a Clipped<'a>>,
    group: usize,
    /// The first element of the sample and the group in the output.
    offset: isize,
    source: *const f32,
    weights: *const f32,
    row_tiles: Range<usize>,
    positions: Range<usize>,
}

/// Computes a part, all its channels at a few positions before the next ones.
#[inline(always)]
unsafe fn multiply<V: Lanes>(part: &Part<'_>) {
    let Range { start, end } = part.positions;
    let mut position = start;
    while position < end {
        // The last tile covers positions of the one before, where there are fewer left than it has.
        let vectors = if end - position > V::COUNT { 2 } else { 1 };
        let first = position.min(end - vectors * V::COUNT);
        for tile in part.row_tiles.clone() {
            let rows = part.tiling.rows_of(tile);
            // SAFETY: as the caller guarantees.
            unsafe {
                match vectors {
                    2 => by_rows::<V, 2>(part, rows, first),
                    _ => by_rows::<V, 1>(part, rows, first),
                }
            }
        }
        position += vectors * V::COUNT;
    }
}

/// `N` vectors of positions of some channels.
#[inline(always)]
unsafe fn by_rows<V: Lanes, const N: usize>(part: &Part<'_>, rows: Range<usize>, first: usize) {
    macro_rules! by_count {
        ($($count:literal)*) => {
            match rows.len() {
                $($count => tile::<V, $count, N>(part, rows.start, first),)*
                _ => unreachable!("at most {} channels", MAX_ROWS[0]),
            }
        };
    }
    // SAFETY: as the caller guarantees.
    unsafe {
        match V::COUNT {
            16 => by_count!(1 2 3 4 5 6 7 8 9 10 11 12 13 14),
            _ => by_count!(1 2 3 4 5 6),
        }
    }
}

/// `R` channels and `N` vectors of positions, in registers.
#[inline(always)]
unsafe fn tile<V: Lanes, const R: usize, const N: usize>(
    part: &Part<'_>,
    row: usize,
    first: usize,
) {
    let (inputs, out) = (part.tiling.inputs, &part.task.out);
    let stride = out.strides()[2];
    let offset = part.offset + row as isize * stride + first as isize;
    let to = out.first_mut().cast::<f32>().wrapping_offset(offset);
    for row in 0..R as isize {
        for at in 0..N {
            prefetch_line(to.wrapping_offset(row * stride).wrapping_add(at * V::COUNT).cast());
        }
    }
    let mut source = part.source.wrapping_add(first);
    let mut weights = part.weights.wrapping_add(row * inputs);
    let channel = part.task.source.strides()[2];
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut sums = [[V::repeated(0.0); N]; R];
        for _ in 0..inputs {
            let mut vectors = [V::repeated(0.0); N];
            for (at, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(source.add(at * V::COUNT));
            }
            for (at, sums) in sums.iter_mut().enumerate() {
                let weight = V::repeated(*weights.add(at));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = sum.plus(weight, vector);
                }
            }
            weights = weights.add(R);
            source = source.wrapping_offset(channel);
        }
        for (at, sums) in sums.iter().enumerate() {
            let bias = V::repeated(part.task.bias(part.group, row + at));
            for (vector, sum) in sums.iter().enumerate() {
                let place = at as isize * stride + (vector * V::COUNT) as isize;
                let mut sum = sum.add(bias);
                if let Some(clipped) = part.clipped {
                    if let Some(added) = clipped.added(offset + place) {
                        sum = sum.add(V::load(added));
                    }
                    sum = clipped.keep(sum);
                }
                sum.store(to.offset(place));
            }
        }
    }
}
