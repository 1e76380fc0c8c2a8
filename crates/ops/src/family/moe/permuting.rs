//! Tokens copied for each of their experts, in the order of experts.
//!
//! Workspace: a key with its index for each slot of a token.

use super::finalizing::refuse_padded;
use super::routing::{Slots, any_expert};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::PositionAccessMut;
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Int8];

/// Arguments: tokens, experts, how many rows are kept, mode, permuted tokens, places.
fn permute(call: &mut Call<'_>) -> Result<Plan> {
    refuse_padded(call, 3)?;
    let (out, places) = (call.output(4)?, call.output(5)?);
    let tokens = call.read_by_index(0, &[&out, &places])?;
    call.expect_dtype(0, &tokens, TYPES)?;
    call.expect_same(4, &out, 0, &tokens)?;
    let rows_of = |layout: &Layout| {
        let (count, rest) = layout.dims().split_first().filter(|(_, rest)| !rest.is_empty())?;
        layout.reshaped(&[*count, rest.iter().product()])
    };
    let (Some(from), Some(to)) = (rows_of(&tokens), rows_of(out.layout())) else {
        let (name, layout) = (call.parameter(0), *tokens);
        return Err(Error::invalid(format!("{name} ({layout}) has no rows in order")));
    };
    let slots = Slots::read(call, 1, from.dims()[0], &[&out, &places])?;
    let (kept, count) = (call.int(2)?, slots.count());
    let rows = match kept {
        0 => count,
        1.. => count.min(kept as usize),
        _ => count.saturating_sub(kept.unsigned_abs() as usize),
    };
    if to.dims() != [rows, from.dims()[1]] {
        let (name, have, want) = (call.parameter(4), out.dims(), [rows, from.dims()[1]]);
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected rows {want:?}"
        )));
    }
    call.expect_dims(5, &places, &[count])?;
    call.expect_dtype(5, &places, &[DType::Int32])?;
    let (tokens, out) = (tokens.with_layout(from), out.with_layout(to));
    call.plan(move |memory| {
        let order = slots.sort(memory, &any_expert())?;
        let to = PositionAccessMut::new(memory.out(&places));
        (0..count).for_each(|at| to.set(&[order.slot(at)], at as i64));
        place(memory.parallel, memory.out(&out), tokens.view(memory), |row| {
            RowSource::Row(order.slot(row) / slots.each)
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("MoeTokenPermute", permute)];
