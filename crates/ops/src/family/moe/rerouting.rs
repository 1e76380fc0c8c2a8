//! Tokens that came from several ranks, each in the order of experts, put in the order of experts over all ranks.
//!
//! Workspace: the row that each token comes from.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float16, DType::Bf16, DType::Float, DType::Int8];

/// A tensor with a row for each token, as a matrix.
fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let matrix = layout
        .dims()
        .split_first()
        .and_then(|(rows, rest)| layout.reshaped(&[*rows, rest.iter().product()]));
    matrix.ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}) has no rows in order"))
    })
}

/// Arguments: tokens, counts of ranks and experts, scales, form of the counts, form of the indices, permuted tokens, permuted
/// scales, indices, counts of experts.
fn reroute(call: &mut Call<'_>) -> Result<Plan> {
    let form = call.int_or(3, 1)?;
    if form != 1 {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = {form}: the documentation supports 1 only")));
    }
    let by_source = match call.int_or(4, 0)? {
        0 => false,
        1 => true,
        other => {
            let name = call.parameter(4);
            return Err(Error::invalid(format!("{name} = {other}: expected 0 or 1")));
        }
    };
    let (out, index, counts_out) = (call.output(5)?, call.output(7)?, call.output(8)?);
    let has_scales = call.has(2);
    let scales_out = if has_scales { Some(call.output(6)?) } else { None };
    let mut outs = vec![&out, &index, &counts_out];
    outs.extend(&scales_out);
    let tokens = call.read(0, &outs)?;
    call.expect_dtype(0, &tokens, TYPES)?;
    call.expect_same(5, &out, 0, &tokens)?;
    call.expect_dims(5, &out, tokens.dims())?;
    let rows = tokens.dims().first().copied().unwrap_or(0);
    let counts = call.read(1, &outs)?;
    call.expect_dtype(1, &counts, &[DType::Int32, DType::Int64])?;
    let &[ranks, experts] = counts.dims() else {
        let (name, dims) = (call.parameter(1), counts.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    call.expect_dims(8, &counts_out, &[experts])?;
    call.expect_same(8, &counts_out, 1, &counts)?;
    call.expect_dims(7, &index, &[rows])?;
    call.expect_dtype(7, &index, &[DType::Int32])?;
    let scales = match scales_out {
        Some(to) => {
            let read = call.read(2, &outs)?;
            call.expect_dtype(2, &read, &[DType::Float])?;
            call.expect_same(6, &to, 2, &read)?;
            call.expect_dims(6, &to, read.dims())?;
            let from = as_rows(call, 2, &read)?;
            call.expect_dims(2, &from, &[rows, from.dims()[1]])?;
            let layout = as_rows(call, 6, to.layout())?;
            Some((read.with_layout(from), to.with_layout(layout)))
        }
        None => None,
    };
    let (from, to) = (as_rows(call, 0, &tokens)?, as_rows(call, 5, out.layout())?);
    let (tokens, out) = (tokens.with_layout(from), out.with_layout(to));
    let sources = call.scratch(DType::Int32, &[rows]);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let counts = PositionAccess::new(counts.view(memory));
        let mut total = 0i64;
        for rank in 0..ranks {
            for expert in 0..experts {
                let value: i64 = counts.get(&[rank, expert]);
                if value < 0 {
                    return Err(Fault(format!("{name}[{rank}, {expert}] = {value} is negative")));
                }
                total = total.saturating_add(value);
            }
        }
        if total != rows as i64 {
            return Err(Fault(format!("{name} has {total} tokens in all, but there are {rows}")));
        }
        let count = |rank: usize, expert: usize| counts.get::<i64>(&[rank, expert]).max(0) as usize;
        let sources = PositionAccessMut::new(memory.scratch(&sources));
        let index = PositionAccessMut::new(memory.out(&index));
        let totals = PositionAccessMut::new(memory.out(&counts_out));
        let mut next = 0;
        for expert in 0..experts {
            let before = next;
            let mut rank_start = 0;
            for rank in 0..ranks {
                let start = rank_start + (0..expert).map(|one| count(rank, one)).sum::<usize>();
                for at in 0..count(rank, expert) {
                    let source = (start + at).min(rows - 1);
                    if next < rows {
                        sources.set(&[next], source as i64);
                        let (at, value) = if by_source { (source, next) } else { (next, source) };
                        index.set(&[at], value as i64);
                        next += 1;
                    }
                }
                rank_start += (0..experts).map(|one| count(rank, one)).sum::<usize>();
            }
            totals.set(&[expert], (next - before) as i64);
        }
        let sources = sources.positions();
        let source =
            |row: usize| RowSource::Row((sources.get::<i64>(&[row]).max(0) as usize).min(rows - 1));
        place(memory.parallel, memory.out(&out), tokens.view(memory), source);
        if let Some((from, to)) = &scales {
            place(memory.parallel, memory.out(to), from.view(memory), source);
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("MoeReRouting", reroute)];

fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (tokens, counts) = (call.layout(0)?, call.layout(1)?);
    let rows = tokens.dims().first().copied().unwrap_or(0);
    let scales = match call.has(2) {
        true => call.layout(2)?.packed(),
        false => Layout::contiguous(DType::Float, &[rows]),
    };
    let experts = counts.dims().last().copied().unwrap_or(0);
    Ok(vec![
        tokens.packed(),
        scales,
        Layout::contiguous(DType::Int32, &[rows]),
        Layout::contiguous(counts.dtype, &[experts]),
    ])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "MoeReRouting",
    &["tokens", "expert_token_num_per_rank", "per_token_scales?"],
    &["permute_tokens", "permute_per_token_scales", "permute_token_idx", "expert_token_num"],
    Infer::By(outputs),
    reroute,
    &[
        A(0),
        A(1),
        A(2),
        Attr("expert_token_num_type", AttrDefault::Int(1)),
        Attr("idx_type", AttrDefault::Int(0)),
        O(0),
        O(1),
        O(2),
        O(3),
    ],
)];
