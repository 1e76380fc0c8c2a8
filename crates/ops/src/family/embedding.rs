//! Gradients and norms of tables of vectors (embeddings).

use super::inputs::out_of_range;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::renorm::renorm;
use cairn_tensor::kernels::scatter::{ScatterMode, scatter};
use cairn_tensor::{DType, Dims, Layout, Scalar, with_number};

/// The sum of the gradients of each vector. Arguments: gradient, indices, how many vectors, the one without a gradient
/// (none when negative), whether sums become means, out.
fn embedding_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let grad = call.read(0, &[&out])?;
    let index = call.read_index(1, &[&out])?;
    let (count, padding, takes_means) = (call.int(2)?, call.int(3)?, call.flag(4)?);
    call.expect_numbers(5, &out)?;
    call.expect_same(0, &grad, 5, &out)?;
    let mut dims = Dims::new(index.dims());
    let width = grad.dims().last().copied().unwrap_or(0);
    if dims.len() < cairn_tensor::MAX_DIMS {
        dims.push(width);
    }
    call.expect_dims(0, &grad, &dims)?;
    if out.rank() != 2 || out.dims()[0] as i64 != count || out.dims()[1] != width {
        let (name, have) = (call.parameter(5), out.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected [{count}, {width}]"
        )));
    }
    let is_half = matches!(out.dtype, DType::Float16 | DType::Bf16);
    let sums_f32 = is_half.then(|| call.scratch(DType::Float, out.dims()));
    let dtype = if is_half { DType::Float } else { out.dtype };
    let counts = takes_means.then(|| call.scratch(dtype, &[out.dims()[0], 1]));
    let name = call.parameter(1);
    call.plan(move |memory| {
        let (grad, index) = (grad.view(memory), index.view(memory));
        let target = sums_f32.as_ref().map_or(memory.out(&out), |sums_f32| memory.scratch(sums_f32));
        fill_scalar(memory.parallel, target, Scalar::Bool(false));
        let targets = IndexedView::chosen(target.view(), 0, index, false);
        scatter(memory.parallel, target, &targets, grad, ScatterMode::Add, index)
            .map_err(|bad| out_of_range(name, bad))?;
        if let Some(counts) = &counts {
            let counts = memory.scratch(counts);
            fill_scalar(memory.parallel, counts, Scalar::Bool(false));
            let one = Constant::of(Scalar::Bool(true), dtype);
            let flat_counts = counts.with_layout(counts.layout().without(1)).expect("the same elements");
            let targets = IndexedView::chosen(flat_counts.view(), 0, index, false);
            scatter(memory.parallel, flat_counts, &targets, one.view(index.dims()), ScatterMode::Add, index)
                .map_err(|bad| out_of_range(name, bad))?;
            let divisors = counts.broadcast_to(target.dims()).expect("a column");
            let divisors = counts.view().with_layout(divisors).expect("a column");
            with_number!(dtype, C => map2::<C, C, C>(
                memory.parallel, target, target.view(), divisors, |x, n| if n == C::ZERO { x } else { quotient(x, n) },
            ));
        }
        if padding >= 0 && padding < count {
            let row = target.layout().at(0, padding as usize);
            fill_scalar(memory.parallel, target.with_layout(row).expect("a row"), Scalar::Bool(false));
        }
        if sums_f32.is_some() {
            copy(memory.parallel, memory.out(&out), target.view());
        }
        Ok(())
    })
}

/// x / n, rounded to the type.
fn quotient<C: Number>(x: C, n: C) -> C {
    C::from_f64(x.to_f64() / n.to_f64())
}

fn embedding_backward_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let grad = call.layout(0)?;
    let width = grad.dims().last().copied().unwrap_or(0);
    Ok(vec![Layout::contiguous(grad.dtype, &[call.int(2)?.max(0) as usize, width])])
}

/// Vectors that indices name, scaled down to a greatest norm. Arguments: table, indices, the norm, its power.
fn embedding_renorm(call: &mut Call<'_>) -> Result<Plan> {
    let table = call.inout(0)?;
    call.touch_by_index(&table);
    let index = call.read_index(1, &[&table])?;
    let (max_norm, power) = (call.float(2)?, call.float(3)?);
    if table.rank() != 2 || !table.dtype.is_floating() {
        let (name, layout) = (call.parameter(0), *table);
        return Err(Error::invalid(format!("{name} ({layout}) must be a table of real numbers")));
    }
    let name = call.parameter(1);
    call.plan(move |memory| {
        renorm(memory.out(&table), index.view(memory), max_norm, power)
            .map_err(|bad| out_of_range(name, bad))
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("EmbeddingDenseBackward", embedding_backward),
    aclnn("EmbeddingRenorm", embedding_renorm),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "EmbeddingDenseGrad",
    &["grad", "indices"],
    &["y"],
    Infer::By(embedding_backward_output),
    embedding_backward,
    &[
        A(0),
        A(1),
        Attr("num_weights", AttrDefault::Required),
        Attr("padding_idx", AttrDefault::Int(-1)),
        Attr("scale_grad_by_freq", AttrDefault::Flag(false)),
        O(0),
    ],
)];
