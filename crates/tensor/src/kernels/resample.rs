//! Resampling along one dimension: each result is a weighted sum of elements along it.

use super::access::offsets;
use super::map::SMALL;
use super::math::Real;
use super::strip::{STRIP, load_one, store, strip, vectorised};
use super::taps::Table;
use crate::parallel::{Parallel, split};
use crate::{Dims, Layout, Strides, View, ViewMut};

/// A line no longer than this is loaded at once.
const LINE: usize = 2048;

/// Sizes and strides of two tensors without some of their dimensions.
struct OtherDims {
    dims: Dims,
    out: Strides,
    a: Strides,
}

impl OtherDims {
    fn new(out: &Layout, a: &Layout, without: &[usize]) -> OtherDims {
        let mut others =
            OtherDims { dims: Dims::default(), out: Strides::default(), a: Strides::default() };
        for at in (0..out.rank()).filter(|at| !without.contains(at)) {
            others.dims.push(out.dims()[at]);
            others.out.push(out.strides()[at]);
            others.a.push(a.strides()[at]);
        }
        others
    }

    fn count(&self) -> usize {
        self.dims.iter().product()
    }

    fn offsets(&self, position: usize) -> [isize; 2] {
        offsets(&self.dims, [&self.out, &self.a], position)
    }
}

/// `out[.., o, ..] = sum of weight * a[.., source, ..]`, divided, along `dim`, in `C`. Other sizes are equal; the two
/// share no memory.
pub fn resample<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    dim: usize,
    table: &Table<'_, C>,
) {
    assert!(out.dims()[dim] == table.results() && a.dims()[dim] == table.limit());
    assert!((0..out.rank()).all(|at| at == dim || out.dims()[at] == a.dims()[at]));
    if out.count() == 0 {
        return;
    }
    let others = (0..out.rank()).filter(|at| *at != dim && out.dims()[*at] > 1);
    let fastest = others.min_by_key(|at| a.strides()[*at].unsigned_abs());
    match fastest {
        Some(inner) if a.strides()[inner].abs() <= a.strides()[dim].abs() || a.dims()[dim] == 1 => {
            along_inner(parallel, out, a, (dim, inner), table)
        }
        _ => lines(parallel, out, a, dim, table),
    }
}

/// Strips along another dimension, the one with the smallest stride in `a`.
fn along_inner<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    (dim, inner): (usize, usize),
    table: &Table<'_, C>,
) {
    let others = OtherDims::new(&out, &a, &[dim, inner]);
    let (results, length) = (table.results(), out.dims()[inner]);
    let [to_dim, to_inner] = [dim, inner].map(|at| out.strides()[at]);
    let [from_dim, from_inner] = [dim, inner].map(|at| a.strides()[at]);
    let item = out.item() as isize;
    split(parallel, others.count() * results, 1, SMALL.div_ceil(length.max(1)), |range| {
        let (mut buffer, mut sums) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
        for unit in range {
            let result = unit % results;
            let [to, from] = others.offsets(unit / results);
            let (sources, weights) = table.of(result);
            let divisor = table.divisor(result);
            for first in (0..length).step_by(STRIP) {
                let width = STRIP.min(length - first);
                let sums = &mut sums[..width];
                sums.fill(C::ZERO);
                for (source, weight) in sources.iter().zip(weights) {
                    let offset = from + *source as isize * from_dim + first as isize * from_inner;
                    // SAFETY: a source is below the table's limit, which is the size of the dimension; nobody writes
                    // `a` meanwhile.
                    let x = unsafe { strip(&a, offset, from_inner, width, true, &mut buffer) };
                    let weight = *weight;
                    vectorised(|| {
                        for (sum, x) in sums.iter_mut().zip(x) {
                            *sum = sum.add(x.mul(weight));
                        }
                    });
                }
                divide(sums, divisor);
                let offset = to + result as isize * to_dim + first as isize * to_inner;
                // SAFETY: a part of `out`.
                unsafe {
                    store(out.dtype(), out.first_mut().offset(offset * item), to_inner, sums);
                }
            }
        }
    });
}

/// Divides by a number other than 1; a divisor of 0 leaves the sums, which are 0 then.
fn divide<C: Real>(sums: &mut [C], divisor: C) {
    if divisor != C::ONE && divisor != C::ZERO {
        vectorised(|| sums.iter_mut().for_each(|sum| *sum = sum.div(divisor)));
    }
}

/// Line by line along the resampled dimension.
fn lines<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    dim: usize,
    table: &Table<'_, C>,
) {
    let others = OtherDims::new(&out, &a, &[dim]);
    let (results, length) = (table.results(), table.limit());
    let (to_dim, from_dim) = (out.strides()[dim], a.strides()[dim]);
    let (item, from_item) = (out.item() as isize, a.item() as isize);
    let is_borrowed = from_dim == 1 && a.dtype() == C::DTYPE && a.first().cast::<C>().is_aligned();
    let loads_line = is_borrowed || length <= LINE;
    split(parallel, others.count(), 1, SMALL.div_ceil(results.max(length)), |range| {
        let (mut buffer, mut sums) = ([C::ZERO; LINE], [C::ZERO; STRIP]);
        for unit in range {
            let [to, from] = others.offsets(unit);
            // SAFETY: a line of `a`, which nobody writes meanwhile.
            let line: Option<&[C]> =
                loads_line.then(|| unsafe { strip(&a, from, from_dim, length, true, &mut buffer) });
            for first in (0..results).step_by(STRIP) {
                let width = STRIP.min(results - first);
                for (at, sum) in sums[..width].iter_mut().enumerate() {
                    let (sources, weights) = table.of(first + at);
                    let mut total = C::ZERO;
                    for (source, weight) in sources.iter().zip(weights) {
                        let x = match line {
                            Some(line) => line[*source as usize],
                            // SAFETY: a source is below the table's limit, the size of the dimension.
                            None => unsafe {
                                let offset = from + *source as isize * from_dim;
                                load_one(a.dtype(), a.first().offset(offset * from_item))
                            },
                        };
                        total = total.add(x.mul(*weight));
                    }
                    *sum = total;
                    divide(std::slice::from_mut(sum), table.divisor(first + at));
                }
                let offset = to + first as isize * to_dim;
                // SAFETY: a part of a line of `out`.
                unsafe {
                    let target = out.first_mut().offset(offset * item);
                    store(out.dtype(), target, to_dim, &sums[..width]);
                }
            }
        }
    });
}
