//! Takes the keys and values of sequences from the blocks of a cache.

use super::pages::{by_chunks, by_positions, wrong_cache};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::pages::take_rows;

const TABLE: usize = 2;
const LENGTHS: usize = 3;
const OFFSETS: usize = 6;
const CACHE_FORM: usize = 7;

/// Arguments: caches of keys and values, blocks of each sequence, lengths of the sequences, keys, values, where each sequence
/// begins or absent, order of the caches, whether lengths are sums of all before.
fn gather(call: &mut Call<'_>) -> Result<Plan> {
    let chunked = match call.text(CACHE_FORM)? {
        "Norm" => false,
        "PA_NZ" => true,
        other => {
            let name = call.parameter(CACHE_FORM);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: \"Norm\" and \"PA_NZ\" are known"
            )));
        }
    };
    let outs = [call.output(4)?, call.output(5)?];
    let apart = [&outs[0], &outs[1]];
    let mut work = Vec::new();
    for (at, out) in outs.iter().enumerate() {
        let cache = call.read_by_index(at, &apart)?;
        call.expect_same(4 + at, out, at, &cache)?;
        call.touch_by_index(out);
        let rows = match (chunked, out.rank()) {
            (false, 3) => out.with(0),
            (true, 2) => out.with(1).with(0),
            _ => {
                let (name, have) = (call.parameter(4 + at), out.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {have:?}: expected tokens, heads, features, or with PA_NZ tokens and features"
                )));
            }
        };
        let (heads, features) = (rows.dims()[2], rows.dims()[3]);
        let pages = if chunked { by_chunks(&cache, heads) } else { by_positions(&cache) };
        let pages = pages
            .filter(|one| one.dims()[1] == heads && one.dims()[2] * one.dims()[4] == features)
            .ok_or_else(|| {
                let expected =
                    format!("{heads} heads of {features} features in each of its positions");
                wrong_cache(call, at, &cache, &expected)
            })?;
        work.push((out.with_layout(rows), cache.with_layout(pages)));
    }
    let (tokens, blocks, size) = (work[0].0.dims()[1], work[0].1.dims()[0], work[0].1.dims()[3]);
    let values = &work[1];
    if values.0.dims()[1] != tokens || values.1.dims()[0] != blocks || values.1.dims()[3] != size {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} and {b} have blocks of different sizes or numbers"
        )));
    }
    let table = call.read_index(TABLE, &apart)?;
    let lengths = call.read_index(LENGTHS, &apart)?;
    let is_sum = call.flag(8)?;
    let [sequences, columns] = match *table.dims() {
        [sequences, columns] => [sequences, columns],
        _ => {
            let (name, have) = (call.parameter(TABLE), table.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected sequences, blocks"
            )));
        }
    };
    call.expect_dims(LENGTHS, &lengths, &[sequences + usize::from(is_sum)])?;
    let offsets = match call.has(OFFSETS) {
        true => Some(call.read_index(OFFSETS, &apart)?),
        false => None,
    };
    if let Some(offsets) = &offsets {
        call.expect_dims(OFFSETS, offsets, &[sequences])?;
    }
    let names = [TABLE, LENGTHS, OFFSETS].map(|at| call.parameter(at));
    call.plan(move |memory| {
        let [table_name, lengths_name, offsets_name] = names;
        let numbers = PositionAccess::new(table.view(memory));
        let lengths = PositionAccess::new(lengths.view(memory));
        let offsets = offsets.map(|offsets| PositionAccess::new(offsets.view(memory)));
        let mut ends = Vec::with_capacity(sequences);
        let mut firsts = Vec::with_capacity(sequences);
        let mut end = 0usize;
        for sequence in 0..sequences {
            let value = match is_sum {
                true => lengths.get::<i64>(&[sequence + 1]) - lengths.get::<i64>(&[sequence]),
                false => lengths.get::<i64>(&[sequence]),
            };
            let length = usize::try_from(value).ok().filter(|length| *length <= tokens - end);
            let Some(length) = length else {
                return Err(Fault(format!(
                    "{lengths_name}: sequence {sequence} has {value} tokens, after {end} of {tokens}"
                )));
            };
            let offset = offsets.map_or(0, |offsets| offsets.get::<i64>(&[sequence]));
            let Ok(offset) = usize::try_from(offset) else {
                return Err(Fault(format!("{offsets_name}[{sequence}] = {offset} is negative")));
            };
            let first = offset / size.max(1);
            for at in first..first + length.div_ceil(size.max(1)) {
                if at >= columns {
                    return Err(Fault(format!(
                        "{table_name} has {columns} blocks for sequence {sequence}: block {at} is needed"
                    )));
                }
                let number = numbers.get::<i64>(&[sequence, at]);
                if !usize::try_from(number).is_ok_and(|number| number < blocks) {
                    return Err(Fault(format!(
                        "{table_name}[{sequence}, {at}] = {number} is no block: the cache has {blocks}"
                    )));
                }
            }
            end += length;
            ends.push(end);
            firsts.push(first);
        }
        let place = |_: usize, token: usize| {
            let sequence = ends.partition_point(|end| *end <= token);
            let start = if sequence == 0 { 0 } else { ends[sequence - 1] };
            let first = *firsts.get(sequence)?;
            let block = numbers.get::<i64>(&[sequence, first + (token - start) / size]);
            Some((block as usize, (token - start) % size))
        };
        for (rows, pages) in &work {
            take_rows(memory.parallel, memory.out(rows), pages.view(memory), &place);
        }
        Ok(())
    })
}

/// The rows of this file.
pub const ROWS: &[Row] = &[aclnn("GatherPaKvCache", gather)];
