//! Detection of objects: overlaps of rectangles (IoU), non-maximum suppression, regions of images (RoI align).

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{OffsetAccess, OffsetAccessMut, PositionAccess};
use cairn_tensor::kernels::agreement::Agreement;
use cairn_tensor::kernels::boxes::{Overlap, Rectangle, Suppression, suppress};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::region::{RegionBounds, Regions};
use cairn_tensor::parallel::split;
use cairn_tensor::{DType, Layout, Scalar};

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Threads are used where each gets at least so many pairs of rectangles.
const PAIRS_PER_THREAD: usize = 4096;

/// The measure of overlap that a mode names: iou (intersection over union) or iof (over the second rectangle).
pub(super) fn overlap(call: &Call<'_>, at: usize) -> Result<Overlap> {
    match call.text(at)? {
        "iou" => Ok(Overlap::OverUnion),
        "iof" => Ok(Overlap::OverSecond),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other:?}: expected iou or iof")))
        }
    }
}

/// Fails unless a tensor has two dimensions, of which `dim` has this size.
pub(super) fn expect_matrix(
    call: &Call<'_>,
    at: usize,
    layout: &Layout,
    dim: usize,
    size: usize,
) -> Result<()> {
    if layout.rank() == 2 && layout.dims()[dim] == size {
        return Ok(());
    }
    let (name, dims) = (call.parameter(at), layout.dims());
    Err(Error::invalid(format!(
        "{name} {dims:?}: expected two dimensions with {size} in dimension {dim}"
    )))
}

/// Arguments: rectangles, others, mode, extra length of sides, whether each is compared with the other at its index alone,
/// out, whether out has a row for each of the others (no when absent).
fn iou(call: &mut Call<'_>) -> Result<Plan> {
    let (a, b, out) = (call.tensor(0)?, call.tensor(1)?, call.output(5)?);
    let mode = overlap(call, 2)?;
    let (extra, aligned) = (call.float(3)?, call.flag(4)?);
    call.expect_dtype(0, &a, REALS)?;
    call.expect_same(1, &b, 0, &a)?;
    call.expect_same(5, &out, 0, &a)?;
    expect_matrix(call, 0, &a, 1, 4)?;
    expect_matrix(call, 1, &b, 1, 4)?;
    if extra < 0.0 || !extra.is_finite() {
        let name = call.parameter(3);
        return Err(Error::invalid(format!(
            "{name} = {extra}: expected a finite number, not negative"
        )));
    }
    let (rows, others) = (a.dims()[0], b.dims()[0]);
    if aligned {
        call.expect_dims(1, &b, a.dims())?;
    }
    let columns = if aligned { 1 } else { others };
    let out = match !aligned && call.flag_or(6, false)? {
        true => {
            call.expect_dims(5, &out, &[columns, rows])?;
            out.with_layout(out.transposed(0, 1))
        }
        false => out,
    };
    call.expect_dims(5, &out, &[rows, columns])?;
    let [first, second] = [rows, others].map(|count| call.scratch(DType::Double, &[count, 4]));
    let overlaps = call.scratch(DType::Double, &[rows, columns]);
    call.plan(move |memory| {
        let [first, second, overlaps] = [first, second, overlaps].map(|one| memory.scratch(&one));
        copy(memory.parallel, first, memory.view(&a));
        copy(memory.parallel, second, memory.view(&b));
        let [first, second] = [first, second].map(|one| OffsetAccess::<f64>::new(one.view()));
        let rectangle = |cells: &OffsetAccess<'_, f64>, at: usize| {
            let value = |i: isize| cells.get(at as isize * 4 + i);
            Rectangle { low: [value(0), value(1)], high: [value(2), value(3)] }
        };
        let results = OffsetAccessMut::<f64>::new(overlaps);
        split(memory.parallel, rows, 1, (PAIRS_PER_THREAD / columns.max(1)).max(1), |range| {
            for row in range {
                let one = rectangle(&first, row);
                for column in 0..columns {
                    let other = rectangle(&second, if aligned { row } else { column });
                    let offset = (row * columns + column) as isize;
                    results.set(offset, one.overlap(&other, mode, extra));
                }
            }
        });
        copy(memory.parallel, memory.out(&out), overlaps.view());
        Ok(())
    })
}

/// CIoU. Arguments: rectangles, others, whether they are by centre and size, whether each is compared with all, mode, out,
/// differences of angles.
fn complete_iou(call: &mut Call<'_>) -> Result<Plan> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    let (out, angles) = (call.output(5)?, call.output(6)?);
    let (centred, mode) = (call.flag(2)?, overlap(call, 4)?);
    if call.flag(3)? {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = true is not supported")));
    }
    call.expect_dtype(0, &a, &[DType::Float, DType::Float16])?;
    expect_matrix(call, 0, &a, 0, 4)?;
    call.expect_dims(1, &b, a.dims())?;
    call.expect_same(1, &b, 0, &a)?;
    let count = a.dims()[1];
    if count % 1024 != 0 {
        let (name, dims) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected a multiple of 1024 boxes")));
    }
    for (at, one) in [(5, &out), (6, &angles)] {
        call.expect_dims(at, one, &[1, count])?;
        call.expect_same(at, one, 0, &a)?;
    }
    let [first, second] = [0; 2].map(|_| call.scratch(DType::Double, &[4, count]));
    let [overlaps, rotation] = [0; 2].map(|_| call.scratch(DType::Double, &[1, count]));
    call.plan(move |memory| {
        let [first, second, overlaps, rotation] =
            [first, second, overlaps, rotation].map(|one| memory.scratch(&one));
        copy(memory.parallel, first, memory.view(&a));
        copy(memory.parallel, second, memory.view(&b));
        let [first, second] = [first, second].map(|one| OffsetAccess::<f64>::new(one.view()));
        let rectangle = |cells: &OffsetAccess<'_, f64>, at: usize| {
            let value = |i: usize| cells.get((i * count + at) as isize);
            let (one, two) = ([value(0), value(1)], [value(2), value(3)]);
            if centred {
                Rectangle::from_centre(one, two)
            } else {
                Rectangle { low: one, high: two }
            }
        };
        let (results, angle_results) =
            (OffsetAccessMut::<f64>::new(overlaps), OffsetAccessMut::<f64>::new(rotation));
        split(memory.parallel, count, 1, PAIRS_PER_THREAD, |range| {
            for at in range {
                let (one, other) = (rectangle(&first, at), rectangle(&second, at));
                let result = Agreement::Complete.of(&one, &other, mode);
                results.set(at as isize, result.measure);
                angle_results.set(at as isize, result.rotation);
            }
        });
        copy(memory.parallel, memory.out(&out), overlaps.view());
        copy(memory.parallel, memory.out(&angles), rotation.view());
        Ok(())
    })
}

/// Arguments: boxes, scores, how many boxes to keep for each class, greatest overlap, least score, whether boxes are by
/// centre and size, out.
fn non_max_suppression(call: &mut Call<'_>) -> Result<Plan> {
    let (boxes, scores, out) = (call.tensor(0)?, call.tensor(1)?, call.output(6)?);
    call.expect_dtype(0, &boxes, &[DType::Float, DType::Float16])?;
    call.expect_same(1, &scores, 0, &boxes)?;
    let (&[batches, count, 4], &[samples, classes, others]) = (boxes.dims(), scores.dims()) else {
        let (name, dims, sizes) = (call.parameter(0), boxes.dims(), scores.dims());
        return Err(Error::invalid(format!("{name} {dims:?} are no boxes of scores {sizes:?}")));
    };
    call.expect_dims(1, &scores, &[batches, classes, count])?;
    debug_assert!(samples == batches && others == count);
    call.expect_dtype(6, &out, &[DType::Int32])?;
    let max_boxes = if call.has(2) { call.ints(2)?.first().copied().unwrap_or(0) } else { 0 };
    if !(0..=700).contains(&max_boxes) {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {max_boxes} is outside 0 to 700")));
    }
    let mut limits = [0.0; 2];
    for (limit, at) in limits.iter_mut().zip([3, 4]) {
        if call.has(at) {
            *limit = call.floats(at)?.first().copied().unwrap_or(0.0);
        }
        if !(0.0..=1.0).contains(limit) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!("{name} = {limit} is outside 0 to 1")));
        }
    }
    let centred = match call.int(5)? {
        0 => false,
        1 => true,
        other => {
            let name = call.parameter(5);
            return Err(Error::invalid(format!("{name} = {other}: expected 0 or 1")));
        }
    };
    let max_boxes = (max_boxes as usize).min(count);
    if out.rank() != 2 || out.dims()[1] != 3 {
        let (name, dims) = (call.parameter(6), out.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected rows of three numbers")));
    }
    let rows = out.dims()[0];
    let rule = Suppression { most: max_boxes, overlap: limits[0], score: limits[1] };
    let boxes_f64 = call.scratch(DType::Double, &[batches, count, 4]);
    let class_scores = call.scratch(DType::Double, &[count]);
    let (order, selected) =
        (call.scratch(DType::Int64, &[count]), call.scratch(DType::Int64, &[max_boxes]));
    let rows_out = call.scratch(DType::Int32, &[rows, 3]);
    call.plan(move |memory| {
        let [boxes_f64, class_scores, order, selected, rows_out] =
            [boxes_f64, class_scores, order, selected, rows_out].map(|one| memory.scratch(&one));
        copy(memory.parallel, boxes_f64, memory.view(&boxes));
        fill_scalar(memory.parallel, rows_out, Scalar::from(-1));
        let (corners, results) =
            (OffsetAccess::<f64>::new(boxes_f64.view()), OffsetAccessMut::<i32>::new(rows_out));
        let all = memory.view(&scores);
        let mut row = 0;
        for batch in 0..batches {
            let rectangle = |at: usize| {
                let value = |i: usize| corners.get(((batch * count + at) * 4 + i) as isize);
                let (one, two) = ([value(0), value(1)], [value(2), value(3)]);
                if centred {
                    Rectangle::from_centre(one, two)
                } else {
                    Rectangle { low: one, high: two }
                }
            };
            for class in 0..classes {
                let part = all.layout().at(0, batch).at(0, class);
                copy(
                    memory.parallel,
                    class_scores,
                    all.with_layout(part).expect("a part of the scores"),
                );
                let selected_count =
                    suppress(class_scores.view(), rectangle, rule, order, selected);
                let selected_boxes = OffsetAccess::<i64>::new(selected.view());
                for at in 0..selected_count.min(rows - row) {
                    let numbers = [batch as i64, class as i64, selected_boxes.get(at as isize)];
                    for (i, number) in numbers.iter().enumerate() {
                        results.set(((row + at) * 3 + i) as isize, *number as i32);
                    }
                }
                row = (row + selected_count).min(rows);
            }
        }
        copy(memory.parallel, memory.out(&out), rows_out.view());
        Ok(())
    })
}

/// Arguments: images, regions, the image of each region, mode, then those of [`regions`], out, how many regions are valid.
fn roi_align(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(9)?;
    let (images, boxes) = (call.read_by_index(0, &[&out])?, call.read(1, &[&out])?);
    call.expect_dtype(0, &images, &[DType::Float, DType::Float16])?;
    call.expect_same(1, &boxes, 0, &images)?;
    call.expect_same(9, &out, 0, &images)?;
    let image_indices = if call.has(2) { Some(call.read(2, &[&out])?) } else { None };
    expect_matrix(call, 1, &boxes, 1, if image_indices.is_some() { 4 } else { 5 })?;
    if let Some(image_indices) = &image_indices {
        call.expect_dtype(2, image_indices, &[DType::Int32])?;
        call.expect_dims(2, image_indices, &boxes.dims()[..1])?;
    }
    let takes_maximum = match call.text(3)? {
        "" | "avg" => false,
        "max" => true,
        mode => {
            let name = call.parameter(3);
            return Err(Error::invalid(format!("{name} = {mode:?}: expected avg or max")));
        }
    };
    expect_absent(call, 10)?;
    let (regions, cells) = regions(call, 4)?;
    let regions = Regions { takes_maximum, ..regions };
    if images.rank() != 4 || images.dims()[2..].contains(&0) {
        let (name, dims) = (call.parameter(0), images.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?}: expected four dimensions with elements"
        )));
    }
    call.expect_dims(9, &out, &[boxes.dims()[0], images.dims()[1], cells[0], cells[1]])?;
    let name = call.parameter(if image_indices.is_some() { 2 } else { 1 });
    call.plan(move |memory| {
        let (images, boxes) = (images.view(memory), boxes.view(memory));
        let image_indices = image_indices.map(|image_indices| image_indices.view(memory));
        if out.count() == 0 {
            return Ok(());
        }
        let result = regions.align(memory.parallel, memory.out(&out), images, boxes, image_indices);
        result.map_err(|region| {
            let image = match image_indices {
                Some(image_indices) => PositionAccess::new(image_indices).get::<f64>(&[region]),
                None => PositionAccess::new(boxes).get::<f64>(&[region, 0]),
            };
            no_such_image(name, region, image, images.dims()[0])
        })
    })
}

/// Fails if an argument is there: the number of valid regions, which is reserved.
fn expect_absent(call: &Call<'_>, at: usize) -> Result<()> {
    match call.has(at) {
        true => Err(Error::invalid(format!("{} is not supported", call.parameter(at)))),
        false => Ok(()),
    }
}

/// The fault of a region whose image is out of range.
pub(super) fn no_such_image(name: &str, region: usize, image: f64, images: usize) -> Fault {
    Fault(format!("{name}[{region}] names the image {image}: expected 0 to {}", images as i64 - 1))
}

/// The regions and the rows and columns of their cells. Arguments from `at` on: rows, columns, samples, scale, how corners
/// bound a region: a number from 0 to 3, or whether half a pixel is subtracted from corners.
fn regions(call: &Call<'_>, at: usize) -> Result<(Regions, [usize; 2])> {
    let mut cells = [0; 2];
    for (i, slot) in cells.iter_mut().enumerate() {
        let value = call.int(at + i)?;
        if !(1..=i64::from(i32::MAX)).contains(&value) {
            let name = call.parameter(at + i);
            return Err(Error::invalid(format!("{name} = {value} is no number of cells")));
        }
        *slot = value as usize;
    }
    let (samples, scale) = (call.int(at + 2)?, call.float(at + 3)?);
    if !((0..=1024).contains(&samples) && scale > 0.0 && scale.is_finite()) {
        let (one, other) = (call.parameter(at + 2), call.parameter(at + 3));
        return Err(Error::invalid(format!(
            "{one} = {samples}, {other} = {scale}: expected 0 to 1024 samples and a positive scale"
        )));
    }
    let bounds = match (call.arg(at + 4), call.has(at + 4) && call.flag(at + 4)?) {
        (Arg::Int(0), _) => RegionBounds::Open,
        (Arg::Int(1), _) => RegionBounds::Closed,
        (Arg::Int(2), _) => RegionBounds::Corners,
        (Arg::Int(3), _) => RegionBounds::ClosedOrEmpty,
        (Arg::Int(other), _) => {
            let name = call.parameter(at + 4);
            return Err(Error::invalid(format!("{name} = {other}: expected 0 to 3")));
        }
        (_, true) => RegionBounds::Corners,
        (_, false) => RegionBounds::Open,
    };
    Ok((Regions { scale, samples: samples as usize, bounds, takes_maximum: false }, cells))
}

/// Arguments: dy, regions, sizes of the images, then those of [`regions`], dx, how many regions are valid.
fn roi_align_backward(call: &mut Call<'_>) -> Result<Plan> {
    let dx = call.output(8)?;
    let (dy, boxes) = (call.read(0, &[&dx])?, call.read(1, &[&dx])?);
    for (at, one) in [(0, *dy), (1, *boxes), (8, *dx)] {
        call.expect_dtype(at, &one, &[DType::Float])?;
    }
    expect_matrix(call, 1, &boxes, 1, 5)?;
    expect_absent(call, 9)?;
    let sizes = call.sizes(2)?;
    call.expect_dims(8, &dx, &sizes)?;
    let (regions, cells) = regions(call, 3)?;
    if sizes.len() != 4 || sizes[2..].contains(&0) {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {sizes:?}: expected four sizes")));
    }
    call.expect_dims(0, &dy, &[boxes.dims()[0], sizes[1], cells[0], cells[1]])?;
    let name = call.parameter(1);
    let images = sizes[0];
    call.plan(move |memory| {
        let (dy, boxes) = (dy.view(memory), boxes.view(memory));
        let out = memory.out(&dx);
        fill_scalar(memory.parallel, out, Scalar::from(0));
        if out.count() == 0 {
            return Ok(());
        }
        let result = regions.backward(memory.parallel, out, dy, boxes);
        result.map_err(|region| {
            let image = PositionAccess::new(boxes).get::<f64>(&[region, 0]);
            no_such_image(name, region, image, images)
        })
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Iou", iou),
    aclnn("CIoU", complete_iou),
    aclnn("NonMaxSuppression", non_max_suppression),
    aclnn("RoiAlign", roi_align).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        No,
        A(8),
    ]),
    aclnn("RoiAlignV2", roi_align).with_args(&[
        A(0),
        A(1),
        No,
        No,
        A(2),
        A(3),
        A(5),
        A(4),
        A(6),
        A(7),
    ]),
    aclnn("RoiAlignV2Backward", roi_align_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(6),
        A(5),
        A(7),
        A(8),
    ]),
    aclnn("ROIAlign", roi_align).with_args(&[
        A(0),
        A(1),
        No,
        No,
        A(3),
        A(4),
        A(5),
        A(2),
        A(6),
        A(7),
    ]),
    aclnn("ROIAlignBackward", roi_align_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(4),
        A(3),
        A(6),
        A(5),
        A(7),
        A(8),
    ]),
];

fn roi_align_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (images, boxes) = (call.layout(0)?, call.layout(1)?);
    let (_, cells) = regions(call, 4)?;
    let ([_, channels, ..], [count, ..]) = (images.dims(), boxes.dims()) else {
        let (name, dims) = (call.parameter(0), images.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no channels")));
    };
    Ok(vec![Layout::contiguous(images.dtype, &[*count, *channels, cells[0], cells[1]])])
}

fn infer_aligned_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(2)?)])
}

const SCALE: ArgSource = Attr("spatial_scale", AttrDefault::Required);
const ROWS_OF_CELLS: ArgSource = Attr("pooled_height", AttrDefault::Required);
const COLUMNS: ArgSource = Attr("pooled_width", AttrDefault::Required);
const SAMPLES: ArgSource = Attr("sample_num", AttrDefault::Int(2));
const END_MODE: ArgSource = Attr("roi_end_mode", AttrDefault::Int(1));

/// A row for each of the second rectangles.
fn iou_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, b) = (call.layout(0)?, call.layout(1)?);
    expect_matrix(call, 0, &a, 1, 4)?;
    expect_matrix(call, 1, &b, 1, 4)?;
    let columns = if call.flag(4)? { 1 } else { a.dims()[0] };
    Ok(vec![Layout::contiguous(a.dtype, &[b.dims()[0], columns])])
}

const OVERLAPS: &[ArgSource] = &[
    A(0),
    A(1),
    Attr("mode", AttrDefault::Text("iou")),
    Attr("eps", AttrDefault::Float(1.0)),
    Attr("aligned", AttrDefault::Flag(false)),
    O(0),
    B(true),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Iou", &["bboxes", "gtboxes"], &["overlap"], Infer::By(iou_output), iou, OVERLAPS),
    node("IouV2", &["bboxes", "gtboxes"], &["overlap"], Infer::By(iou_output), iou, OVERLAPS),
    node(
        "ROIAlign",
        &["features", "rois", "rois_n?"],
        &["y"],
        Infer::By(roi_align_output),
        roi_align,
        &[
            A(0),
            A(1),
            No,
            Attr("pool_mode", AttrDefault::Text("avg")),
            ROWS_OF_CELLS,
            COLUMNS,
            SAMPLES,
            SCALE,
            END_MODE,
            O(0),
            A(2),
        ],
    ),
    node(
        "ROIAlignGrad",
        &["ydiff", "rois", "rois_n?"],
        &["xdiff"],
        Infer::By(infer_aligned_gradient),
        roi_align_backward,
        &[
            A(0),
            A(1),
            Attr("xdiff_shape", AttrDefault::Required),
            ROWS_OF_CELLS,
            COLUMNS,
            SAMPLES,
            SCALE,
            END_MODE,
            O(0),
            A(2),
        ],
    ),
];
