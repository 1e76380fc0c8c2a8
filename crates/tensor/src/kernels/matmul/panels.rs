//! Products of half and mixed types: tiles of the result, summed in `f32` (or `f64`) over panels of both
//! sides that are widened into the workspace, or multiplied by pairs where both are `bf16` and the processor
//! does that ([`pairs`]).

use super::direct::multiply;
use super::plain::finish;
use super::{Matrix, Real, Task, folded, pairs, product_type};
use crate::kernels::small_product::{GRAIN, Shape};
use crate::kernels::strip::{STRIP, load, vectorised};
use crate::parallel::Parallel;
use crate::{DType, Dims, Layout, View, ViewMut};

/// The largest side of a tile, and the deepest panel.
const TILE: usize = 256;
/// The smallest side that a tile is cut to so that more threads have one.
const SMALLEST: usize = 64;
/// Tiles at work at the same time, at most.
const WORKERS: usize = 8;

/// How a product is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    rows: usize,
    columns: usize,
    /// How far apart rows of a tile's sums may be.
    pitch: usize,
    depth: usize,
    workers: usize,
    dtype: DType,
}

impl Panels {
    /// How a product is cut. With `paired`, both sides may be multiplied by pairs, which takes whole vectors of columns.
    fn of(dtype: DType, paired: bool, batches: usize, m: usize, n: usize, k: usize) -> Panels {
        let (mut rows, mut columns) = (m.min(TILE), n.min(TILE));
        let tiles = |rows: usize, columns| batches * m.div_ceil(rows) * n.div_ceil(columns);
        let small = m.saturating_mul(n).saturating_mul(k).saturating_mul(batches) < super::LEAST;
        while !small && tiles(rows, columns) < WORKERS && rows.max(columns) > SMALLEST {
            match rows >= columns {
                true => rows = rows.div_ceil(2).next_multiple_of(8),
                false => columns = columns.div_ceil(2).next_multiple_of(8),
            }
        }
        let workers = if small { 1 } else { tiles(rows, columns).min(WORKERS) };
        let pitch = if paired { columns.next_multiple_of(GRAIN) } else { columns };
        Panels { rows, columns, pitch, depth: k.min(TILE), workers, dtype }
    }

    /// The type of the scratch.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of the scratch.
    pub fn dims(&self) -> Dims {
        Dims::new(&[self.workers, self.worker_size()])
    }

    fn worker_size(&self) -> usize {
        (self.rows + self.pitch) * self.depth + self.rows * self.pitch
    }
}

/// The scratch that [`super::matmul`] needs for tensors of these layouts; `None` for none.
pub fn panels(out: &Layout, a: &Layout, b: &Layout) -> Option<Panels> {
    let dtype = product_type(a.dtype, b.dtype);
    if let Some([out, a, b]) = (out.count() > 0).then(|| folded([out, a, b])).flatten() {
        return panels(&out, &a, &b);
    }
    let rank = out.rank();
    let (m, n, k) = (out.dims()[rank - 2], out.dims()[rank - 1], a.dims()[rank - 1]);
    let same = [out.dtype, a.dtype, b.dtype].iter().all(|one| *one == dtype);
    if same || dtype == DType::Int64 || m == 1 || n == 1 || out.count() == 0 {
        return None;
    }
    let batches = out.dims()[..rank - 2].iter().product();
    Some(Panels::of(dtype, pairs::may_take(a.dtype, b.dtype), batches, m, n, k))
}

/// See [`super::matmul`].
pub fn product<C: Real>(parallel: &dyn Parallel, task: &Task<'_, C>, scratch: ViewMut<'_>) {
    let plan = Panels::of(
        C::DTYPE,
        pairs::may_take(task.a.dtype(), task.b.dtype()),
        task.batches(),
        task.m,
        task.n,
        task.k,
    );
    let workers = plan.workers;
    assert!(
        *scratch.dims() == *plan.dims() && scratch.dtype() == C::DTYPE,
        "the scratch does not fit {plan:?}"
    );
    let (tiles_down, tiles_across) = (task.m.div_ceil(plan.rows), task.n.div_ceil(plan.columns));
    let tiles = task.batches() * tiles_down * tiles_across;
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let worker_scratch = unsafe {
            let first = scratch.first_mut().cast::<C>().add(worker * scratch.dims()[1]);
            std::slice::from_raw_parts_mut(first, plan.worker_size())
        };
        for at in (worker..tiles).step_by(workers) {
            let (batch, rest) =
                (at / (tiles_down * tiles_across), at % (tiles_down * tiles_across));
            let first = ((rest / tiles_across) * plan.rows, (rest % tiles_across) * plan.columns);
            vectorised(|| tile(task, &plan, worker_scratch, batch, first));
        }
    };
    match workers {
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// One tile of the result, which begins at row `top` and column `left`.
#[inline(always)]
fn tile<C: Real>(
    task: &Task<'_, C>,
    plan: &Panels,
    worker_scratch: &mut [C],
    batch: usize,
    (top, left): (usize, usize),
) {
    let [out, a, b] = task.matrices(batch);
    let rows = (task.m - top).min(plan.rows);
    let columns = (task.n - left).min(plan.columns);
    let (panel_a, rest) = worker_scratch.split_at_mut(plan.rows * plan.depth);
    let (panel_b, sums) = rest.split_at_mut(plan.depth * plan.pitch);
    let by_pairs = pairs::takes(task);
    let pitch = if by_pairs { columns.next_multiple_of(GRAIN) } else { columns };
    let sums = &mut sums[..rows * pitch];
    for start in (0..task.k).step_by(plan.depth.max(1)) {
        let depth = (task.k - start).min(plan.depth);
        let (part_a, part_b) =
            (Matrix { offset: a.at(top, start), ..a }, Matrix { offset: b.at(start, left), ..b });
        if by_pairs {
            let shape = Shape { rows, columns: pitch, depth: depth.div_ceil(2), add: start > 0 };
            pairs::product(task, shape, (part_a, part_b), depth, columns, [panel_a, panel_b, sums]);
            continue;
        }
        let strides_a = widen(&task.a, part_a, rows, depth, panel_a);
        let strides_b = widen(&task.b, part_b, depth, columns, panel_b);
        let beta = if start == 0 { C::ZERO } else { C::ONE };
        // SAFETY: the panels hold these elements, one after the other.
        unsafe {
            multiply(
                (rows, columns, depth),
                sums.as_mut_ptr(),
                (columns as isize, 1),
                panel_a.as_ptr(),
                strides_a,
                panel_b.as_ptr(),
                strides_b,
                C::ONE,
                beta,
            );
        }
    }
    if task.k == 0 {
        sums.fill(C::ZERO);
    }
    for (row, sums) in sums.chunks_exact_mut(pitch).enumerate() {
        for (at, sums) in sums[..columns].chunks_mut(STRIP).enumerate() {
            finish(task, out.at(top + row, left + at * STRIP), out.column, sums);
        }
    }
}

/// Loads a matrix line by line along its shorter stride; returns the strides of the copy.
#[inline(always)]
fn widen<C: Real>(
    view: &View<'_>,
    matrix: Matrix,
    rows: usize,
    columns: usize,
    into: &mut [C],
) -> (isize, isize) {
    let by_rows = matrix.column.abs() <= matrix.row.abs();
    let (lines, length) = if by_rows { (rows, columns) } else { (columns, rows) };
    for (at, line) in into.chunks_exact_mut(length.max(1)).take(lines).enumerate() {
        let (offset, stride) = match by_rows {
            true => (matrix.at(at, 0), matrix.column),
            false => (matrix.at(0, at), matrix.row),
        };
        // SAFETY: the line is inside the matrix, which nobody writes.
        unsafe {
            load(view.dtype(), view.first().offset(offset * view.item() as isize), stride, line);
        }
    }
    if by_rows { (length as isize, 1) } else { (1, length as isize) }
}
