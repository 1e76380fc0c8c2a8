//! Non-maximum suppression by IR name, with as many rows of results as boxes are selected.
//!
//! Workspace: rectangles, and scores of one class, in `f64`; their order; and the selected ones.

use super::masking::{dense, expect_capacity, expect_fits};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::access::{OffsetAccess, PositionAccessMut};
use cairn_tensor::kernels::boxes::{Rectangle, Suppression, suppress};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::peek;
use cairn_tensor::{DType, Layout, Scalar};

/// The sizes and limits of a call. Arguments: boxes, scores, how many boxes to keep for each class, greatest overlap, least
/// score, whether boxes are by centre and size (absent for boxes of one class), out, a number that must be 0, how many rows the
/// output has (absent: as many as are selected), names of boxes (must be absent).
struct Options {
    batches: usize,
    classes: usize,
    count: usize,
    rule: Suppression,
    /// Whether boxes are by centre and size.
    centred: bool,
    /// Whether there is one class in one image, whose results are indices of boxes alone.
    has_one_class: bool,
    /// How many rows the output has whatever is selected: those after the last are -1.
    rows: Option<usize>,
}

impl Options {
    fn read(call: &Call<'_>) -> Result<Options> {
        let (boxes, scores, has_one_class) = (call.layout(0)?, call.layout(1)?, !call.has(5));
        call.expect_dtype(0, &boxes, &[DType::Float, DType::Float16])?;
        call.expect_same(1, &scores, 0, &boxes)?;
        let fits = match (has_one_class, boxes.dims(), scores.dims()) {
            (true, &[count, 4], &[others]) if count == others => Some((1, 1, count)),
            (false, &[batches, count, 4], &[samples, classes, others])
                if batches == samples && count == others =>
            {
                Some((batches, classes, count))
            }
            _ => None,
        };
        let Some((batches, classes, count)) = fits else {
            let (name, dims, sizes) = (call.parameter(0), boxes.dims(), scores.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?} are no boxes of scores {sizes:?}"
            )));
        };
        let number = |at: usize| match call.has(at) {
            true => call.number(at).map(|number| number.as_f64()),
            false => Ok(0.0),
        };
        let (most, overlap, score) = (number(2)?, number(3)?, number(4)?);
        if most.is_nan() || most < 0.0 {
            let name = call.parameter(2);
            return Err(Error::invalid(format!("{name} = {most} is below 0")));
        }
        if !(0.0..=1.0).contains(&overlap) {
            let name = call.parameter(3);
            return Err(Error::invalid(format!("{name} = {overlap} is outside 0 to 1")));
        }
        let score = if call.has(4) { score } else { f64::NEG_INFINITY };
        let centred = match call.int_or(5, 0)? {
            0 => false,
            1 => true,
            other => {
                let name = call.parameter(5);
                return Err(Error::invalid(format!("{name} = {other}: expected 0 or 1")));
            }
        };
        if call.int_or(7, 0)? != 0 {
            let (name, other) = (call.parameter(7), call.int(7)?);
            return Err(Error::invalid(format!("{name} = {other}: only 0 is supported")));
        }
        if call.has(9) {
            let name = call.parameter(9);
            return Err(Error::invalid(format!("{name} is not supported")));
        }
        let rows = match call.has(8) {
            false => None,
            true => Some(call.int(8)?),
        };
        let rows = match rows {
            Some(rows) if !(1..=i64::from(i32::MAX)).contains(&rows) => {
                let name = call.parameter(8);
                return Err(Error::invalid(format!("{name} = {rows} is no number of rows")));
            }
            rows => rows.map(|rows| rows as usize),
        };
        let rule = Suppression { most: (most as usize).min(count), overlap, score };
        Ok(Options { batches, classes, count, rule, centred, has_one_class, rows })
    }

    /// The sizes of an output with this many rows.
    fn dims(&self, rows: usize) -> Vec<usize> {
        if self.has_one_class { vec![rows] } else { vec![rows, 3] }
    }

    /// The most rows that there can be.
    fn max_rows(&self) -> usize {
        self.batches.saturating_mul(self.classes).saturating_mul(self.rule.most)
    }

    /// A rectangle of four numbers.
    fn rectangle(&self, [a, b, c, d]: [f64; 4]) -> Rectangle {
        if self.centred {
            return Rectangle::from_centre([a, b], [c, d]);
        }
        corner_rectangle([a, b, c, d])
    }
}

/// A rectangle of any two opposite corners.
fn corner_rectangle([a, b, c, d]: [f64; 4]) -> Rectangle {
    Rectangle { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] }
}

/// For the arguments see [`Options`].
fn suppression(call: &mut Call<'_>) -> Result<Plan> {
    let options = Options::read(call)?;
    let (boxes, scores, out) = (call.tensor(0)?, call.tensor(1)?, call.output(6)?);
    call.expect_dtype(6, &out, &[DType::Int32])?;
    match options.rows {
        Some(rows) => call.expect_dims(6, &out, &options.dims(rows))?,
        None => {
            expect_capacity(call, 6, &out, 0)?;
            call.touch_by_index(&out);
        }
    }
    let (name, index) = (call.parameter(6), call.caller_index(6));
    let width = if options.has_one_class { 1 } else { 3 };
    let boxes_f64 = call.scratch(DType::Double, boxes.dims());
    let class_scores = call.scratch(DType::Double, &[options.count]);
    let order = call.scratch(DType::Int64, &[options.count]);
    let selected = call.scratch(DType::Int64, &[options.rule.most]);
    let rows_out = call.scratch(DType::Int32, &[options.max_rows(), width]);
    call.plan(move |memory| {
        let [boxes_f64, class_scores, order, selected, rows_out] =
            [boxes_f64, class_scores, order, selected, rows_out].map(|one| memory.scratch(&one));
        copy(memory.parallel, boxes_f64, memory.view(&boxes));
        let corners = OffsetAccess::<f64>::new(boxes_f64.view());
        let (all, results) = (memory.view(&scores), PositionAccessMut::new(rows_out));
        let mut row = 0;
        for batch in 0..options.batches {
            let rectangle = |at: usize| {
                let first = (batch * options.count + at) * 4;
                options.rectangle([0, 1, 2, 3].map(|i| corners.get((first + i) as isize)))
            };
            for class in 0..options.classes {
                let part = match options.has_one_class {
                    true => *all.layout(),
                    false => all.layout().at(0, batch).at(0, class),
                };
                copy(
                    memory.parallel,
                    class_scores,
                    all.with_layout(part).expect("a part of the scores"),
                );
                let selected_count =
                    suppress(class_scores.view(), rectangle, options.rule, order, selected);
                let chosen = OffsetAccess::<i64>::new(selected.view());
                for at in 0..selected_count {
                    let index = chosen.get(at as isize);
                    match options.has_one_class {
                        true => results.set(&[row, 0], index),
                        false => {
                            results.put_line(&[row, 0], &[batch as i64, class as i64, index]);
                        }
                    }
                    row += 1;
                }
            }
        }
        let first = |row: usize| {
            let part = rows_out.layout().sliced(0, 0, row, 1).reshaped(&options.dims(row));
            let part = part.expect("contiguous rows");
            rows_out.view().with_layout(part).expect("a part of the results")
        };
        if let Some(rows) = options.rows {
            let row = row.min(rows);
            fill_scalar(memory.parallel, memory.out(&out), Scalar::from(-1));
            let part = out.with_layout(out.layout().sliced(0, 0, row, 1));
            copy(memory.parallel, memory.out(&part), first(row));
            return Ok(());
        }
        expect_fits(name, &out, row * width)?;
        let dims = options.dims(row);
        copy(memory.parallel, memory.out(&dense(&out, &dims)), first(row));
        (memory.sized)(index, &dims);
        Ok(())
    })
}

fn infer_selected(call: &Call<'_>) -> Result<Vec<Layout>> {
    let options = Options::read(call)?;
    let rows = options.rows.unwrap_or_else(|| options.max_rows());
    Ok(vec![Layout::contiguous(DType::Int32, &options.dims(rows))])
}

/// Suppression of boxes of one class, with limits that are read when it runs. Arguments: boxes, scores, how many to keep,
/// greatest overlap, least score, whether the output is padded to the number to keep, out, how many are selected,
/// the sigma of soft suppression (0, or absent), the scores of those that are selected (optional).
fn suppression_by_elements(call: &mut Call<'_>) -> Result<Plan> {
    expect_hard(call)?;
    let (out, valid) = (call.output(6)?, call.output(7)?);
    let selected_scores = call.optional_output(9)?;
    let outs: Vec<_> = [&out, &valid].into_iter().chain(&selected_scores).collect();
    let (boxes, scores) = (call.read(0, &outs)?, call.read(1, &outs)?);
    let limits = [2, 3, 4].map(|at| call.tensor(at));
    let [most, overlap, score] = limits;
    let limits = [most?, overlap?, score?];
    let count = expect_scored(call)?;
    for (at, one) in [(2, &limits[0]), (3, &limits[1]), (4, &limits[2]), (7, &valid)] {
        let types: &[DType] =
            if matches!(at, 2 | 7) { &[DType::Int32] } else { &[DType::Float, DType::Float16] };
        call.expect_dtype(at, one, types)?;
        if one.count() != 1 {
            let (name, dims) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!("{name} {dims:?}: expected one element")));
        }
    }
    let padded = call.flag(5)?;
    call.expect_dtype(6, &out, &[DType::Int32])?;
    expect_capacity(call, 6, &out, 0)?;
    if let Some(selected_scores) = &selected_scores {
        call.expect_same(9, selected_scores, 1, &scores)?;
        expect_capacity(call, 9, selected_scores, 0)?;
    }
    let names = [2, 3, 6, 9].map(|at| call.parameter(at));
    let (index, scores_index) = (call.caller_index(6), call.caller_index(9));
    let boxes_f64 = call.scratch(DType::Double, &[count, 4]);
    let class_scores = call.scratch(DType::Double, &[count]);
    let [order, selected] = [0; 2].map(|_| call.scratch(DType::Int64, &[count]));
    call.plan(move |memory| {
        let [most, overlap, score] = limits.map(|one| {
            peek::first(memory.view(&one)).expect("one element that is a number").as_f64()
        });
        if most < 0.0 {
            return Err(Fault(format!("{} = {most} is below 0", names[0])));
        }
        if !(0.0..=1.0).contains(&overlap) {
            return Err(Fault(format!("{} = {overlap} is outside 0 to 1", names[1])));
        }
        let [boxes_f64, class_scores, order, selected] =
            [boxes_f64, class_scores, order, selected].map(|one| memory.scratch(&one));
        copy(memory.parallel, boxes_f64, boxes.view(memory));
        copy(memory.parallel, class_scores, scores.view(memory));
        let corners = OffsetAccess::<f64>::new(boxes_f64.view());
        let rectangle =
            |at: usize| corner_rectangle([0, 1, 2, 3].map(|i| corners.get((at * 4 + i) as isize)));
        let rule = Suppression { most: (most as usize).min(count), overlap, score };
        let selected_count = suppress(class_scores.view(), rectangle, rule, order, selected);
        expect_fits(names[2], &out, selected_count)?;
        fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        let chosen = selected.layout().sliced(0, 0, selected_count, 1);
        let chosen = selected.view().with_layout(chosen).expect("a part of the results");
        copy(memory.parallel, memory.out(&dense(&out, &[selected_count])), chosen);
        fill_scalar(memory.parallel, memory.out(&valid), Scalar::from(selected_count as i64));
        (memory.sized)(index, &[if padded { out.count() } else { selected_count }]);
        let Some(selected_scores) = &selected_scores else { return Ok(()) };
        expect_fits(names[3], selected_scores, selected_count)?;
        fill_scalar(memory.parallel, memory.out(selected_scores), Scalar::from(0));
        let (values, indices) = (
            OffsetAccess::<f64>::new(class_scores.view()),
            OffsetAccess::<i64>::new(selected.view()),
        );
        let results =
            PositionAccessMut::new(memory.out(&dense(selected_scores, &[selected_count])));
        (0..selected_count).for_each(|at| {
            results.set(&[at], values.get(indices.get(at as isize) as isize));
        });
        let size = if padded { selected_scores.count() } else { selected_count };
        (memory.sized)(scores_index, &[size]);
        Ok(())
    })
}

/// Fails unless a box is either kept or not: soft suppression, which lowers scores, is not supported.
fn expect_hard(call: &Call<'_>) -> Result<()> {
    if !call.has(8) || call.number(8)?.as_f64() == 0.0 {
        return Ok(());
    }
    let (name, sigma) = (call.parameter(8), call.number(8)?.as_f64());
    Err(Error::invalid(format!("{name} = {sigma}: only 0 is supported")))
}

/// Fails unless there are boxes of four numbers with a score each; returns how many.
fn expect_scored(call: &Call<'_>) -> Result<usize> {
    let (boxes, scores) = (call.layout(0)?, call.layout(1)?);
    call.expect_dtype(0, &boxes, &[DType::Float, DType::Float16])?;
    call.expect_same(1, &scores, 0, &boxes)?;
    match (boxes.dims(), scores.dims()) {
        (&[count, 4], &[others]) if count == others => Ok(count),
        (dims, sizes) => {
            let name = call.parameter(0);
            Err(Error::invalid(format!("{name} {dims:?} are no boxes of scores {sizes:?}")))
        }
    }
}

fn infer_selected_and_count(call: &Call<'_>) -> Result<Vec<Layout>> {
    let mut rows = expect_scored(call)?;
    expect_hard(call)?;
    if call.flag(5)? {
        let most = call.number(2)?.as_f64();
        if !(0.0..=f64::from(i32::MAX)).contains(&most) {
            let name = call.parameter(2);
            return Err(Error::invalid(format!("{name} = {most} is no number of boxes")));
        }
        rows = most as usize;
    }
    Ok([&[rows][..], &[]].map(|dims| Layout::contiguous(DType::Int32, dims)).to_vec())
}

fn infer_selected_with_scores(call: &Call<'_>) -> Result<Vec<Layout>> {
    let mut outputs = infer_selected_and_count(call)?;
    outputs.insert(1, Layout::contiguous(call.layout(1)?.dtype, outputs[0].dims()));
    Ok(outputs)
}

const CENTRED: ArgSource = Attr("center_point_box", AttrDefault::Int(0));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "NonMaxSuppression",
        &["boxes", "scores", "max_output_size"],
        &["selected_indices"],
        Infer::By(infer_selected),
        suppression,
        &[A(0), A(1), A(2), Attr("iou_threshold", AttrDefault::Float(0.5)), No, No, O(0)],
    )
    .needs_values(&[2])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV2",
        &["boxes", "scores", "max_output_size", "iou_threshold"],
        &["selected_indices"],
        Infer::By(infer_selected),
        suppression,
        &[A(0), A(1), A(2), A(3), No, No, O(0)],
    )
    .needs_values(&[2, 3])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV3",
        &["boxes", "scores", "max_output_size", "iou_threshold", "score_threshold"],
        &["selected_indices"],
        Infer::By(infer_selected),
        suppression,
        &[A(0), A(1), A(2), A(3), A(4), No, O(0), Attr("offset", AttrDefault::Int(0))],
    )
    .needs_values(&[2, 3, 4])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV4",
        &["boxes", "scores", "max_output_size", "iou_threshold", "score_threshold"],
        &["selected_indices", "valid_outputs"],
        Infer::By(infer_selected_and_count),
        suppression_by_elements,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            Attr("pad_to_max_output_size", AttrDefault::Flag(false)),
            O(0),
            O(1),
        ],
    )
    .needs_values(&[2])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV5",
        &[
            "boxes",
            "scores",
            "max_output_size",
            "iou_threshold",
            "score_threshold",
            "soft_nms_sigma",
        ],
        &["selected_indices", "selected_scores", "valid_outputs"],
        Infer::By(infer_selected_with_scores),
        suppression_by_elements,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            Attr("pad_to_max_output_size", AttrDefault::Flag(false)),
            O(0),
            O(2),
            A(5),
            O(1),
            Attr("T", AttrDefault::None),
        ],
    )
    .needs_values(&[2, 5])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV6",
        &["boxes", "scores", "max_output_size?", "iou_threshold?", "score_threshold?"],
        &["selected_indices"],
        Infer::By(infer_selected),
        suppression,
        &[A(0), A(1), A(2), A(3), A(4), CENTRED, O(0), Attr("max_boxes_size", AttrDefault::Int(0))],
    )
    .needs_values(&[2, 3, 4])
    .sized_by_values(),
    node(
        "NonMaxSuppressionV7",
        &["boxes", "scores", "max_output_size?", "iou_threshold?", "score_threshold?", "index_id?"],
        &["selected_indices"],
        Infer::By(infer_selected),
        suppression,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            CENTRED,
            O(0),
            No,
            Attr("max_boxes_size", AttrDefault::Int(0)),
            A(5),
        ],
    )
    .needs_values(&[2, 3, 4]),
];
