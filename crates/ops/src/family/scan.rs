//! Cumulative sums, products and extremes.

use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::scan::{extremes, scan};
use cairn_tensor::{DType, Layout, with_number};
use num_complex::Complex;

/// A layout with a dimension in reverse order.
fn reversed(layout: &Layout, dim: usize) -> Layout {
    match layout.dims().get(dim) {
        Some(size) if *size > 0 => layout.sliced(dim, size - 1, *size, -1),
        _ => *layout,
    }
}

/// The dimension, from a number or a constant tensor.
fn dimension(call: &Call<'_>, at: usize, rank: usize) -> Result<usize> {
    let dim = match call.layout(at) {
        Ok(_) => call.ints(at)?.first().copied().unwrap_or(0),
        Err(_) => call.int(at)?,
    };
    call.wrap(at, dim, rank)
}

/// Cumulative sums or products. Arguments: a, dim, exclusive, reverse, out.
fn cumulative<const PRODUCT: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let (a, out) = (call.tensor(0)?, call.output(4)?);
    call.expect_dims(4, &out, a.dims())?;
    let dim = dimension(call, 1, a.rank())?;
    let (exclusive, reverse) = (call.flag_or(2, false)?, call.flag_or(3, false)?);
    let is_complex = a.dtype.is_complex() && out.dtype.is_complex();
    let (a, out) = match is_complex {
        true if PRODUCT => (a, out),
        true => (call.view_as_real(0, a)?, call.view_as_real(4, out)?),
        false => {
            call.expect_numbers(0, &a)?;
            call.expect_numbers(4, &out)?;
            (a, out)
        }
    };
    let a = call.in_place_input(a, &[&out]);
    call.plan(move |memory| {
        let (mut a, mut out) = (a.view(memory), memory.out(&out));
        if reverse {
            a = a.with_layout(reversed(&a, dim)).expect("the same elements");
            out = out.with_layout(reversed(&out, dim)).expect("the same elements");
        }
        if PRODUCT && is_complex {
            let one = Complex::new(1.0f64, 0.0);
            scan(memory.parallel, out, a, dim, exclusive, one, |x, y| x * y);
            return Ok(());
        }
        let is_integer = out.dtype().is_integer() || out.dtype() == DType::Bool;
        with_number!(if is_integer { DType::Int64 } else { DType::Double }, C => match PRODUCT {
            true => scan(memory.parallel, out, a, dim, exclusive, C::ONE, C::mul),
            false => scan(memory.parallel, out, a, dim, exclusive, C::ZERO, C::add),
        });
        Ok(())
    })
}

/// Cumulative extremes. Arguments: a, dim, values, indices.
fn cumulative_extremes<const MAX: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let (a, values, indices) = (call.tensor(0)?, call.output(2)?, call.output(3)?);
    call.expect_numbers(0, &a)?;
    call.expect_numbers(2, &values)?;
    call.expect_dims(2, &values, a.dims())?;
    call.expect_dims(3, &indices, a.dims())?;
    call.expect_dtype(3, &indices, &[DType::Int64, DType::Int32])?;
    let dim = dimension(call, 1, a.rank())?;
    let a = call.in_place_input(a, &[&values, &indices]);
    call.plan(move |memory| {
        let view = a.view(memory);
        let (values, indices) = (memory.out(&values), memory.out(&indices));
        with_number!(view.dtype(), C => extremes::<C>(memory.parallel, values, indices, view, dim, MAX));
        Ok(())
    })
}

fn infer_with_indices(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?.packed();
    Ok(vec![a, a.with_dtype(DType::Int32)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Cumsum", cumulative::<false>).with_args(&[A(0), A(1), B(false), B(false), A(3)]),
    aclnn("CumsumV2", cumulative::<false>),
    aclnn("Cumprod", cumulative::<true>).with_args(&[A(0), A(1), B(false), B(false), A(3)]),
    aclnn("InplaceCumprod", cumulative::<true>).with_args(&[A(0), A(1), B(false), B(false), A(0)]),
    aclnn("Cummax", cumulative_extremes::<true>),
    aclnn("Cummin", cumulative_extremes::<false>),
];

const SUMS: &[ArgSource] = &[
    A(0),
    A(1),
    Attr("exclusive", AttrDefault::Flag(false)),
    Attr("reverse", AttrDefault::Flag(false)),
    O(0),
];
const EXTREMES: &[ArgSource] = &[A(0), Attr("dim", AttrDefault::Required), O(0), O(1)];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Cumsum", &["x", "axis"], &["y"], Infer::Like(0), cumulative::<false>, SUMS)
        .needs_values(&[1]),
    node("Cumprod", &["x", "axis"], &["y"], Infer::Like(0), cumulative::<true>, SUMS)
        .needs_values(&[1]),
    node(
        "Cummax",
        &["x"],
        &["y", "indices"],
        Infer::By(infer_with_indices),
        cumulative_extremes::<true>,
        EXTREMES,
    ),
    node(
        "Cummin",
        &["x"],
        &["y", "indices"],
        Infer::By(infer_with_indices),
        cumulative_extremes::<false>,
        &[A(0), Attr("axis", AttrDefault::Required), O(0), O(1)],
    ),
];
