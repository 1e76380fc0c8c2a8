//! Which boxes of several classes are kept, and of those the best of all classes.
//!
//! Workspace, in `f64`: the boxes and scores of one class, and what every class keeps; orders of both.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::access::{
    OffsetAccess, OffsetAccessMut, PositionAccess, PositionAccessMut,
};
use cairn_tensor::kernels::boxes::{Rectangle, keep_best};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar};

/// Unions of boxes count as no less than this.
const LEAST_UNION: f64 = 1e-12;

/// The boxes of a call. Arguments: boxes, scores, windows, how many boxes count, score, overlap, the most of a class, the
/// most in all, whether coordinates become those of the window, whether boxes lie the other way, the size of the image
/// (which is reserved, and not read), kept boxes, their scores, their classes, how many they are.
#[derive(Clone, Copy)]
struct Classes {
    batches: usize,
    classes: usize,
    count: usize,
    /// Whether every class has boxes of its own.
    has_own_boxes: bool,
    is_transposed: bool,
    score: f64,
    overlap: f64,
    most: usize,
    total: usize,
    is_reframed: bool,
}

impl Classes {
    fn read(call: &Call<'_>) -> Result<Classes> {
        let (boxes, scores) = (call.layout(0)?, call.layout(1)?);
        call.expect_dtype(0, &boxes, &[DType::Float, DType::Float16])?;
        call.expect_same(1, &scores, 0, &boxes)?;
        let is_transposed = call.flag(9)?;
        let fits = match (is_transposed, boxes.dims(), scores.dims()) {
            (false, &[b, n, q, 4], &[samples, others, classes])
            | (true, &[b, q, 4, n], &[samples, others, classes])
                if b == samples && n == others && (q == 1 || q == classes) =>
            {
                Some((b, n, q > 1, classes))
            }
            _ => None,
        };
        let Some((batches, count, has_own_boxes, classes)) = fits else {
            let (name, dims, sizes) = (call.parameter(0), boxes.dims(), scores.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?} are no boxes of scores {sizes:?}"
            )));
        };
        let (score, overlap) = (call.float(4)?, call.float(5)?);
        if !(0.0..=1.0).contains(&overlap) {
            let name = call.parameter(5);
            return Err(Error::invalid(format!("{name} = {overlap} is outside 0 to 1")));
        }
        let number = |at: usize| -> Result<usize> {
            let value = call.int(at)?;
            match usize::try_from(value).ok().filter(|value| (1..=1 << 31).contains(value)) {
                Some(value) => Ok(value),
                None => {
                    let name = call.parameter(at);
                    Err(Error::invalid(format!("{name} = {value} is no number of boxes")))
                }
            }
        };
        let (most, total, is_reframed) = (number(6)?.min(count), number(7)?, call.flag(8)?);
        if is_reframed && !call.has(2) {
            let (name, other) = (call.parameter(8), call.parameter(2));
            return Err(Error::invalid(format!("{name} = true needs {other}, which is absent")));
        }
        Ok(Classes {
            batches,
            classes,
            count,
            has_own_boxes,
            is_transposed,
            score,
            overlap,
            most,
            total,
            is_reframed,
        })
    }

    fn outputs(&self, dtype: DType) -> [Layout; 4] {
        let (batches, total) = (self.batches, self.total);
        [
            Layout::contiguous(dtype, &[batches, total, 4]),
            Layout::contiguous(dtype, &[batches, total]),
            Layout::contiguous(dtype, &[batches, total]),
            Layout::contiguous(DType::Int32, &[batches]),
        ]
    }

    /// The boxes of one class in a layout of all.
    fn boxes_of(&self, all: &Layout, batch: usize, class: usize) -> Layout {
        let ordered = if self.is_transposed { all.permuted(&[0, 3, 1, 2]) } else { *all };
        ordered.at(0, batch).at(1, if self.has_own_boxes { class } else { 0 })
    }
}

/// A part of a picture that boxes are cut to, by two corners.
type Window = [f64; 4];

/// Windows and counts of each batch, where there are any.
struct Limits {
    windows: Option<UnaliasedInput>,
    counts: Option<UnaliasedInput>,
}

impl Limits {
    fn window(&self, memory: &Memory<'_>, batch: usize) -> Option<Window> {
        let corners = PositionAccess::new(self.windows.as_ref()?.prepared(memory));
        Some([0, 1, 2, 3].map(|at| corners.get::<f64>(&[batch, at])))
    }

    /// How many boxes of a batch count.
    fn count(&self, memory: &Memory<'_>, batch: usize, count: usize) -> usize {
        let Some(counts) = &self.counts else { return count };
        let have = PositionAccess::new(counts.prepared(memory)).get::<i64>(&[batch]);
        usize::try_from(have).unwrap_or(0).min(count)
    }
}

/// Cuts the boxes of a batch to a window, and counts their coordinates from it, in its sizes, where `is_reframed`. Boxes
/// that have no area are never kept: their scores become the least.
fn cut(
    boxes: &OffsetAccessMut<'_, f64>,
    scores: &OffsetAccessMut<'_, f64>,
    count: usize,
    window: Option<Window>,
    is_reframed: bool,
) {
    for at in 0..count as isize {
        let mut corners = [0, 1, 2, 3].map(|i| boxes.get(at * 4 + i));
        if let Some(window) = window {
            for i in 0..2 {
                corners[i] = corners[i].max(window[i]);
                corners[2 + i] = corners[2 + i].min(window[2 + i]);
            }
            if is_reframed {
                for i in 0..4 {
                    corners[i] = (corners[i] - window[i % 2]) / (window[2 + i % 2] - window[i % 2]);
                }
            }
            (0..4).for_each(|i| boxes.set(at * 4 + i as isize, corners[i]));
        }
        if !(corners[2] > corners[0] && corners[3] > corners[1]) {
            scores.set(at, f64::NEG_INFINITY);
        }
    }
}

/// See [`Classes`] for the arguments.
fn class_suppression(call: &mut Call<'_>) -> Result<Plan> {
    let rule = Classes::read(call)?;
    let Classes { batches, classes, count, most, .. } = rule;
    let dtype = call.layout(0)?.dtype;
    let outs = [call.output(11)?, call.output(12)?, call.output(13)?, call.output(14)?];
    for (at, (out, expected)) in outs.iter().zip(rule.outputs(dtype)).enumerate() {
        call.expect_dtype(11 + at, out, &[expected.dtype])?;
        call.expect_dims(11 + at, out, expected.dims())?;
    }
    let apart: Vec<_> = outs.iter().collect();
    let (boxes, scores) = (call.read(0, &apart)?, call.read(1, &apart)?);
    let windows = if call.has(2) { Some(call.read(2, &apart)?) } else { None };
    if let Some(windows) = &windows {
        call.expect_same(2, windows, 0, &boxes)?;
        call.expect_dims(2, windows, &[batches, 4])?;
    }
    let counts = if call.has(3) { Some(call.read(3, &apart)?) } else { None };
    if let Some(counts) = &counts {
        call.expect_dtype(3, counts, &[DType::Int32])?;
        call.expect_dims(3, counts, &[batches])?;
    }
    let limits = Limits { windows, counts };
    let found = classes.saturating_mul(most);
    let known = call.scratch(DType::Double, &[count, 4]);
    let line = call.scratch(DType::Double, &[count]);
    let all = call.scratch(DType::Double, &[found, 6]);
    let best = call.scratch(DType::Double, &[found]);
    let orders = [count, most, found, found].map(|size| call.scratch(DType::Int64, &[size]));
    call.plan(move |memory| {
        boxes.prepare(memory);
        scores.prepare(memory);
        limits.windows.iter().chain(&limits.counts).for_each(|one| one.prepare(memory));
        outs.iter().for_each(|out| fill_scalar(memory.parallel, memory.out(out), Scalar::from(0)));
        let [known, line, all, best] = [known, line, all, best].map(|one| memory.scratch(&one));
        let [order, kept, best_order, best_kept] = orders.map(|one| memory.scratch(&one));
        let [to_boxes, to_scores, to_classes, to_numbers] =
            outs.map(|out| PositionAccessMut::new(memory.out(&out)));
        let (corners, values) = (OffsetAccessMut::<f64>::new(known), OffsetAccessMut::new(line));
        let (rows, ranks) = (OffsetAccessMut::<f64>::new(all), OffsetAccessMut::new(best));
        let rectangle = |at: usize| {
            let value = |i: usize| corners.get((at * 4 + i) as isize);
            Rectangle { low: [value(0), value(1)], high: [value(2), value(3)] }
        };
        let hides = |one: &Rectangle, other: &Rectangle| {
            let area = |one: &Rectangle| one.common(one, 0.0);
            let common = one.common(other, 0.0);
            common / (area(one) + area(other) - common).max(LEAST_UNION) > rule.overlap
        };
        for batch in 0..batches {
            let window = limits.window(memory, batch);
            let is_empty = |window: Window| !(window[2] > window[0] && window[3] > window[1]);
            if rule.is_reframed && window.is_some_and(is_empty) {
                continue;
            }
            let valid = limits.count(memory, batch, count);
            let mut row = 0isize;
            for class in 0..classes {
                let own = boxes.with_layout(rule.boxes_of(&boxes, batch, class));
                copy(memory.parallel, known, own.prepared(memory));
                let own = scores.with_layout(scores.at(0, batch).at(1, class));
                copy(memory.parallel, line, own.prepared(memory));
                (valid..count).for_each(|at| values.set(at as isize, f64::NEG_INFINITY));
                cut(&corners, &values, count, window, rule.is_reframed);
                let limits = (rule.score, most);
                let many = keep_best(line.view(), limits, rectangle, hides, order, kept);
                let chosen = OffsetAccess::<i64>::new(kept.view());
                for at in 0..many as isize {
                    let chosen = chosen.get(at) as isize;
                    ranks.set(row, values.get(chosen));
                    rows.set(row * 6, values.get(chosen));
                    rows.set(row * 6 + 1, class as f64);
                    (0..4).for_each(|i| rows.set(row * 6 + 2 + i, corners.get(chosen * 4 + i)));
                    row += 1;
                }
            }
            let part = best.layout().sliced(0, 0, row as usize, 1);
            let ranked = best.view().with_layout(part).expect("a part of the results");
            let (any, limits) = (|_: usize| (), (f64::NEG_INFINITY, rule.total));
            let many = keep_best(ranked, limits, any, |_, _| false, best_order, best_kept);
            let chosen = OffsetAccess::<i64>::new(best_kept.view());
            for at in 0..many {
                let value = |i: isize| rows.get(chosen.get(at as isize) as isize * 6 + i);
                to_scores.set(&[batch, at], value(0));
                to_classes.set(&[batch, at], value(1));
                to_boxes.put_line(&[batch, at, 0], &[2, 3, 4, 5].map(value));
            }
            to_numbers.set(&[batch], many as i64);
        }
        Ok(())
    })
}

fn infer_classes(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(Classes::read(call)?.outputs(call.layout(0)?.dtype).to_vec())
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "BatchMultiClassNonMaxSuppression",
    &["boxes", "scores", "clip_window?", "num_valid_boxes?"],
    &["nmsed_boxes", "nmsed_scores", "nmsed_classes", "nmsed_num"],
    Infer::By(infer_classes),
    class_suppression,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        Attr("score_threshold", AttrDefault::Required),
        Attr("iou_threshold", AttrDefault::Required),
        Attr("max_size_per_class", AttrDefault::Required),
        Attr("max_total_size", AttrDefault::Required),
        Attr("change_coordinate_frame", AttrDefault::Flag(false)),
        Attr("transpose_box", AttrDefault::Flag(false)),
        Attr("image_size", AttrDefault::None),
        O(0),
        O(1),
        O(2),
        O(3),
    ],
)];
