//! The greatest elements of sliding windows, line by line: the lines of a window first, then the positions along them.

use super::access::offsets;
use super::map::SMALL;
use super::number::Number;
use super::pool::Windows;
use super::strip::{store, strip, vectorised};
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};

/// Positions of input lines that are compared at a time.
const LINE: usize = 1024;

/// Windows along the last dimension: positions, from one to the next, and from the first to the input.
#[derive(Clone, Copy)]
struct Columns {
    kernel: usize,
    stride: usize,
    before: usize,
}

impl Columns {
    fn new(windows: &Windows) -> Option<Columns> {
        match *windows {
            Windows::Sliding { kernel, stride, before, dilation: 1 } => {
                let fits = (1..LINE / 2).contains(&kernel) && (1..LINE / 2).contains(&stride);
                fits.then_some(Columns { kernel, stride, before })
            }
            _ => None,
        }
    }

    /// How many windows a line of [`LINE`] positions has.
    fn count(&self) -> usize {
        (LINE - self.kernel) / self.stride + 1
    }
}

/// See [`super::pool::max_pool`], without indices. False, and nothing is done, where another method is used: it computes in `f32`.
pub fn max_pool(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    windows: [Windows; 3],
) -> bool {
    let is_real = |dtype| matches!(dtype, DType::Float | DType::Float16 | DType::Bf16);
    let Some(columns) = Columns::new(&windows[2]) else { return false };
    if !is_real(out.dtype()) || !is_real(a.dtype()) {
        return false;
    }
    let (dims, strides) = (a.dims(), a.strides());
    let rows = out.dims()[..4].iter().product();
    let width = out.dims()[4];
    split(parallel, rows, 1, (SMALL / 8).div_ceil(width), |range| {
        let (mut line, mut loaded, mut results) = ([0f32; LINE], [0f32; LINE], [0f32; LINE]);
        for row in range {
            let [to] = offsets(&out.dims()[..4], [&out.strides()[..4]], row);
            let (y, rest) = (row % out.dims()[3], row / out.dims()[3]);
            let [plane] = offsets(&dims[..2], [&strides[..2]], rest / out.dims()[2]);
            let depth_span = windows[0].span(rest % out.dims()[2], dims[2]);
            let row_span = windows[1].span(y, dims[3]);
            for start in (0..width).step_by(columns.count()) {
                let count = columns.count().min(width - start);
                let first = (start * columns.stride) as isize - columns.before as isize;
                let length = (count - 1) * columns.stride + columns.kernel;
                // The positions of the line that are inside the input.
                let low = (-first).clamp(0, length as isize) as usize;
                let high = (dims[4] as isize - first).clamp(low as isize, length as isize) as usize;
                line[..length].fill(f32::NEG_INFINITY);
                for d in depth_span.positions() {
                    for h in row_span.positions() {
                        let offset = plane
                            + d as isize * strides[2]
                            + h as isize * strides[3]
                            + (first + low as isize) * strides[4];
                        if low == high {
                            continue;
                        }
                        // SAFETY: a part of a line of the input, which nobody writes.
                        let others =
                            unsafe { strip(&a, offset, strides[4], high - low, true, &mut loaded) };
                        let line = &mut line[low..high];
                        vectorised(|| greatest(line, others));
                    }
                }
                let results = &mut results[..count];
                slide(&line[..length], columns, (results, &mut loaded));
                let offset = to + start as isize * out.strides()[4];
                // SAFETY: a part of a line of the output, which is of this part alone.
                unsafe {
                    let to = out.first_mut().offset(offset * out.item() as isize);
                    store(out.dtype(), to, out.strides()[4], results);
                }
            }
        }
    });
    true
}

/// Keeps the greater of each pair, NaN above all.
#[inline(always)]
fn greatest(best: &mut [f32], others: &[f32]) {
    for (best, other) in best.iter_mut().zip(others) {
        *best = Number::greatest(*best, *other);
    }
}

/// The greatest element of each window of a line.
fn slide(
    line: &[f32],
    Columns { kernel, stride, .. }: Columns,
    (results, buffer): (&mut [f32], &mut [f32; LINE]),
) {
    let count = results.len();
    vectorised(|| {
        results.fill(f32::NEG_INFINITY);
        match stride {
            1 => (0..kernel).for_each(|tap| greatest(results, &line[tap..])),
            2 => {
                // Positions at even places of the line, then those at odd ones: windows are side by side in each.
                let (even, odd) = buffer.split_at_mut(LINE / 2);
                let pairs = line.len() / 2;
                let line_pairs = line.as_chunks::<2>().0;
                for ((even, odd), pair) in even.iter_mut().zip(&mut *odd).zip(line_pairs) {
                    (*even, *odd) = (pair[0], pair[1]);
                }
                if let Some(last) = line.get(2 * pairs) {
                    even[pairs] = *last;
                }
                for tap in 0..kernel {
                    let side = if tap % 2 == 0 { &*even } else { &*odd };
                    greatest(results, &side[tap / 2..tap / 2 + count]);
                }
            }
            _ => {
                for tap in 0..kernel {
                    for (result, at) in results.iter_mut().zip((tap..).step_by(stride)) {
                        greatest(std::slice::from_mut(result), &line[at..at + 1]);
                    }
                }
            }
        }
    });
}
