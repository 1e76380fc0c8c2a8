//! Products of batches of matrices whose dimensions are permuted before and after.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::matmul as kernel;
use cairn_tensor::{DType, Layout, Scalar};

/// An order of dimensions, one of those that the function takes; the first of them where none is named.
fn order(call: &Call<'_>, at: usize, allowed: &[[usize; 3]]) -> Result<[usize; 3]> {
    let values = call.ints(at)?;
    if values.is_empty() {
        return Ok(allowed[0]);
    }
    let matches = |one: &&[usize; 3]| {
        values.len() == 3 && one.iter().zip(&values).all(|(have, want)| *have as i64 == *want)
    };
    allowed.iter().find(matches).copied().ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} = {values:?}: expected {allowed:?}"))
    })
}

/// Batches of products, rows before batches in the output. Arguments: x1, x2, bias, scale, order of x1, order of x2,
/// order of the output, precision (not read), in how many parts the batches are split, out.
fn transpose_batch_matmul(call: &mut Call<'_>) -> Result<Plan> {
    for at in [2, 3] {
        if call.has(at) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} is there: products are neither biased nor quantised"
            )));
        }
    }
    let types = &[DType::Float, DType::Float16, DType::Bf16];
    let (left, right, out) = (call.tensor(0)?, call.tensor(1)?, call.output(9)?);
    for (at, one) in [(0, &left), (1, &right), (9, &out)] {
        call.expect_dtype(at, one, types)?;
        call.expect_same(at, one, 0, &left)?;
    }
    for (at, one) in [(0, &left), (1, &right), (9, &out)] {
        if one.rank() != 3 {
            let (name, dims) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 3")));
        }
    }
    let a = left.layout().permuted(&order(call, 4, &[[0, 1, 2], [1, 0, 2]])?);
    let b = right.layout().permuted(&order(call, 5, &[[0, 1, 2], [0, 2, 1]])?);
    order(call, 6, &[[1, 0, 2]])?;
    let (batch, m, k, n) = (a.dims()[0], a.dims()[1], a.dims()[2], b.dims()[2]);
    if b.dims()[..2] != [batch, k] {
        let (x, y) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!("{x} ({a}) and {y} ({b}) cannot be multiplied")));
    }
    let split = call.int_or(8, 1)?;
    let Some(parts) =
        usize::try_from(split).ok().filter(|one| *one > 0 && batch.is_multiple_of(*one))
    else {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {split} does not divide {batch} batches")));
    };
    let batches_per_part = batch / parts;
    let (dims, strides) = if parts > 1 {
        let out_strides = out.strides();
        (
            [parts, m, batches_per_part * n],
            [out_strides[0], out_strides[2] * n as isize, out_strides[1], out_strides[2]],
        )
    } else {
        let out_strides = out.strides();
        ([m, batch, n], [0, out_strides[1], out_strides[0], out_strides[2]])
    };
    call.expect_dims(9, &out, &dims)?;
    let out_layout =
        Layout::strided(out.dtype, &[parts, batches_per_part, m, n], &strides, out.offset);
    let split_batches = |one: &Layout| {
        let ([_, rows, columns], strides) =
            ([one.dims()[0], one.dims()[1], one.dims()[2]], one.strides());
        let strides = [strides[0] * batches_per_part as isize, strides[0], strides[1], strides[2]];
        Layout::strided(one.dtype, &[parts, batches_per_part, rows, columns], &strides, one.offset)
    };
    let (a, b) = (split_batches(&a), split_batches(&b));
    let shares = |one| {
        call.has_partial_overlap(one, &out) || (one.address == out.address && one.count() > 0)
    };
    if shares(&left) || shares(&right) {
        return Err(Error::invalid("an input shares memory with the output"));
    }
    let scratch =
        kernel::panels(&out_layout, &a, &b).map(|one| call.scratch(one.dtype(), &one.dims()));
    call.plan(move |memory| {
        let scratch = scratch.map(|one| memory.scratch(&one));
        let (a, b) = (memory.view_with_layout(&left, a), memory.view_with_layout(&right, b));
        let (one, zero) = (Scalar::from(1.0), Scalar::from(0));
        kernel::matmul(
            memory.parallel,
            memory.out(&out.with_layout(out_layout)),
            a,
            b,
            one,
            zero,
            scratch,
        );
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("TransposeBatchMatMul", transpose_batch_matmul)];

fn output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (left, right) = (call.layout(0)?, call.layout(1)?);
    for (at, one) in [(0, &left), (1, &right)] {
        if one.rank() != 3 {
            let (name, dims) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 3")));
        }
    }
    let a = left.permuted(&order(call, 4, &[[0, 1, 2], [1, 0, 2]])?);
    let b = right.permuted(&order(call, 5, &[[0, 1, 2], [0, 2, 1]])?);
    let (batch, m, n) = (a.dims()[0], a.dims()[1], b.dims()[2]);
    let dims = match usize::try_from(call.int_or(8, 1)?) {
        Ok(parts) if parts > 1 => [parts, m, (batch / parts).saturating_mul(n)],
        _ => [m, batch, n],
    };
    Ok(vec![Layout::contiguous(left.dtype, &dims)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "TransposeBatchMatMul",
    &["x1", "x2", "bias?", "scale?"],
    &["y"],
    Infer::By(output),
    transpose_batch_matmul,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        Attr("perm_x1", AttrDefault::Ints(&[])),
        Attr("perm_x2", AttrDefault::Ints(&[])),
        Attr("perm_y", AttrDefault::Ints(&[])),
        No,
        Attr("batch_split_factor", AttrDefault::Int(1)),
        O(0),
        Attr("enable_hf32", AttrDefault::Flag(false)),
    ],
)];
