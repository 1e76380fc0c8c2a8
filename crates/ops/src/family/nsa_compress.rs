//! Windows of keys or values summed to one, with a weight for each of a window's steps and each head; and the gradients.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::DType;
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::moe::sums::{combine, dots};

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// The size of a window, and how far apart windows are.
fn window(call: &Call<'_>, size_at: usize, stride_at: usize) -> Result<[usize; 2]> {
    let mut sizes = [0; 2];
    for (size, at) in sizes.iter_mut().zip([size_at, stride_at]) {
        let value = call.int(at)?;
        *size = usize::try_from(value).ok().filter(|one| *one > 0).ok_or_else(|| {
            let name = call.parameter(at);
            Error::invalid(format!("{name} = {value}: expected a number above 0"))
        })?;
    }
    if sizes[0] < sizes[1] {
        let (name, stride) = (call.parameter(stride_at), sizes[1]);
        return Err(Error::invalid(format!("{name} = {stride} is more than a window has")));
    }
    Ok(sizes)
}

/// Fails for a layout that is not steps, heads and features, and for lengths that are no ends.
fn expect_layout(call: &Call<'_>, layout_at: usize, form_at: usize, form: i64) -> Result<()> {
    let layout = call.text(layout_at)?;
    if !layout.is_empty() && layout != "TND" {
        let name = call.parameter(layout_at);
        return Err(Error::invalid(format!("{name} = {layout:?}: expected TND")));
    }
    let have = call.int(form_at)?;
    if have != form {
        let name = call.parameter(form_at);
        return Err(Error::invalid(format!(
            "{name} = {have}: the documentation supports {form} only"
        )));
    }
    Ok(())
}

/// Where each window begins, from the ends of sequences.
fn window_starts(
    call: &Call<'_>,
    at: usize,
    steps: usize,
    [size, stride]: [usize; 2],
) -> Result<Vec<usize>> {
    let ends = call.ints(at)?;
    let name = call.parameter(at);
    let (mut starts, mut start) = (Vec::new(), 0usize);
    for end in &ends {
        let Some(end) = usize::try_from(*end).ok().filter(|end| (start..=steps).contains(end))
        else {
            return Err(Error::invalid(format!(
                "{name} = {ends:?}: {end} is outside {start} to {steps}"
            )));
        };
        starts.extend((start..end).step_by(stride).filter(|first| first + size <= end));
        start = end;
    }
    Ok(starts)
}

/// The sizes of a tensor of steps, heads and features.
fn sizes(call: &Call<'_>, at: usize, dims: &[usize]) -> Result<[usize; 3]> {
    <[usize; 3]>::try_from(dims).map_err(|_| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} has the sizes {dims:?}: expected steps, heads and features"))
    })
}

/// Arguments: input, weights, ends of sequences, layout, window, stride, form of the ends, output.
fn compress(call: &mut Call<'_>) -> Result<Plan> {
    expect_layout(call, 3, 6, 0)?;
    let out = call.output(7)?;
    let (x, weights) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    call.expect_dtype(0, &x, TYPES)?;
    call.expect_same(1, &weights, 0, &x)?;
    call.expect_same(7, &out, 0, &x)?;
    let [steps, heads, features] = sizes(call, 0, x.dims())?;
    let window = window(call, 4, 5)?;
    call.expect_dims(1, &weights, &[window[0], heads])?;
    let starts = window_starts(call, 2, steps, window)?;
    call.expect_dims(7, &out, &[starts.len(), heads, features])?;
    let Some(rows) = out.reshaped(&[starts.len() * heads, features]) else {
        let name = call.parameter(7);
        return Err(Error::invalid(format!("{name} ({}) has no rows in order", out.layout())));
    };
    let out = out.with_layout(rows);
    call.plan(move |memory| {
        let (x, weights) =
            (PositionAccess::new(x.view(memory)), PositionAccess::new(weights.view(memory)));
        let term = |row: usize, step: usize, first: usize, strip: &mut [f32]| {
            let (block, head) = (row / heads, row % heads);
            x.line(&[starts[block] + step, head, first], strip);
            Some(weights.get::<f32>(&[step, head]))
        };
        combine(memory.parallel, memory.out(&out), window[0], |_, _, _| {}, term);
        Ok(())
    })
}

/// Arguments: gradient, input, weights, ends of sequences, window, stride, form of the ends, layout, out of the input, out of the
/// weights.
fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    expect_layout(call, 7, 6, 0)?;
    let (dx, dw) = (call.output(8)?, call.output(9)?);
    let outs = [&dx, &dw];
    let (grad, x, weights) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(1, &x, TYPES)?;
    call.expect_same(0, &grad, 1, &x)?;
    call.expect_same(2, &weights, 1, &x)?;
    call.expect_same(8, &dx, 1, &x)?;
    call.expect_same(9, &dw, 1, &x)?;
    let [steps, heads, features] = sizes(call, 1, x.dims())?;
    let window = window(call, 4, 5)?;
    call.expect_dims(2, &weights, &[window[0], heads])?;
    call.expect_dims(8, &dx, x.dims())?;
    call.expect_dims(9, &dw, weights.dims())?;
    let starts = window_starts(call, 3, steps, window)?;
    call.expect_dims(0, &grad, &[starts.len(), heads, features])?;
    let Some(rows) = dx.reshaped(&[steps * heads, features]) else {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} ({}) has no rows in order", dx.layout())));
    };
    let dx = dx.with_layout(rows);
    let most = window[0].div_ceil(window[1]);
    call.plan(move |memory| {
        let (x, grad) =
            (PositionAccess::new(x.view(memory)), PositionAccess::new(grad.view(memory)));
        let weights = PositionAccess::new(weights.view(memory));
        let term = |row: usize, number: usize, first: usize, strip: &mut [f32]| {
            let (step, head) = (row / heads, row % heads);
            // The windows that a step is in are the last few that begin at it or before it.
            let after = starts.partition_point(|start| *start <= step);
            let block = after.checked_sub(number + 1)?;
            let at = step - starts[block];
            if at >= window[0] {
                return None;
            }
            grad.line(&[block, head, first], strip);
            Some(weights.get::<f32>(&[at, head]))
        };
        combine(memory.parallel, memory.out(&dx), most, |_, _, _| {}, term);
        let to = PositionAccessMut::new(memory.out(&dw));
        let blocks = starts.len();
        // A row of the sum is a window's features, one window after the other.
        let fill = |at: usize, first: usize, left: &mut [f32], right: &mut [f32]| {
            let (step, head) = (at / heads, at % heads);
            let (mut done, total) = (0, left.len());
            while done < total {
                let (block, column) = ((first + done) / features, (first + done) % features);
                let count = (features - column).min(total - done);
                let part = done..done + count;
                grad.line(&[block, head, column], &mut left[part.clone()]);
                x.line(&[starts[block] + step, head, column], &mut right[part]);
                done += count;
            }
            true
        };
        dots(memory.parallel, window[0] * heads, blocks * features, fill, |at, sum| {
            to.set(&[at / heads, at % heads], sum);
        });
        Ok(())
    })
}

/// Arguments: input, weights, slots, lengths of sequences, table of blocks, layout, window, stride, form of the lengths, size of
/// a block, cache (read and written).
fn with_cache(call: &mut Call<'_>) -> Result<Plan> {
    let is_paged = call.has(4);
    if call.has(3) {
        expect_layout(call, if is_paged { usize::MAX } else { 5 }, 8, 1)?;
    }
    let cache = call.inout(10)?;
    let (x, weights) = (call.read_by_index(0, &[&cache])?, call.read(1, &[&cache])?);
    call.expect_dtype(0, &x, TYPES)?;
    call.expect_same(1, &weights, 0, &x)?;
    call.expect_same(10, &cache, 0, &x)?;
    let [size, stride] = window(call, 6, 7)?;
    let (heads, features, steps) = match x.dims() {
        [blocks, page, heads, features] if is_paged => {
            let want = call.int(9)?;
            if want != *page as i64 {
                let name = call.parameter(9);
                return Err(Error::invalid(format!(
                    "{name} = {want}, but blocks have {page} steps"
                )));
            }
            (*heads, *features, blocks * page)
        }
        [steps, heads, features] if !is_paged => (*heads, *features, *steps),
        dims => {
            let name = call.parameter(0);
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected 3, or 4 with a table"
            )));
        }
    };
    call.expect_dims(1, &weights, &[size, heads])?;
    let slots = cache.dims().first().copied().unwrap_or(0);
    call.expect_dims(10, &cache, &[slots, heads, features])?;
    let lengths = lengths_at(call, 3)?;
    let mapping = call.read(2, &[&cache])?;
    call.expect_dtype(2, &mapping, &[DType::Int32])?;
    call.expect_dims(2, &mapping, &[lengths.len()])?;
    let (page, pages) = if is_paged { (x.dims()[1], x.dims()[0]) } else { (1, 0) };
    let table = match is_paged {
        true => {
            let read = call.read(4, &[&cache])?;
            call.expect_dtype(4, &read, &[DType::Int32])?;
            let width = read.dims().get(1).copied().unwrap_or(0);
            call.expect_dims(4, &read, &[lengths.len(), width])?;
            if let Some(length) = lengths.iter().find(|length| length.div_ceil(page) > width) {
                let name = call.parameter(4);
                return Err(Error::invalid(format!(
                    "{name} has {width} blocks for {length} steps"
                )));
            }
            Some(read)
        }
        false if lengths.iter().sum::<usize>() > steps => {
            let name = call.parameter(3);
            return Err(Error::invalid(format!(
                "{name} = {lengths:?} are more than {steps} steps"
            )));
        }
        false => None,
    };
    call.touch_by_index(&cache);
    let names = [call.parameter(2), call.parameter(4)];
    call.plan(move |memory| {
        let (x, weights) = (x.view(memory), PositionAccess::new(weights.view(memory)));
        let (mapping, table) = (
            PositionAccess::new(mapping.view(memory)),
            table.map(|read| PositionAccess::new(read.view(memory))),
        );
        let is_due = |length: usize| length >= size && (length - size).is_multiple_of(stride);
        for (batch, length) in lengths.iter().enumerate().filter(|(_, length)| is_due(**length)) {
            let slot: i64 = mapping.get(&[batch]);
            if !(0..slots as i64).contains(&slot) {
                let (name, last) = (names[0], slots as i64 - 1);
                return Err(Fault(format!("{name}[{batch}] = {slot} is outside 0 to {last}")));
            }
            if let Some(table) = &table {
                for block in (length - size) / page..length.div_ceil(page) {
                    let value: i64 = table.get(&[batch, block]);
                    if !(0..pages as i64).contains(&value) {
                        let (name, last) = (names[1], pages as i64 - 1);
                        return Err(Fault(format!(
                            "{name}[{batch}, {block}] = {value} is outside 0 to {last}"
                        )));
                    }
                }
            }
        }
        let access = PositionAccess::new(x);
        let target = memory.out(&cache);
        let mut start = 0;
        for (batch, length) in lengths.iter().enumerate() {
            if is_due(*length) {
                let slot = (mapping.get::<i64>(&[batch]).max(0) as usize).min(slots - 1);
                let rows =
                    target.with_layout(target.layout().at(0, slot)).expect("one of its slots");
                let term = |head: usize, step: usize, first: usize, strip: &mut [f32]| {
                    let step_in_all = length - size + step;
                    match &table {
                        Some(table) => {
                            let block =
                                table.get::<i64>(&[batch, step_in_all / page]).max(0) as usize;
                            let at = [block.min(pages - 1), step_in_all % page, head, first];
                            access.line(&at, strip);
                        }
                        None => access.line(&[start + step_in_all, head, first], strip),
                    }
                    Some(weights.get::<f32>(&[step, head]))
                };
                combine(memory.parallel, rows, size, |_, _, _| {}, term);
            }
            start += length;
        }
        Ok(())
    })
}

/// Lengths, any number of them, of which none is negative.
fn lengths_at(call: &Call<'_>, at: usize) -> Result<Vec<usize>> {
    let (values, name) = (call.ints(at)?, call.parameter(at));
    (values.iter().map(|one| usize::try_from(*one).ok()).collect::<Option<_>>())
        .ok_or_else(|| Error::invalid(format!("{name} = {values:?} has a negative length")))
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("NsaCompress", compress),
    aclnn("NsaCompressGrad", gradients),
    aclnn("NsaCompressWithCache", with_cache),
];
