//! Overlaps of rectangles that losses of detectors use (GIoU, DIoU, CIoU), and their gradients, by IR name.
//!
//! Workspace: rectangles and results in `f64`.

use super::detection::{expect_matrix, overlap};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::access::{OffsetAccess, OffsetAccessMut};
use cairn_tensor::kernels::agreement::Agreement;
use cairn_tensor::kernels::boxes::{Overlap, Rectangle};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::parallel::split;
use cairn_tensor::{DType, Layout, Scalar};

/// Threads are used where each gets at least so many pairs of rectangles.
const PAIRS_PER_THREAD: usize = 2048;

/// Which pairs of rectangles a call compares, and how. Four numbers of each are in a column.
#[derive(Clone, Copy)]
struct Comparison {
    measure: Agreement,
    /// What the intersection is divided by.
    mode: Overlap,
    /// Whether rectangles are by centre and size.
    centred: bool,
    /// Whether each of the second is compared with all of the first: a row of results for each.
    crossed: bool,
    /// How many are the first.
    count: usize,
    /// How many are the second.
    others: usize,
}

impl Comparison {
    /// Arguments from `at` on: rectangles, others; from `options` on: whether they are by centre and size, whether all are
    /// compared with all, mode, and the number of the measure.
    fn read(call: &Call<'_>, at: usize, options: usize) -> Result<Comparison> {
        let (a, b) = (call.layout(at)?, call.layout(at + 1)?);
        call.expect_dtype(at, &a, &[DType::Float, DType::Float16])?;
        call.expect_same(at + 1, &b, at, &a)?;
        expect_matrix(call, at, &a, 0, 4)?;
        expect_matrix(call, at + 1, &b, 0, 4)?;
        let (centred, crossed) = (call.flag(options)?, call.flag(options + 1)?);
        let mode = overlap(call, options + 2)?;
        if !crossed {
            call.expect_dims(at + 1, &b, a.dims())?;
        }
        let measure = match call.int(options + 3)? {
            0 => Agreement::Generalized,
            1 => Agreement::Distance,
            _ => Agreement::Complete,
        };
        let (count, others) = (a.dims()[1], b.dims()[1]);
        Ok(Comparison { measure, mode, centred, crossed, count, others })
    }

    /// The sizes of the results.
    fn dims(&self) -> [usize; 2] {
        [if self.crossed { self.others } else { 1 }, self.count]
    }

    /// Rectangle `at` of `count` in columns.
    fn rectangle(&self, cells: &OffsetAccess<'_, f64>, count: usize, at: usize) -> Rectangle {
        let value = |i: usize| cells.get((i * count + at) as isize);
        let (one, two) = ([value(0), value(1)], [value(2), value(3)]);
        match self.centred {
            true => Rectangle::from_centre(one, two),
            false => Rectangle { low: one, high: two },
        }
    }

    /// The gradients by the four numbers of a rectangle, from those by its corners.
    fn gradient_by_numbers(&self, [a, b, c, d]: [f64; 4]) -> [f64; 4] {
        match self.centred {
            true => [a + c, b + d, (c - a) / 2.0, (d - b) / 2.0],
            false => [a, b, c, d],
        }
    }
}

/// Arguments: rectangles, others, whether they are by centre and size, whether all are compared with all, mode, measure, out,
/// differences of angles (of CIoU only), whether these are wanted.
fn agreement(call: &mut Call<'_>) -> Result<Plan> {
    let comparison = Comparison::read(call, 0, 2)?;
    let (a, b, out) = (call.tensor(0)?, call.tensor(1)?, call.output(6)?);
    let angles = call.optional_output(7)?;
    let wants_angles = call.flag_or(8, false)?;
    let dims = comparison.dims();
    for (at, one) in [(6, Some(&out)), (7, angles.as_ref())] {
        if let Some(one) = one {
            call.expect_dims(at, one, &dims)?;
            call.expect_same(at, one, 0, &a)?;
        }
    }
    let Comparison { measure, mode, crossed, count, others, .. } = comparison;
    let [first, second] = [count, others].map(|count| call.scratch(DType::Double, &[4, count]));
    let results = call.scratch(DType::Double, &dims);
    let rotation_dims = if wants_angles { &dims[..] } else { &[0, 0] };
    let rotations = call.scratch(DType::Double, rotation_dims);
    call.plan(move |memory| {
        let [first, second, results, rotations] =
            [first, second, results, rotations].map(|one| memory.scratch(&one));
        copy(memory.parallel, first, memory.view(&a));
        copy(memory.parallel, second, memory.view(&b));
        let [first, second] = [first, second].map(|one| OffsetAccess::<f64>::new(one.view()));
        let (measures, angle_results) =
            (OffsetAccessMut::<f64>::new(results), OffsetAccessMut::<f64>::new(rotations));
        split(memory.parallel, results.count(), 1, PAIRS_PER_THREAD, |range| {
            for pair in range {
                let (row, at) = (pair / count, pair % count);
                let one = comparison.rectangle(&first, count, at);
                let other = comparison.rectangle(&second, others, if crossed { row } else { at });
                let result = measure.of(&one, &other, mode);
                measures.set(pair as isize, result.measure);
                if wants_angles {
                    angle_results.set(pair as isize, result.rotation);
                }
            }
        });
        copy(memory.parallel, memory.out(&out), results.view());
        match angles {
            Some(angles) if wants_angles => {
                copy(memory.parallel, memory.out(&angles), rotations.view());
            }
            Some(angles) => fill_scalar(memory.parallel, memory.out(&angles), Scalar::from(0)),
            None => {}
        }
        Ok(())
    })
}

/// Fails unless a gradient has the sizes of the results, but for dimensions of 1.
fn expect_gradient(call: &Call<'_>, dy: &Layout, dims: [usize; 2]) -> Result<()> {
    let without_ones =
        |dims: &[usize]| -> Vec<usize> { dims.iter().copied().filter(|n| *n != 1).collect() };
    if without_ones(dy.dims()) == without_ones(&dims) {
        return Ok(());
    }
    let (name, have) = (call.parameter(0), dy.dims());
    Err(Error::invalid(format!("{name} {have:?}: expected {dims:?}")))
}

/// Arguments: dy, rectangles, others, whether they are by centre and size, whether all are compared with all, mode, measure,
/// gradient by rectangles, gradient by others, differences of angles (computed again here; only their sizes are checked).
fn agreement_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let comparison = Comparison::read(call, 1, 3)?;
    let (dy, a, b) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (da, db) = (call.output(7)?, call.output(8)?);
    let dims = comparison.dims();
    call.expect_same(0, &dy, 1, &a)?;
    expect_gradient(call, &dy, dims)?;
    if call.has(9) {
        let angles = call.layout(9)?;
        call.expect_same(9, &angles, 1, &a)?;
        call.expect_dims(9, &angles, &dims)?;
    }
    for (at, one, like) in [(7, &da, &a), (8, &db, &b)] {
        call.expect_same(at, one, 1, &a)?;
        call.expect_dims(at, one, like.dims())?;
    }
    let Comparison { measure, mode, crossed, count, others, .. } = comparison;
    let [first, second] = [count, others].map(|count| call.scratch(DType::Double, &[4, count]));
    let [to_first, to_second] =
        [count, others].map(|count| call.scratch(DType::Double, &[4, count]));
    let dy_f64 = call.scratch(DType::Double, dy.dims());
    call.plan(move |memory| {
        let [first, second, to_first, to_second, dy_f64] =
            [first, second, to_first, to_second, dy_f64].map(|one| memory.scratch(&one));
        copy(memory.parallel, first, memory.view(&a));
        copy(memory.parallel, second, memory.view(&b));
        copy(memory.parallel, dy_f64, memory.view(&dy));
        let [boxes, other_boxes, dy] =
            [first, second, dy_f64].map(|one| OffsetAccess::<f64>::new(one.view()));
        // The gradients by both of a pair, by their corners.
        let pair = |at: usize, other: usize| {
            let (one, two) = (
                comparison.rectangle(&boxes, count, at),
                comparison.rectangle(&other_boxes, others, other),
            );
            let row = if crossed { other } else { 0 };
            let gradient = dy.get((row * count + at) as isize);
            let gradients = measure.gradients(&one, &two, mode);
            [gradients.first, gradients.second].map(|corners| corners.map(|one| one * gradient))
        };
        // The gradients of one side after the other, so that one thread computes each sum.
        for (side, to, count, partners) in
            [(0, to_first, count, others), (1, to_second, others, count)]
        {
            let sums = OffsetAccessMut::<f64>::new(to);
            let partners = if crossed { partners } else { 1 };
            split(
                memory.parallel,
                count,
                1,
                (PAIRS_PER_THREAD / partners.max(1)).max(1),
                |range| {
                    for at in range {
                        let mut corners = [0.0; 4];
                        for partner in 0..partners {
                            let gradients = match (crossed, side) {
                                (false, _) => pair(at, at),
                                (true, 0) => pair(at, partner),
                                (true, _) => pair(partner, at),
                            };
                            corners
                                .iter_mut()
                                .zip(gradients[side])
                                .for_each(|(sum, one)| *sum += one);
                        }
                        for (i, gradient) in
                            comparison.gradient_by_numbers(corners).into_iter().enumerate()
                        {
                            sums.set((i * count + at) as isize, gradient);
                        }
                    }
                },
            );
        }
        copy(memory.parallel, memory.out(&da), to_first.view());
        copy(memory.parallel, memory.out(&db), to_second.view());
        Ok(())
    })
}

fn infer_overlaps(call: &Call<'_>) -> Result<Vec<Layout>> {
    let comparison = Comparison::read(call, 0, 2)?;
    let results = Layout::contiguous(call.layout(0)?.dtype, &comparison.dims());
    Ok(vec![results; if comparison.measure == Agreement::Complete { 2 } else { 1 }])
}

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let packed = |at: usize| call.layout(at).map(|one| Layout::contiguous(one.dtype, one.dims()));
    Ok(vec![packed(1)?, packed(2)?])
}

const CENTRED: ArgSource = Attr("trans", AttrDefault::Flag(false));
const CROSSED: ArgSource = Attr("is_cross", AttrDefault::Flag(true));
const MODE: ArgSource = Attr("mode", AttrDefault::Text("iou"));
const ATAN_SUB: ArgSource = Attr("atan_sub_flag", AttrDefault::Flag(false));

const BOXES: &[&str] = &["bboxes", "gtboxes"];
const GRADIENT_INPUTS: &[&str] = &["dy", "bboxes", "gtboxes"];
const GRADIENTS: &[&str] = &["dbboxes", "dgtboxes"];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "GIoU",
        BOXES,
        &["overlap"],
        Infer::By(infer_overlaps),
        agreement,
        &[A(0), A(1), CENTRED, CROSSED, MODE, I(0), O(0)],
    ),
    node(
        "DIoU",
        BOXES,
        &["overlap"],
        Infer::By(infer_overlaps),
        agreement,
        &[A(0), A(1), CENTRED, CROSSED, MODE, I(1), O(0)],
    ),
    node(
        "CIoU",
        BOXES,
        &["overlap", "atan_sub"],
        Infer::By(infer_overlaps),
        agreement,
        &[A(0), A(1), CENTRED, CROSSED, MODE, I(2), O(0), O(1), ATAN_SUB],
    ),
    node(
        "GIoUGrad",
        GRADIENT_INPUTS,
        GRADIENTS,
        Infer::By(infer_gradients),
        agreement_gradient,
        &[A(0), A(1), A(2), CENTRED, CROSSED, MODE, I(0), O(0), O(1), No],
    ),
    node(
        "DIoUGrad",
        GRADIENT_INPUTS,
        GRADIENTS,
        Infer::By(infer_gradients),
        agreement_gradient,
        &[A(0), A(1), A(2), CENTRED, CROSSED, MODE, I(1), O(0), O(1), No],
    ),
    node(
        "CIoUGrad",
        &["dy", "bboxes", "gtboxes", "atan_sub"],
        GRADIENTS,
        Infer::By(infer_gradients),
        agreement_gradient,
        &[A(0), A(1), A(2), CENTRED, CROSSED, MODE, I(2), O(0), O(1), A(3)],
    ),
];
