//! Gradients of weights of groups with few channels: products of lines, summed.

use super::{Axis, is_here, lanes, spread, take};
use crate::kernels::strip::store;
use crate::parallel::Parallel;
use crate::{Layout, View, ViewMut};

/// Taps of one window, at most.
const TAPS: usize = 256;
/// Products that are summed side by side.
const WIDTH: usize = 8;

/// Whether lines are multiplied for weights laid out so.
pub fn takes(out: &Layout) -> bool {
    let [_, outputs, inputs, z, y, x] = *out.dims() else { unreachable!("six dimensions") };
    outputs <= 4 && outputs * inputs <= 16 && z.saturating_mul(y).saturating_mul(x) <= TAPS
}

fn work(source: &Layout, grad: &Layout) -> usize {
    grad.count().saturating_mul(source.dims()[2])
}

fn units(source: &Layout, grad: &Layout) -> usize {
    grad.dims()[1] * grad.dims()[2] * source.dims()[2]
}

/// A line of each.
fn lane(source: &Layout, grad: &Layout) -> usize {
    source.dims()[5] + grad.dims()[5]
}

/// Elements of scratch.
pub fn room(source: &Layout, grad: &Layout) -> usize {
    lanes(units(source, grad), work(source, grad)) * lane(source, grad)
}

/// See [`super::filter`].
pub fn product(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &View<'_>,
    grad: &View<'_>,
    axes: &[Axis; 3],
    scratch: ViewMut<'_>,
) {
    let units = units(source.layout(), grad.layout());
    let lanes = lanes(units, work(source.layout(), grad.layout()));
    let length = lane(source.layout(), grad.layout());
    let (outputs, inputs) = (grad.dims()[2], source.dims()[2]);
    spread(parallel, units, (lanes, 0, length), &scratch, |unit, room| {
        let (input, rest) = (unit % inputs, unit / inputs);
        let (output, group) = (rest % outputs, rest / outputs);
        let mut sides = [[0f32; WIDTH]; TAPS];
        add_up((source, grad), axes, (group, output, input), room, &mut sides);
        let sums = sides.map(|side| side.iter().sum::<f32>());
        let strides = out.strides();
        let part = group as isize * strides[0]
            + output as isize * strides[1]
            + input as isize * strides[2];
        let wide = axes[2].taps;
        for (line, sums) in sums.chunks(wide.max(1)).enumerate().take(axes[0].taps * axes[1].taps) {
            let (z, y) = (line / axes[1].taps, line % axes[1].taps);
            let offset = part + z as isize * strides[3] + y as isize * strides[4];
            // SAFETY: a line of the weights, which belongs to this unit alone.
            unsafe {
                let to = out.first_mut().offset(offset * out.item() as isize);
                store(out.dtype(), to, strides[5], &sums[..wide]);
            }
        }
    });
}

/// The sums of one input and one output channel of a group: several for each tap, side by side.
fn add_up(
    (source, grad): (&View<'_>, &View<'_>),
    axes: &[Axis; 3],
    (group, output, input): (usize, usize, usize),
    room: &mut [f32],
    sums: &mut [[f32; WIDTH]; TAPS],
) {
    let (sizes, strides) = (&source.dims()[3..], source.strides());
    let of_grad = grad.strides();
    let [samples, _, _, depth, height, width] = *grad.dims() else {
        unreachable!("six dimensions")
    };
    let [deep, high, wide] = [0, 1, 2].map(|at| axes[at]);
    let (source_here, grad_here) = (is_here(source), is_here(grad));
    let (left, right) = room.split_at_mut(width);
    for line in 0..samples * depth * height {
        let (h, rest) = (line % height, line / height);
        let (d, sample) = (rest % depth, rest / depth);
        let offset = sample as isize * of_grad[0]
            + group as isize * of_grad[1]
            + output as isize * of_grad[2]
            + d as isize * of_grad[3]
            + h as isize * of_grad[4];
        // SAFETY: a line of the gradients, which nobody writes.
        let left = unsafe { seen(grad, grad_here, offset, of_grad[5], left) };
        for z in 0..deep.taps {
            for y in 0..high.taps {
                let at_d = deep.at(d) + z as isize * deep.tap_step;
                let at_h = high.at(h) + y as isize * high.tap_step;
                let inside = (0..sizes[0] as isize).contains(&at_d)
                    && (0..sizes[1] as isize).contains(&at_h);
                if !inside {
                    continue;
                }
                let offset = sample as isize * strides[0]
                    + group as isize * strides[1]
                    + input as isize * strides[2]
                    + at_d * strides[3]
                    + at_h * strides[4];
                // SAFETY: a line of the source, which nobody writes.
                let right = unsafe { seen(source, source_here, offset, strides[5], right) };
                let sums = &mut sums[(z * high.taps + y) * wide.taps..][..wide.taps];
                assert!(
                    crate::kernels::strip::runs_here(),
                    "this processor lacks AVX2, FMA or F16C"
                );
                // SAFETY: this processor has the features.
                unsafe { products(&wide, left, right, sums) };
            }
        }
    }
}

/// A line of a view as it lies, or loaded.
///
/// # Safety
/// It belongs to the view, and nobody writes it.
unsafe fn seen<'s>(
    view: &View<'_>,
    is_here: bool,
    offset: isize,
    stride: isize,
    room: &'s mut [f32],
) -> &'s [f32] {
    // SAFETY: as the caller vouches; on whole elements where it is here.
    unsafe {
        if is_here && stride == 1 {
            let from = view.first().cast::<f32>().offset(offset);
            return std::slice::from_raw_parts(from, room.len());
        }
        take(view, is_here, offset, stride, room);
    }
    room
}

/// Adds the products of two lines to each tap's sums.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn products(axis: &Axis, left: &[f32], right: &[f32], sums: &mut [[f32; WIDTH]]) {
    match axis.step {
        1 => stepped::<1>(axis, left, right, sums),
        2 => stepped::<2>(axis, left, right, sums),
        _ => stepped::<0>(axis, left, right, sums),
    }
}

/// The same; `STEP` is that of the axis, or 0 for any.
#[inline(always)]
fn stepped<const STEP: usize>(axis: &Axis, left: &[f32], right: &[f32], sums: &mut [[f32; WIDTH]]) {
    let step = if STEP == 0 { axis.step as usize } else { STEP };
    for (tap, side) in sums.iter_mut().enumerate() {
        let first = axis.first + tap as isize * axis.tap_step;
        let (low, high) = axis.inside(first, right.len(), left.len());
        if low == high {
            continue;
        }
        let left = &left[low..high];
        let right = &right[(first + low as isize * axis.step) as usize..];
        let right = &right[..(left.len() - 1) * step + 1];
        if left.len() < WIDTH {
            for (at, a) in left.iter().enumerate() {
                side[0] = a.mul_add(right[at * step], side[0]);
            }
            continue;
        }
        let mut all = *side;
        let whole = left.len() / WIDTH * WIDTH;
        for at in (0..whole).step_by(WIDTH) {
            for lane in 0..WIDTH {
                all[lane] = left[at + lane].mul_add(right[(at + lane) * step], all[lane]);
            }
        }
        // The last few: those before them count as zero.
        let (rest, start) = (left.len() - whole, left.len() - WIDTH);
        if rest > 0 {
            for lane in 0..WIDTH {
                let (a, b) = (left[start + lane], right[(start + lane) * step]);
                let (a, b) = if lane + rest < WIDTH { (0.0, 0.0) } else { (a, b) };
                all[lane] = a.mul_add(b, all[lane]);
            }
        }
        *side = all;
    }
}
