//! Products whose sizes are known only when they run: their scratch is as large as the largest of them needs.

use super::panels::Panels;
use super::{matmul, panels, product_type};
use crate::parallel::Parallel;
use crate::{DType, Layout, Scalar, View, ViewMut};

/// Above this many rows or columns the parts of a product do not depend on how many there are.
const MANY: usize = 2048;

/// Elements of scratch, of the type that [`scratch_type`] says, for any product of `out` = `a` @ `b` with at most these sizes:
/// rows of `a`, columns of `b`, and the number of terms of each sum.
pub fn largest_scratch(out: DType, a: DType, b: DType, [m, n, k]: [usize; 3]) -> usize {
    let count = |m: usize, k: usize| {
        let layouts = [(out, [m, n]), (a, [m, k]), (b, [k, n])]
            .map(|(dtype, dims)| Layout::contiguous(dtype, &dims));
        let panels: Option<Panels> = panels(&layouts[0], &layouts[1], &layouts[2]);
        panels.map_or(0, |panels| panels.dims().iter().product())
    };
    let few = (super::LEAST - 1) / (m * n).max(1);
    let depths = [k, k.min(few.max(1))];
    let by_rows = (1..=m.min(MANY)).chain([m]).map(|m| count(m, k)).max().unwrap_or(0);
    let by_depth = depths.into_iter().map(|k| count(m, k)).max().unwrap_or(0);
    by_rows.max(by_depth)
}

/// The type of the scratch.
pub fn scratch_type(a: DType, b: DType) -> DType {
    product_type(a, b)
}

/// As [`matmul`], with scratch of one dimension that is at least as large as [`largest_scratch`] says. A product without terms
/// is 0.
pub fn product_within(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    beta: Scalar,
    scratch: Option<ViewMut<'_>>,
) {
    let rank = a.rank();
    if a.dims()[rank - 1] == 0 {
        if beta.as_f64() == 0.0 {
            crate::kernels::map::fill_scalar(parallel, out, Scalar::from(0));
        }
        return;
    }
    let part = panels(out.layout(), a.layout(), b.layout()).and_then(|panels| {
        let layout = Layout::contiguous(panels.dtype(), &panels.dims());
        scratch.and_then(|scratch| scratch.with_layout(layout))
    });
    matmul(parallel, out, a, b, Scalar::from(1), beta, part);
}
