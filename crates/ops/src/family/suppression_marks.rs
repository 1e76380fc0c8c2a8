//! Which of many boxes are kept, as a mark for each; and of boxes that are turned.
//!
//! Workspace: boxes and their scores in `f64`, an order of them, and which of them are kept.

use super::masking::{dense, expect_capacity, expect_fits};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::access::{OffsetAccess, PositionAccessMut};
use cairn_tensor::kernels::boxes::{Rectangle, Suppression, keep_best, suppress};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::rotated::RotatedRectangle;
use cairn_tensor::{DType, Layout, Scalar};

/// Fails for an overlap that is no share.
fn expect_share(call: &Call<'_>, at: usize) -> Result<f64> {
    let overlap = call.float(at)?;
    if (0.0..=1.0).contains(&overlap) {
        return Ok(overlap);
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {overlap} is outside 0 to 1")))
}

/// How many boxes there are in rows of two corners and a score, which are the first of 5 numbers, or of 8.
fn expect_scored_rows(call: &Call<'_>) -> Result<usize> {
    let rows = call.layout(0)?;
    call.expect_dtype(0, &rows, &[DType::Float, DType::Float16, DType::Bf16])?;
    match rows.dims() {
        &[count, 5 | 8] => Ok(count),
        dims => {
            let name = call.parameter(0);
            Err(Error::invalid(format!("{name} {dims:?}: expected rows of 5 or 8 numbers")))
        }
    }
}

/// Arguments: rows of corners and score, overlap, the rows again, their numbers, whether each is kept.
fn suppression_mask(call: &mut Call<'_>) -> Result<Plan> {
    let count = expect_scored_rows(call)?;
    let overlap = expect_share(call, 1)?;
    let outs = [call.output(2)?, call.output(3)?, call.output(4)?];
    let [same, numbers, mask] = outs;
    let rows = call.read(0, &[&same, &numbers, &mask])?;
    call.expect_same(2, &same, 0, &rows)?;
    call.expect_dims(2, &same, &[count, 5])?;
    for (at, out, dtype) in [(3, &numbers, DType::Int32), (4, &mask, DType::Uint8)] {
        call.expect_dtype(at, out, &[dtype])?;
        call.expect_dims(at, out, &[count])?;
    }
    let known = call.scratch(DType::Double, &[count, 4]);
    let line = call.scratch(DType::Double, &[count]);
    let [order, kept] = [0; 2].map(|_| call.scratch(DType::Int64, &[count]));
    call.plan(move |memory| {
        let [known, line, order, kept] = [known, line, order, kept].map(|one| memory.scratch(&one));
        let rows = rows.view(memory);
        let part = |layout: Layout| rows.with_layout(layout).expect("a part of the rows");
        copy(memory.parallel, known, part(rows.layout().sliced(1, 0, 4, 1)));
        copy(memory.parallel, line, part(rows.layout().at(1, 4)));
        copy(memory.parallel, memory.out(&same), part(rows.layout().sliced(1, 0, 5, 1)));
        fill_scalar(memory.parallel, memory.out(&mask), Scalar::from(0));
        let corners = OffsetAccess::<f64>::new(known.view());
        let rectangle = |at: usize| {
            let value = |i: usize| corners.get((at * 4 + i) as isize);
            Rectangle { low: [value(0), value(1)], high: [value(2), value(3)] }
        };
        let rule = Suppression { most: count, overlap, score: f64::NEG_INFINITY };
        let many = suppress(line.view(), rectangle, rule, order, kept);
        let (chosen, marks) =
            (OffsetAccess::<i64>::new(kept.view()), PositionAccessMut::new(memory.out(&mask)));
        (0..many).for_each(|at| marks.set(&[chosen.get(at as isize) as usize], 1i64));
        let own = PositionAccessMut::new(memory.out(&numbers));
        (0..count).for_each(|at| own.set(&[at], at as i64));
        Ok(())
    })
}

fn infer_mask(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (count, dtype) = (expect_scored_rows(call)?, call.layout(0)?.dtype);
    Ok(vec![
        Layout::contiguous(dtype, &[count, 5]),
        Layout::contiguous(DType::Int32, &[count]),
        Layout::contiguous(DType::Uint8, &[count]),
    ])
}

/// How many boxes there are, each with centre, sizes, angle in degrees and a score.
fn expect_turned(call: &Call<'_>) -> Result<usize> {
    let (boxes, scores) = (call.layout(0)?, call.layout(1)?);
    call.expect_dtype(0, &boxes, &[DType::Float, DType::Float16])?;
    call.expect_same(1, &scores, 0, &boxes)?;
    match (boxes.dims(), scores.dims()) {
        (&[count, 5], &[others]) if count == others => Ok(count),
        (dims, sizes) => {
            let name = call.parameter(0);
            Err(Error::invalid(format!("{name} {dims:?} are no boxes of scores {sizes:?}")))
        }
    }
}

/// Arguments: boxes, scores, labels (one for all), overlap, score, the most (any number when negative), how boxes are
/// written (0: centre, sizes, angle), kept boxes, their numbers.
fn rotated_suppression(call: &mut Call<'_>) -> Result<Plan> {
    let count = expect_turned(call)?;
    let labels = call.layout(2)?;
    if labels.count() != 1 {
        let (name, dims) = (call.parameter(2), labels.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?}: only one label for all boxes is supported"
        )));
    }
    let (overlap, least, most) = (expect_share(call, 3)?, call.float(4)?, call.int(5)?);
    if call.int(6)? != 0 {
        let (name, mode) = (call.parameter(6), call.int(6)?);
        return Err(Error::invalid(format!(
            "{name} = {mode}: only 0 (centre, sizes and angle) is supported"
        )));
    }
    let (chosen, numbers) = (call.output(7)?, call.output(8)?);
    let boxes = call.read(0, &[&chosen, &numbers])?;
    let scores = call.read(1, &[&chosen, &numbers])?;
    call.expect_same(7, &chosen, 0, &boxes)?;
    call.expect_dtype(8, &numbers, &[DType::Int32])?;
    for (at, out) in [(7, &chosen), (8, &numbers)] {
        expect_capacity(call, at, out, 0)?;
        call.touch_by_index(out);
    }
    let most = usize::try_from(most).map_or(count, |most| most.min(count));
    let names = [7, 8].map(|at| call.parameter(at));
    let indices = [7, 8].map(|at| call.caller_index(at));
    let known = call.scratch(DType::Double, &[count, 5]);
    let line = call.scratch(DType::Double, &[count]);
    let [order, kept] = [0; 2].map(|_| call.scratch(DType::Int64, &[count]));
    call.plan(move |memory| {
        let [known, line, order, kept] = [known, line, order, kept].map(|one| memory.scratch(&one));
        copy(memory.parallel, known, boxes.view(memory));
        copy(memory.parallel, line, scores.view(memory));
        let values = OffsetAccess::<f64>::new(known.view());
        let turned = |at: usize| {
            let [x, y, w, h, angle] = [0, 1, 2, 3, 4].map(|i| values.get((at * 5 + i) as isize));
            RotatedRectangle { centre: [x, y], size: [w, h], angle: angle.to_radians() }
        };
        let hides = |kept: &RotatedRectangle, here: &RotatedRectangle| here.overlap(kept) > overlap;
        let many = keep_best(line.view(), (least, most), turned, hides, order, kept);
        expect_fits(names[0], &chosen, many * 5)?;
        expect_fits(names[1], &numbers, many)?;
        let part = kept.view().with_layout(kept.layout().sliced(0, 0, many, 1));
        let part = part.expect("a part of the results");
        copy(memory.parallel, memory.out(&dense(&numbers, &[many])), part);
        let rows = memory.out(&dense(&chosen, &[many, 5]));
        let found = OffsetAccess::<i64>::new(kept.view());
        for at in 0..many {
            let row = boxes.at(0, found.get(at as isize) as usize);
            let to = rows.with_layout(rows.layout().at(0, at)).expect("a row");
            copy(memory.parallel, to, boxes.with_layout(row).prepared(memory));
        }
        (memory.sized)(indices[0], &[many, 5]);
        (memory.sized)(indices[1], &[many]);
        Ok(())
    })
}

fn infer_turned(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (count, dtype) = (expect_turned(call)?, call.layout(0)?.dtype);
    Ok(vec![Layout::contiguous(dtype, &[count, 5]), Layout::contiguous(DType::Int32, &[count])])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "NMSWithMask",
        &["box_scores"],
        &["selected_boxes", "selected_idx", "selected_mask"],
        Infer::By(infer_mask),
        suppression_mask,
        &[A(0), Attr("iou_threshold", AttrDefault::Float(0.5)), O(0), O(1), O(2)],
    ),
    node(
        "RotatedNMS",
        &["boxes", "scores", "labels"],
        &["selected_detections", "keep_indices"],
        Infer::By(infer_turned),
        rotated_suppression,
        &[
            A(0),
            A(1),
            A(2),
            Attr("iou_threshold", AttrDefault::Required),
            Attr("score_threshold", AttrDefault::Float(0.0)),
            Attr("max_output_size", AttrDefault::Int(-1)),
            Attr("mode", AttrDefault::Required),
            O(0),
            O(1),
        ],
    )
    .sized_by_values(),
];
