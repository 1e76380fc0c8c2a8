//! Elements of a sparse tensor that have the same coordinates, added up.

use super::inputs::out_of_range;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::Scalar;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::scatter::{ScatterMode, can_accumulate, scatter};

/// Arguments: the unique coordinates or their number (not read: the outputs have it), the index among them of each element,
/// positions and values of all elements, positions and values of the unique ones.
fn coalesce(call: &mut Call<'_>) -> Result<Plan> {
    let (positions, sums) = (call.output(4)?, call.output(5)?);
    let outs = [&positions, &sums];
    call.layout(0)?;
    let unique_count = positions.dims().first().copied().unwrap_or(0);
    let unique_index = call.read_index(1, &outs)?;
    let (all_positions, values) = (call.read(2, &outs)?, call.read(3, &outs)?);
    let count = unique_index.count();
    call.expect_dims(1, &unique_index, &[count])?;
    for (at, one, out_at, out) in [(2, &all_positions, 4, &positions), (3, &values, 5, &sums)] {
        call.expect_same(out_at, out, at, one)?;
        let fits = one.rank() > 0 && one.dims()[0] == count;
        if !fits
            || out.rank() != one.rank()
            || out.dims()[0] != unique_count
            || out.dims()[1..] != one.dims()[1..]
        {
            let (name, out_name) = (call.parameter(at), call.parameter(out_at));
            let (have, out) = (one.dims(), out.dims());
            return Err(Error::invalid(format!(
                "{name} and {out_name} have the sizes {have:?} and {out:?}: expected {count} and {unique_count} elements of the same sizes"
            )));
        }
    }
    if !can_accumulate(sums.dtype, values.dtype) {
        let (name, dtype) = (call.parameter(3), values.dtype);
        return Err(Error::invalid(format!(
            "{name} has elements of type {dtype}, which add to none"
        )));
    }
    let name = call.parameter(1);
    call.plan(move |memory| {
        let (unique_index, all_positions, values) =
            (unique_index.view(memory), all_positions.view(memory), values.view(memory));
        let (positions, sums) = (memory.out(&positions), memory.out(&sums));
        for out in [positions, sums] {
            fill_scalar(memory.parallel, out, Scalar::Bool(false));
        }
        for (out, values, mode) in
            [(positions, all_positions, ScatterMode::Replace), (sums, values, ScatterMode::Add)]
        {
            let targets = IndexedView::chosen(out.view(), 0, unique_index, false);
            scatter(memory.parallel, out, &targets, values, mode, unique_index)
                .map_err(|bad| out_of_range(name, bad))?;
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("CoalesceSparse", coalesce)];
