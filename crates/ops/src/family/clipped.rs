//! Gated linear units whose halves are cut off at a limit.
//!
//! Workspace: a packed copy of `x`, if `x` cannot be viewed as one dimension.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::map::map2;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::{DType, Layout, View};

/// The most groups that `group_index` may have.
const MAX_GROUPS: usize = 8192;

/// The dimension that is halved, and the products of the sizes before, at and after it.
fn halved_sizes(call: &Call<'_>, x: &Layout) -> Result<(usize, [usize; 3])> {
    let dim = call.dim(2, x.rank())?;
    let dims = x.dims();
    if x.rank() == 0 || !dims[dim].is_multiple_of(2) {
        let (name, at) = (call.parameter(0), call.parameter(2));
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected an even number at {at} = {dim}"
        )));
    }
    let product = |dims: &[usize]| dims.iter().product();
    Ok((dim, [product(&dims[..dim]), dims[dim], product(&dims[dim + 1..])]))
}

/// Arguments: x, lengths of groups or absent, dimension, factor, limit, bias, whether gate and value are interleaved
/// (otherwise the first half is the gate), out. With groups, rows of `out` after the last group are not written.
fn clipped_swiglu(call: &mut Call<'_>) -> Result<Plan> {
    const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
    let out = call.output(7)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_same(7, &out, 0, &x)?;
    let (dim, [rows_before, size, after]) = halved_sizes(call, &x)?;
    let mut dims = x.dims().to_vec();
    dims[dim] /= 2;
    call.expect_dims(7, &out, &dims)?;
    let groups = match call.has(1) {
        false => None,
        true => {
            let groups = call.read_index(1, &[&out])?;
            if groups.rank() != 1 || groups.count() > MAX_GROUPS {
                let (name, dims) = (call.parameter(1), groups.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected at most {MAX_GROUPS} lengths"
                )));
            }
            call.touch_by_index(&out);
            Some(groups)
        }
    };
    let [factor, limit, bias] = [call.float(3)?, call.float(4)?, call.float(5)?];
    if limit.is_nan() || limit <= 0.0 {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {limit}: expected more than 0")));
    }
    let interleaved = call.flag(6)?;
    let Some(flat) = out.reshaped(&[rows_before, size / 2, after]) else {
        let (name, layout) = (call.parameter(7), out.layout());
        return Err(Error::invalid(format!("{name} ({layout}) is not contiguous")));
    };
    let (out, flat_x) = (out.with_layout(flat), call.flat_input(x));
    let name = call.parameter(1);
    call.plan(move |memory| {
        let (flat_x, out) = (flat_x.view(memory), memory.out(&out));
        let mut rows = rows_before;
        if let Some(groups) = &groups {
            let groups = groups.view(memory);
            let lengths = PositionAccess::new(groups);
            let mut lengths = (0..groups.count()).map(|at| lengths.get::<i64>(&[at]));
            let sum = lengths.try_fold(0i64, |sum, one| sum.checked_add(one).filter(|_| one >= 0));
            match sum.and_then(|sum| usize::try_from(sum).ok()).filter(|sum| *sum <= rows_before) {
                Some(sum) => rows = sum,
                None => {
                    return Err(Fault(format!(
                        "{name}: lengths of groups must not be negative, and sum to at most {rows_before}, the rows of x"
                    )));
                }
            }
        }
        if rows == 0 || out.count() == 0 {
            return Ok(());
        }
        let part = |dims: [usize; 3], strides: [isize; 3], offset: isize| -> View<'_> {
            let layout = Layout::strided(flat_x.dtype(), &dims, &strides, offset);
            flat_x.with_layout(layout).expect("a part of the line")
        };
        let step = flat_x.strides()[0];
        let (row_stride, pair_stride) = ((size * after) as isize * step, after as isize * step);
        let dims = [rows, size / 2, after];
        let (gate, value) = match interleaved {
            true => {
                let strides = [row_stride, 2 * pair_stride, step];
                (part(dims, strides, 0), part(dims, strides, pair_stride))
            }
            false => {
                let strides = [row_stride, pair_stride, step];
                (part(dims, strides, 0), part(dims, strides, (size / 2) as isize * pair_stride))
            }
        };
        let out = out.with_layout(out.layout().sliced(0, 0, rows, 1)).expect("rows of it");
        let [factor, limit, bias] = [factor, limit, bias].map(|one| one as f32);
        map2(memory.parallel, out, gate, value, |x: f32, y: f32| {
            let x = if x > limit { limit } else { x };
            let y = if y > limit {
                limit
            } else if y < -limit {
                -limit
            } else {
                y
            };
            x * Real::sigmoid(factor * x) * (y + bias)
        });
        Ok(())
    })
}

fn halved_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let (dim, _) = halved_sizes(call, &x)?;
    let mut dims = x.dims().to_vec();
    dims[dim] /= 2;
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("ClippedSwiglu", clipped_swiglu)];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "ClippedSwiglu",
    &["x", "group_index?"],
    &["y"],
    Infer::By(halved_output),
    clipped_swiglu,
    &[
        A(0),
        A(1),
        Attr("dim", AttrDefault::Int(-1)),
        Attr("alpha", AttrDefault::Float(1.702)),
        Attr("limit", AttrDefault::Float(7.0)),
        Attr("bias", AttrDefault::Float(1.0)),
        Attr("interleaved", AttrDefault::Flag(true)),
        O(0),
    ],
)];
