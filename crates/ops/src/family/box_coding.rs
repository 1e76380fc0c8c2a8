//! Boxes of detectors as differences from anchors, and back; which anchors answer for a box.

use super::detection::expect_matrix;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::access::{OffsetAccess, OffsetAccessMut, PositionAccess};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::parallel::split;
use cairn_tensor::{DType, Layout, Scalar};

const REALS: &[DType] = &[DType::Float, DType::Float16];

/// Boxes that are worth another thread.
const BOXES: usize = 2048;

/// How near to a side of its cell YOLO lets a centre come, and how narrow a box may be against its anchor.
const YOLO_MARGIN: f64 = 1e-6;

/// Computes each box from two others. Their `N` numbers are `inner` elements apart. Arguments: anchors, others, out (at `to`).
fn code_boxes<const N: usize>(
    call: &mut Call<'_>,
    to: usize,
    inner: usize,
    compute: impl Fn([f64; N], [f64; N]) -> [f64; N] + Send + Sync + 'static,
) -> Result<Plan> {
    let (a, b, out) = (call.tensor(0)?, call.tensor(1)?, call.output(to)?);
    call.expect_dtype(0, &a, REALS)?;
    call.expect_same(1, &b, 0, &a)?;
    call.expect_same(to, &out, 0, &a)?;
    call.expect_dims(1, &b, a.dims())?;
    call.expect_dims(to, &out, a.dims())?;
    let [first, second, coded] = [0; 3].map(|_| call.scratch(DType::Double, a.dims()));
    let count = a.count() / N;
    call.plan(move |memory| {
        let [first, second, coded] = [first, second, coded].map(|one| memory.scratch(&one));
        copy(memory.parallel, first, memory.view(&a));
        copy(memory.parallel, second, memory.view(&b));
        let [first, second] = [first, second].map(|one| OffsetAccess::<f64>::new(one.view()));
        let results = OffsetAccessMut::<f64>::new(coded);
        split(memory.parallel, count, 1, BOXES, |range| {
            for at in range {
                let offset = |i: usize| ((at / inner * N + i) * inner + at % inner) as isize;
                let numbers =
                    |of: &OffsetAccess<'_, f64>| std::array::from_fn(|i| of.get(offset(i)));
                let result = compute(numbers(&first), numbers(&second));
                (0..N).for_each(|i| results.set(offset(i), result[i]));
            }
        });
        copy(memory.parallel, memory.out(&out), coded.view());
        Ok(())
    })
}

/// Four numbers of an attribute.
fn four(call: &Call<'_>, at: usize, otherwise: f64) -> Result<[f64; 4]> {
    if !call.has(at) {
        return Ok([otherwise; 4]);
    }
    let values = call.floats(at)?;
    values[..].try_into().map_err(|_| {
        Error::invalid(format!("{} = {values:?}: expected four numbers", call.parameter(at)))
    })
}

/// Centre and size of a box from corner to corner, both of which belong to it.
fn centre_and_size([x1, y1, x2, y2]: [f64; 4]) -> [f64; 4] {
    [(x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1 + 1.0, y2 - y1 + 1.0]
}

/// Arguments: anchors, boxes, means, deviations, out.
fn encode(call: &mut Call<'_>) -> Result<Plan> {
    let (means, deviations) = (four(call, 2, 0.0)?, four(call, 3, 1.0)?);
    if deviations.contains(&0.0) {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = {deviations:?} has a zero")));
    }
    expect_matrix(call, 0, &call.layout(0)?, 1, 4)?;
    code_boxes(call, 4, 1, move |anchor, target| {
        let ([px, py, pw, ph], [gx, gy, gw, gh]) =
            (centre_and_size(anchor), centre_and_size(target));
        let raw = [(gx - px) / pw, (gy - py) / ph, (gw / pw).ln(), (gh / ph).ln()];
        std::array::from_fn(|i| (raw[i] - means[i]) / deviations[i])
    })
}

/// Arguments: anchors, differences, means, deviations, height and width of the image, limit of the sizes' ratio, out.
fn decode(call: &mut Call<'_>) -> Result<Plan> {
    let (means, deviations) = (four(call, 2, 0.0)?, four(call, 3, 1.0)?);
    let (image, ratio) = (call.ints(4)?, call.float(5)?);
    let &[height, width] = &image[..] else {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {image:?}: expected height and width")));
    };
    if height < 1 || width < 1 || !(ratio > 0.0 && ratio.is_finite()) {
        let (sizes, limit) = (call.parameter(4), call.parameter(5));
        return Err(Error::invalid(format!(
            "{sizes} = {image:?} and {limit} = {ratio}: expected sizes of 1 or more, and more than 0"
        )));
    }
    let (most, right, bottom) = (ratio.ln().abs(), (width - 1) as f64, (height - 1) as f64);
    expect_matrix(call, 0, &call.layout(0)?, 1, 4)?;
    code_boxes(call, 6, 1, move |anchor, delta| {
        let [px, py, pw, ph] = centre_and_size(anchor);
        let [dx, dy, dw, dh] = std::array::from_fn(|i| delta[i] * deviations[i] + means[i]);
        let (gx, gy) = (px + pw * dx, py + ph * dy);
        let (gw, gh) = (pw * dw.clamp(-most, most).exp(), ph * dh.clamp(-most, most).exp());
        let inside = |value: f64, end: f64| value.clamp(0.0, end);
        [
            inside(gx - gw * 0.5 + 0.5, right),
            inside(gy - gh * 0.5 + 0.5, bottom),
            inside(gx + gw * 0.5 - 0.5, right),
            inside(gy + gh * 0.5 - 0.5, bottom),
        ]
    })
}

/// As mmdetection's coder of YOLO boxes. Arguments: anchors, boxes, strides, how exact, out.
fn encode_yolo(call: &mut Call<'_>) -> Result<Plan> {
    let how = call.text(3)?;
    if !matches!(how, "high_precision" | "high_performance") {
        let name = call.parameter(3);
        return Err(Error::invalid(format!(
            "{name} = {how:?}: expected high_precision or high_performance"
        )));
    }
    let (anchors, strides) = (call.layout(0)?, call.tensor(2)?);
    expect_matrix(call, 0, &anchors, 1, 4)?;
    call.expect_dtype(2, &strides, &[DType::Int32])?;
    call.expect_dims(2, &strides, &anchors.dims()[..1])?;
    let (a, b, out) = (call.tensor(0)?, call.tensor(1)?, call.output(4)?);
    call.expect_dtype(0, &a, REALS)?;
    call.expect_same(1, &b, 0, &a)?;
    call.expect_same(4, &out, 0, &a)?;
    call.expect_dims(1, &b, a.dims())?;
    call.expect_dims(4, &out, a.dims())?;
    let coded = call.scratch(DType::Double, a.dims());
    call.plan(move |memory| {
        let [a, b, strides] = [a, b, strides].map(|one| PositionAccess::new(memory.view(&one)));
        let coded = memory.scratch(&coded);
        let results = OffsetAccessMut::<f64>::new(coded);
        split(memory.parallel, out.dims()[0], 1, BOXES, |range| {
            for row in range {
                let stride = strides.get::<f64>(&[row]);
                let side = |of: &PositionAccess<'_>, i: usize| {
                    let [low, high] = [i, i + 2].map(|i| of.get::<f64>(&[row, i]));
                    ((low + high) * 0.5, high - low)
                };
                for i in 0..2 {
                    let ((anchor, length), (centre, size)) = (side(&a, i), side(&b, i));
                    let moved =
                        ((centre - anchor) / stride + 0.5).clamp(YOLO_MARGIN, 1.0 - YOLO_MARGIN);
                    results.set((row * 4 + i) as isize, moved);
                    results.set((row * 4 + i + 2) as isize, (size / length).max(YOLO_MARGIN).ln());
                }
            }
        });
        copy(memory.parallel, memory.out(&out), coded.view());
        Ok(())
    })
}

/// How many boxes each batch of `[batches, 5, boxes]` has; weights other than 1 are refused.
fn rotated_box_count(call: &Call<'_>) -> Result<usize> {
    let layout = call.layout(0)?;
    let &[_, 5, count] = layout.dims() else {
        let (name, dims) = (call.parameter(0), layout.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected [batches, 5, boxes]")));
    };
    if call.has(2) {
        let weights = call.floats(2)?;
        if weights.len() != 5 || weights.iter().any(|weight| *weight != 1.0) {
            let name = call.parameter(2);
            return Err(Error::invalid(format!(
                "{name} = {weights:?}: only five ones are supported, as no documentation says how others count"
            )));
        }
    }
    Ok(count)
}

/// Centre, size and angle of a box from corner to corner whose angle is in degrees; the result's is in radians.
fn centre_size_and_angle([x1, y1, x2, y2, angle]: [f64; 5]) -> [f64; 5] {
    [(x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1, y2 - y1, angle.to_radians()]
}

/// Arguments: anchors, boxes, weights, out.
fn encode_rotated(call: &mut Call<'_>) -> Result<Plan> {
    let count = rotated_box_count(call)?;
    code_boxes(call, 3, count.max(1), |anchor, target| {
        let ([px, py, pw, ph, pa], [gx, gy, gw, gh, ga]) =
            (centre_size_and_angle(anchor), centre_size_and_angle(target));
        [(gx - px) / pw, (gy - py) / ph, (gw / pw).ln(), (gh / ph).ln(), ga.tan() - pa.tan()]
    })
}

/// Arguments: anchors, differences, weights, out.
fn decode_rotated(call: &mut Call<'_>) -> Result<Plan> {
    let count = rotated_box_count(call)?;
    code_boxes(call, 3, count.max(1), |anchor, [dx, dy, dw, dh, da]| {
        let [px, py, pw, ph, pa] = centre_size_and_angle(anchor);
        let (x, y, w, h) = (px + pw * dx, py + ph * dy, pw * dw.exp(), ph * dh.exp());
        let angle = (pa.tan() + da).atan().to_degrees();
        [x - w * 0.5, y - h * 0.5, x + w * 0.5, y + h * 0.5, angle]
    })
}

/// What the flags of anchors are made of: height and width of the map, anchors in each of its cells.
fn anchor_grid(call: &Call<'_>) -> Result<[usize; 3]> {
    let (map, strides, anchors) = (call.ints(1)?, call.ints(2)?, call.int(3)?);
    if map.len() != 2 || strides.len() != 2 || strides.iter().any(|stride| *stride < 1) {
        let (name, other) = (call.parameter(1), call.parameter(2));
        return Err(Error::invalid(format!(
            "{name} = {map:?} and {other} = {strides:?}: expected two sizes and two strides of 1 or more"
        )));
    }
    let sizes = [map[0], map[1], anchors].map(|one| usize::try_from(one).unwrap_or(0));
    let count = sizes.iter().try_fold(1usize, |all, one| all.checked_mul(*one));
    if sizes.contains(&0) || count.is_none() {
        let (name, other) = (call.parameter(1), call.parameter(3));
        return Err(Error::invalid(format!(
            "{name} = {map:?} and {other} = {anchors}: expected 1 or more of each, and no more than memory has"
        )));
    }
    Ok(sizes)
}

/// 1 for the anchors of every cell in which the centre of a box lies. Arguments: boxes, sizes of the map, strides, anchors of a cell,
/// out.
fn flag_anchors(call: &mut Call<'_>) -> Result<Plan> {
    let [height, width, per_cell] = anchor_grid(call)?;
    let strides = call.ints(2)?;
    let (boxes, out) = (call.tensor(0)?, call.output(4)?);
    expect_matrix(call, 0, &boxes, 1, 4)?;
    call.expect_dtype(0, &boxes, REALS)?;
    call.expect_dtype(4, &out, &[DType::Uint8])?;
    call.skip_cast_check(4);
    call.expect_dims(4, &out, &[height * width * per_cell])?;
    let to = call.reshaped_output(out, &[height * width, per_cell]);
    call.plan(move |memory| {
        let (corners, out) = (PositionAccess::new(memory.view(&boxes)), to.out(memory));
        fill_scalar(memory.parallel, out, Scalar::from(0));
        for row in 0..boxes.dims()[0] {
            let cell = |i: usize, size: usize| {
                let [low, high] = [i, i + 2].map(|i| corners.get::<f32>(&[row, i]));
                let cell = ((low + high) * 0.5 / strides[i] as f32).floor();
                (cell.max(0.0) as usize).min(size - 1)
            };
            let at = cell(1, height) * width + cell(0, width);
            let anchors = out.with_layout(out.layout().at(0, at)).expect("a part of it");
            fill_scalar(memory.parallel, anchors, Scalar::from(1));
        }
        to.write_back(memory);
        Ok(())
    })
}

fn infer_flags(call: &Call<'_>) -> Result<Vec<Layout>> {
    let [height, width, per_cell] = anchor_grid(call)?;
    Ok(vec![Layout::contiguous(DType::Uint8, &[height * width * per_cell])])
}

const MEANS: ArgSource = Attr("means", AttrDefault::None);
const DEVIATIONS: ArgSource = Attr("stds", AttrDefault::None);
const WEIGHTS: ArgSource = Attr("weight", AttrDefault::None);

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "BoundingBoxEncode",
        &["anchor_box", "ground_truth_box"],
        &["delats"],
        Infer::Like(0),
        encode,
        &[A(0), A(1), MEANS, DEVIATIONS, O(0)],
    ),
    node(
        "BoundingBoxDecode",
        &["rois", "deltas"],
        &["bboxes"],
        Infer::Like(0),
        decode,
        &[
            A(0),
            A(1),
            MEANS,
            DEVIATIONS,
            Attr("max_shape", AttrDefault::Required),
            Attr("wh_ratio_clip", AttrDefault::Float(0.016)),
            O(0),
        ],
    ),
    node(
        "YoloBoxesEncode",
        &["anchor_boxes", "gt_bboxes", "stride"],
        &["encoded_bboxes"],
        Infer::Like(0),
        encode_yolo,
        &[A(0), A(1), A(2), Attr("performance_mode", AttrDefault::Text("high_precision")), O(0)],
    ),
    node(
        "RotatedBoxEncode",
        &["anchor_box", "gt_box"],
        &["y"],
        Infer::Like(0),
        encode_rotated,
        &[A(0), A(1), WEIGHTS, O(0)],
    ),
    node(
        "RotatedBoxDecode",
        &["anchor_box", "deltas"],
        &["y"],
        Infer::Like(0),
        decode_rotated,
        &[A(0), A(1), WEIGHTS, O(0)],
    ),
    node(
        "AnchorResponseFlags",
        &["gt_bboxes"],
        &["flags"],
        Infer::By(infer_flags),
        flag_anchors,
        &[
            A(0),
            Attr("featmap_size", AttrDefault::Required),
            Attr("strides", AttrDefault::Required),
            Attr("num_base_anchors", AttrDefault::Required),
            O(0),
        ],
    ),
];
