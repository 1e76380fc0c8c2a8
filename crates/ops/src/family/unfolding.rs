//! Windows of images as columns (im2col), columns summed to images (col2im), and the gradient of unfold.

use super::convolution::window::grouped;
use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

/// The types of gradients.
const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Windows along one axis of an image.
#[derive(Clone, Copy, Debug)]
struct Axis {
    taps: i64,
    dilation: i64,
    before: i64,
    after: i64,
    stride: i64,
}

impl Axis {
    /// How many windows there are along `size` elements; less than 1 where there is no room for one.
    fn positions(&self, size: usize) -> i64 {
        let reach = (self.taps - 1).saturating_mul(self.dilation);
        let starts = (size as i64).saturating_add(self.before + self.after).saturating_sub(reach);
        if starts < 1 { 0 } else { (starts - 1) / self.stride + 1 }
    }

    /// The windows whose tap is inside of the image: the first, how many, and where the first one's tap lies.
    fn inside(&self, tap: i64, size: usize) -> (usize, usize, usize) {
        let start = tap * self.dilation - self.before;
        let first = if start < 0 { (self.stride - 1 - start) / self.stride } else { 0 };
        let last = (size as i64 - 1 - start).div_euclid(self.stride);
        let last = last.min(self.positions(size) - 1);
        match last < first {
            true => (0, 0, 0),
            false => {
                let at = start + first * self.stride;
                (first as usize, (last - first + 1) as usize, at as usize)
            }
        }
    }
}

/// Two numbers, not less than `least`; with `allows_one`, one number may stand for both.
fn two_numbers(call: &Call<'_>, at: usize, least: i64, allows_one: bool) -> Result<[i64; 2]> {
    let values = call.ints(at)?;
    let pair = match values[..] {
        [value] if allows_one => Some([value; 2]),
        [y, x] => Some([y, x]),
        _ => None,
    };
    let is_valid = |value: &i64| (least..=i64::from(i32::MAX)).contains(value);
    pair.filter(|pair| pair.iter().all(is_valid)).ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!(
            "{name} = {values:?}: expected two numbers from {least} to 2147483647"
        ))
    })
}

/// Windows from the arguments kernel size, dilation, padding and stride, from index `at` on.
fn axes(call: &Call<'_>, at: usize) -> Result<[Axis; 2]> {
    let (taps, dilation) = (two_numbers(call, at, 1, false)?, two_numbers(call, at + 1, 1, false)?);
    let (padding, stride) =
        (two_numbers(call, at + 2, 0, false)?, two_numbers(call, at + 3, 1, false)?);
    Ok([0, 1].map(|axis| Axis {
        taps: taps[axis],
        dilation: dilation[axis],
        before: padding[axis],
        after: padding[axis],
        stride: stride[axis],
    }))
}

/// An image by samples, channels, height and width, and its columns by samples, channels, both taps and both positions.
struct Columns {
    image: Layout,
    columns: Layout,
    axes: [Axis; 2],
}

impl Columns {
    /// Checks sizes. Columns are by samples, by channels and taps (one dimension, or two), by positions (one dimension,
    /// or two).
    fn new(
        call: &Call<'_>,
        (image_at, image): (usize, Layout),
        (columns_at, columns): (usize, Layout),
        axes: [Axis; 2],
    ) -> Result<Columns> {
        let [samples, channels, height, width] = *image.dims() else {
            let (name, dims) = (call.parameter(image_at), image.dims());
            return Err(Error::invalid(format!("{name} {dims:?} is no batch of images")));
        };
        let positions = [axes[0].positions(height), axes[1].positions(width)];
        if positions.contains(&0) {
            let (name, dims) = (call.parameter(image_at), image.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?} has no room for a window of {axes:?}"
            )));
        }
        let taps = (axes[0].taps as usize).checked_mul(axes[1].taps as usize);
        let rows = taps.and_then(|taps| taps.checked_mul(channels));
        let all = (positions[0] as usize).checked_mul(positions[1] as usize);
        let (Some(taps), Some(rows), Some(all)) = (taps, rows, all) else {
            return Err(Error::invalid(format!("windows of {axes:?} are more than memory holds")));
        };
        let [rows_of_windows, windows_per_row] = positions.map(|one| one as usize);
        let expected = match columns.rank() {
            4 if columns.dims()[3] == all && columns.dims()[2] == taps => {
                vec![samples, channels, taps, all]
            }
            4 => vec![samples, rows, rows_of_windows, windows_per_row],
            _ => vec![samples, rows, all],
        };
        call.expect_dims(columns_at, &columns, &expected)?;
        let mut by_parts = columns;
        if by_parts.rank() == 4
            && by_parts.dims()[1] == channels
            && by_parts.dims()[2] == taps
            && by_parts.dims()[3] == all
        {
            by_parts = grouped(by_parts, 3, rows_of_windows);
        } else {
            by_parts =
                if by_parts.rank() == 3 { grouped(by_parts, 2, rows_of_windows) } else { by_parts };
            by_parts = grouped(by_parts, 1, channels.max(1));
        }
        let columns = grouped(by_parts, 2, axes[0].taps as usize);
        Ok(Columns { image, columns, axes })
    }

    /// Calls `run` for each tap with the part of the image that it reads, and its part of the columns.
    fn for_each_tap(&self, mut run: impl FnMut(Layout, Layout)) {
        if self.columns.count() == 0 {
            return;
        }
        let sizes = [self.image.dims()[2], self.image.dims()[3]];
        for y in 0..self.axes[0].taps {
            let (first_row, rows, image_row) = self.axes[0].inside(y, sizes[0]);
            for x in 0..self.axes[1].taps {
                let (first_column, columns, image_column) = self.axes[1].inside(x, sizes[1]);
                if rows == 0 || columns == 0 {
                    continue;
                }
                let image = (self.image)
                    .sliced(2, image_row, rows, self.axes[0].stride as isize)
                    .sliced(3, image_column, columns, self.axes[1].stride as isize);
                let column_part = (self.columns.at(2, y as usize).at(2, x as usize))
                    .sliced(2, first_row, rows, 1)
                    .sliced(3, first_column, columns, 1);
                run(image, column_part);
            }
        }
    }
}

/// With a dimension of samples in front where there is none.
fn batched(layout: Layout, rank: usize) -> Layout {
    if layout.rank() + 1 == rank { layout.with(0) } else { layout }
}

/// Columns of an image. Arguments: self, kernel size, dilation, padding, stride, out.
fn im2col(call: &mut Call<'_>) -> Result<Plan> {
    let axes = axes(call, 1)?;
    let out = call.output(5)?;
    let a = call.read(0, &[&out])?;
    if a.rank() != out.rank() + 1 {
        let (name, layout) = (call.parameter(0), *a);
        return Err(Error::invalid(format!(
            "{name} ({layout}) and the output ({}) do not fit",
            *out
        )));
    }
    let (a, out) = (a.with_layout(batched(*a, 4)), out.with_layout(batched(*out, 3)));
    plan_im2col(call, a, (5, out), axes)
}

/// The plan of the columns of an image.
fn plan_im2col(
    call: &mut Call<'_>,
    a: UnaliasedInput,
    (out_at, out): (usize, Operand),
    axes: [Axis; 2],
) -> Result<Plan> {
    call.expect_numbers(0, &a)?;
    call.expect_same(out_at, &out, 0, &a)?;
    let columns = Columns::new(call, (0, *a), (out_at, *out), axes)?;
    let has_border = axes.iter().any(|axis| axis.before > 0 || axis.after > 0);
    call.plan(move |memory| {
        a.prepare(memory);
        if has_border {
            fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        }
        columns.for_each_tap(|image, column| {
            let (to, from) = (out.with_layout(column), a.with_layout(image));
            copy(memory.parallel, memory.out(&to), from.prepared(memory));
        });
        Ok(())
    })
}

/// Arguments: x, ksizes, strides, dilations, padding mode, pads, y.
fn im2col_node(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(6)?;
    let a = call.read(0, &[&out])?;
    let axes = node_axes(call, &a)?;
    plan_im2col(call, a, (6, out), axes)
}

/// The windows of a node. Arguments as of [`im2col_node`].
fn node_axes(call: &Call<'_>, image: &Layout) -> Result<[Axis; 2]> {
    let [_, _, height, width] = *image.dims() else {
        let (name, dims) = (call.parameter(0), image.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected 4 dimensions")));
    };
    let (taps, stride) = (two_numbers(call, 1, 1, false)?, two_numbers(call, 2, 1, true)?);
    let dilation = two_numbers(call, 3, 1, true)?;
    let mut axes = [0, 1].map(|at| Axis {
        taps: taps[at],
        dilation: dilation[at],
        before: 0,
        after: 0,
        stride: stride[at],
    });
    match call.text(4)? {
        "VALID" => {}
        "SAME" => {
            for (axis, size) in axes.iter_mut().zip([height, width]) {
                let positions = (size as i64 - 1).div_euclid(axis.stride) + 1;
                let reach = (axis.taps - 1).saturating_mul(axis.dilation);
                let padding = (positions - 1).saturating_mul(axis.stride).saturating_add(reach + 1);
                let padding = padding.saturating_sub(size as i64).max(0);
                (axis.before, axis.after) = (padding / 2, padding - padding / 2);
            }
        }
        "CALCULATED" => {
            let pads = call.ints(5)?;
            let pads = match pads[..] {
                [all] => [all; 4],
                [y, x] => [y, y, x, x],
                [top, bottom, left, right] => [top, bottom, left, right],
                _ => [-1; 4],
            };
            if pads.iter().any(|one| !(0..=i64::from(i32::MAX)).contains(one)) {
                let (name, values) = (call.parameter(5), call.ints(5)?);
                return Err(Error::invalid(format!(
                    "{name} = {values:?}: expected 1, 2 or 4 numbers from 0 to 2147483647"
                )));
            }
            (axes[0].before, axes[0].after) = (pads[0], pads[1]);
            (axes[1].before, axes[1].after) = (pads[2], pads[3]);
        }
        mode => {
            let name = call.parameter(4);
            return Err(Error::invalid(format!(
                "{name} = {mode:?}: expected \"SAME\", \"VALID\" or \"CALCULATED\""
            )));
        }
    }
    Ok(axes)
}

fn columns_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = node_axes(call, &a)?;
    let dims = a.dims();
    let taps = (axes[0].taps as usize).saturating_mul(axes[1].taps as usize);
    let rows = dims[1].saturating_mul(taps);
    let [rows_of_windows, windows_per_row] =
        [0, 1].map(|at| axes[at].positions(dims[2 + at]) as usize);
    Ok(vec![Layout::contiguous(a.dtype, &[dims[0], rows, rows_of_windows, windows_per_row])])
}

/// Sums in `f32`: the output itself, or scratch that is copied to it.
#[derive(Clone, Copy)]
struct Sums {
    out: Operand,
    scratch: Option<Scratch>,
}

impl Sums {
    fn new(call: &mut Call<'_>, out: Operand) -> Sums {
        let scratch = (out.dtype != DType::Float).then(|| call.scratch(DType::Float, out.dims()));
        Sums { out, scratch }
    }

    /// The layout of the sums.
    fn layout(&self) -> Layout {
        self.scratch.map_or(*self.out, |scratch| *scratch)
    }

    fn view<'a>(&self, memory: &Memory<'a>, layout: Layout) -> ViewMut<'a> {
        match &self.scratch {
            Some(scratch) => {
                memory.scratch(scratch).with_layout(layout).expect("a part of the sums")
            }
            None => memory.out(&self.out.with_layout(layout)),
        }
    }

    /// Sets all sums to 0.
    fn clear(&self, memory: &Memory<'_>) {
        fill_scalar(memory.parallel, self.view(memory, self.layout()), Scalar::from(0));
    }

    /// Adds values to the part of the sums with this layout.
    fn add(&self, memory: &Memory<'_>, layout: Layout, values: View<'_>) {
        let part = self.view(memory, layout);
        map2::<f32, f32, f32>(memory.parallel, part, part.view(), values, |x, y| x + y);
    }

    /// Copies the sums to the output.
    fn finish(&self, memory: &Memory<'_>) {
        if let Some(scratch) = &self.scratch {
            copy(memory.parallel, memory.out(&self.out), memory.scratch(scratch).view());
        }
    }
}

/// An image to which the columns of its windows are summed. Arguments: columns, sizes, kernel size, dilation, padding,
/// stride, out.
fn col2im(call: &mut Call<'_>) -> Result<Plan> {
    let axes = axes(call, 2)?;
    let out = call.output(6)?;
    let a = call.read(0, &[&out])?;
    call.expect_dtype(0, &a, REALS)?;
    call.expect_same(6, &out, 0, &a)?;
    let sizes = two_numbers(call, 1, 1, false)?.map(|size| size as usize);
    let dims = out.dims();
    if dims.len() < 3 || dims[dims.len() - 2..] != sizes {
        let name = call.parameter(6);
        return Err(Error::invalid(format!(
            "{name} {dims:?} has not the sizes {sizes:?} at its end"
        )));
    }
    let by_taps = a.rank() == 4 && out.rank() == 4;
    if !by_taps && a.rank() + 1 != out.rank() {
        let (name, layout) = (call.parameter(0), *a);
        return Err(Error::invalid(format!(
            "{name} ({layout}) and the output ({}) do not fit",
            *out
        )));
    }
    let a = if by_taps { a } else { a.with_layout(batched(*a, 3)) };
    let sums = Sums::new(call, out.with_layout(batched(*out, 4)));
    let columns = Columns::new(call, (6, sums.layout()), (0, *a), axes)?;
    call.plan(move |memory| {
        a.prepare(memory);
        sums.clear(memory);
        columns.for_each_tap(|image, column| {
            sums.add(memory, image, a.with_layout(column).prepared(memory))
        });
        sums.finish(memory);
        Ok(())
    })
}

fn image_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, sizes) = (call.layout(0)?, two_numbers(call, 1, 1, false)?);
    let [samples, channels, ..] = *a.dims() else {
        let (name, dims) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected 4 dimensions")));
    };
    let [height, width] = sizes.map(|size| size as usize);
    Ok(vec![Layout::contiguous(a.dtype, &[samples, channels, height, width])])
}

/// The gradient of unfold: slices along a dimension, summed where they overlap. Arguments: slices, sizes, dimension,
/// size, step, out.
fn unfold_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let a = call.read(0, &[&out])?;
    call.expect_dtype(0, &a, REALS)?;
    call.expect_same(5, &out, 0, &a)?;
    let sizes = call.sizes(1)?;
    call.expect_dims(5, &out, &sizes)?;
    let dim = call.dim(2, sizes.len())?;
    let (size, step) = (call.int(3)?, call.int(4)?);
    let size_of_dim = sizes.get(dim).copied().unwrap_or(1);
    if size < 1 || size > size_of_dim as i64 {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = {size} is outside 1 to {size_of_dim}")));
    }
    if step < 1 {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {step} is less than 1")));
    }
    let (size, step) = (size as usize, isize::try_from(step).unwrap_or(isize::MAX));
    let count = (size_of_dim - size) / step.unsigned_abs() + 1;
    let mut dims = sizes;
    if let Some(size) = dims.get_mut(dim) {
        *size = count;
    }
    dims.push(size);
    call.expect_dims(0, &a, &dims)?;
    // A tensor without dimensions has one slice, of one element.
    let (a, out) = match dims.len() {
        1 => (a.with_layout(a.with(0)), out.with_layout(out.with(0))),
        _ => (a, out),
    };
    let step = if count > 1 { step } else { 1 };
    let sums = Sums::new(call, out);
    call.plan(move |memory| {
        a.prepare(memory);
        sums.clear(memory);
        for at in 0..if a.count() == 0 { 0 } else { size } {
            let to = sums.layout().sliced(dim, at, count, step);
            sums.add(memory, to, a.with_layout(a.at(a.rank() - 1, at)).prepared(memory));
        }
        sums.finish(memory);
        Ok(())
    })
}

fn unfold_backward_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(1)?)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Im2col", im2col),
    aclnn("Im2colBackward", col2im),
    aclnn("UnfoldGrad", unfold_backward),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Im2col",
        &["x"],
        &["y"],
        Infer::By(columns_output),
        im2col_node,
        &[
            A(0),
            Attr("ksizes", AttrDefault::Required),
            Attr("strides", AttrDefault::Ints(&[1])),
            Attr("dilations", AttrDefault::Ints(&[1])),
            Attr("padding_mode", AttrDefault::Text("CALCULATED")),
            Attr("pads", AttrDefault::Ints(&[0])),
            O(0),
        ],
    ),
    node(
        "Col2im",
        &["grad_out", "output_size"],
        &["grad_in"],
        Infer::By(image_output),
        col2im,
        &[
            A(0),
            A(1),
            Attr("kernel_size", AttrDefault::Required),
            Attr("dilation", AttrDefault::Required),
            Attr("padding", AttrDefault::Required),
            Attr("stride", AttrDefault::Required),
            O(0),
        ],
    )
    .needs_values(&[1]),
    node(
        "UnfoldGrad",
        &["grad_out", "input_sizes"],
        &["grad_in"],
        Infer::By(unfold_backward_output),
        unfold_backward,
        &[
            A(0),
            A(1),
            Attr("dim", AttrDefault::Required),
            Attr("size", AttrDefault::Required),
            Attr("step", AttrDefault::Required),
            O(0),
        ],
    )
    .needs_values(&[1]),
];
