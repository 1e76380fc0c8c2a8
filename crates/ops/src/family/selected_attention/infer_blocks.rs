//! Attention to chosen blocks of keys in a paged cache.

use super::{TYPES, three};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::Plan;
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::selected_attention::{MOST_FEATURES, Selected, attend};
use cairn_tensor::{DType, Layout};

// Arguments: query, key, value, chosen blocks, mask (not used), table of pages, lengths of queries and of keys, layout, heads, heads of
// keys, size and number of chosen blocks, size of a page, scale, mode (not used), out.
const TABLE: usize = 5;
const LENGTHS: [usize; 2] = [6, 7];
const LAYOUT: usize = 8;
const HEADS: [usize; 2] = [9, 10];
const SIZE: usize = 11;
const COUNT: usize = 12;
const PAGE: usize = 13;
const OUT: usize = 16;

/// Rows, heads and features of a tensor in which heads and features may be one dimension.
fn with_heads(call: &Call<'_>, at: usize, layout: &Layout, heads: usize) -> Result<Layout> {
    let (rank, dims) = (layout.rank(), layout.dims());
    let wrong = || {
        let name = call.parameter(at);
        Error::invalid(format!("{name} has the sizes {dims:?}, which {heads} heads do not have"))
    };
    let is_split =
        rank >= 3 && dims[rank - 2] == heads && (rank == 4 || call.text(LAYOUT)? == "TND");
    let (rest, features) = match is_split {
        true => (&dims[..rank - 2], dims[rank - 1]),
        false if rank == 3 && dims[2].is_multiple_of(heads.max(1)) => {
            (&dims[..2], dims[2] / heads.max(1))
        }
        false => return Err(wrong()),
    };
    layout.reshaped(&[rest.iter().product(), heads, features]).ok_or_else(wrong)
}

/// See the top of the file for the arguments.
pub(super) fn attention(call: &mut Call<'_>) -> Result<Plan> {
    let form = match call.text(LAYOUT)? {
        "" => "BSND",
        form => form,
    };
    if !matches!(form, "BSH" | "BSND" | "TND") {
        let name = call.parameter(LAYOUT);
        return Err(Error::invalid(format!("{name} = {form:?}: expected BSH, BSND or TND")));
    }
    let is_packed = form == "TND";
    let out = call.output(OUT)?;
    let outs = [&out];
    let (query, key, value) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    for (at, one) in [(1, &*key), (2, &*value), (OUT, out.layout())] {
        call.expect_same(at, one, 0, &query)?;
    }
    let mut positive = [0; 5];
    for (number, at) in positive.iter_mut().zip([HEADS[0], HEADS[1], SIZE, COUNT, PAGE]) {
        let value = call.int(at)?;
        *number = usize::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
            let name = call.parameter(at);
            Error::invalid(format!("{name} = {value}: expected a number above 0"))
        })?;
    }
    let [heads, key_heads, size, count, page] = positive;
    if !heads.is_multiple_of(key_heads) {
        let [a, b] = HEADS.map(|at| call.parameter(at));
        return Err(Error::invalid(format!("{a} = {heads} is no multiple of {b} = {key_heads}")));
    }
    let (query_rows, out_rows) =
        (with_heads(call, 0, &query, heads)?, with_heads(call, OUT, out.layout(), heads)?);
    let pages = |call: &Call<'_>, at: usize, layout: &Layout| {
        let dims = layout.dims();
        let features: usize = dims.get(2..).map_or(0, |rest| rest.iter().product());
        let fits = matches!(dims.len(), 3 | 4)
            && dims[1] == page
            && features.is_multiple_of(key_heads)
            && (dims.len() == 3 || dims[2] == key_heads);
        let rows = [dims.first().copied().unwrap_or(0) * page, key_heads, features / key_heads];
        layout.reshaped(&rows).filter(|_| fits).ok_or_else(|| {
            let name = call.parameter(at);
            Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected pages of {page} and {key_heads} heads"
            ))
        })
    };
    let (key_rows, value_rows) = (pages(call, 1, &key)?, pages(call, 2, &value)?);
    let [queries, _, features] = three(call, 0, query_rows.dims())?;
    let [all, _, key_features] = three(call, 1, key_rows.dims())?;
    let [_, _, width] = three(call, 2, value_rows.dims())?;
    call.expect_dims(2, &value_rows, &[all, key_heads, width])?;
    call.expect_dims(OUT, &out_rows, &[queries, heads, width])?;
    if features != key_features || features > MOST_FEATURES || width > MOST_FEATURES {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {features} features, {b} {key_features}: expected as many, {MOST_FEATURES} at most"
        )));
    }
    let table = call.read(TABLE, &outs)?;
    call.expect_dtype(TABLE, &table, &[DType::Int32])?;
    let &[batches, columns] = table.dims() else {
        let (name, dims) = (call.parameter(TABLE), table.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    // The first and the last query of each sequence, and how many keys it has.
    let keys = call.ints(LENGTHS[1])?;
    let lengths = match call.has(LENGTHS[0]) {
        true => call.ints(LENGTHS[0])?,
        false if is_packed => vec![1; batches],
        false => vec![query.dims()[1] as i64; batches],
    };
    for (at, list) in LENGTHS.into_iter().zip([&lengths, &keys]) {
        let (name, most) = (call.parameter(at), if at == LENGTHS[0] { 4 } else { columns * page });
        if list.len() != batches {
            let have = list.len();
            return Err(Error::invalid(format!("{name} has {have} numbers: expected {batches}")));
        }
        if let Some(wrong) = list.iter().find(|one| !(0..=most as i64).contains(*one)) {
            return Err(Error::invalid(format!("{name}: {wrong} is outside 0 to {most}")));
        }
    }
    let steps = if is_packed { 0 } else { query.dims()[1] };
    let mut sequences = Vec::new();
    for (batch, length) in lengths.iter().enumerate() {
        if !is_packed && *length as usize > steps {
            let name = call.parameter(LENGTHS[0]);
            return Err(Error::invalid(format!("{name}: {length} is more than {steps}")));
        }
        let rest = if is_packed { 0 } else { steps - *length as usize };
        sequences.extend((0..*length).map(|_| Some(batch)));
        sequences.extend((0..rest).map(|_| None));
    }
    if sequences.len() != queries {
        let (name, have) = (call.parameter(LENGTHS[0]), sequences.len());
        return Err(Error::invalid(format!(
            "{name} has {have} queries in all: expected {queries}"
        )));
    }
    let chosen = call.read(3, &outs)?;
    call.expect_dtype(3, &chosen, &[DType::Int32])?;
    let chosen_rows = chosen.reshaped(&[queries, key_heads, count]).ok_or_else(|| {
        let (name, dims) = (call.parameter(3), chosen.dims());
        Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {:?}",
            [queries, key_heads, count]
        ))
    })?;
    for one in [&key, &value] {
        one.touch_by_index(call);
    }
    let (scale, out) = (call.float(14)? as f32, out.with_layout(out_rows));
    let [name, table_name] = [3, TABLE].map(|at| call.parameter(at));
    call.plan(move |memory| {
        let chosen = PositionAccess::new(chosen.with_layout(chosen_rows).view(memory));
        let table = PositionAccess::new(table.view(memory));
        let pages = all / page;
        for (query, batch) in sequences.iter().enumerate() {
            let Some(batch) = *batch else { continue };
            let have = keys[batch] as usize;
            for (head, at) in (0..key_heads).flat_map(|head| (0..count).map(move |at| (head, at))) {
                let value: i64 = chosen.get(&[query, head, at]);
                let last = have.div_ceil(size) as i64 - 1;
                if value < -1 || value > last {
                    return Err(Fault(format!(
                        "{name}[{query}, {head}, {at}] = {value} is outside -1 to {last}"
                    )));
                }
                let Ok(block) = usize::try_from(value) else { continue };
                for column in block * size / page..((block + 1) * size).min(have).div_ceil(page) {
                    let number: i64 = table.get(&[batch, column]);
                    if !(0..pages as i64).contains(&number) {
                        let last = pages as i64 - 1;
                        return Err(Fault(format!(
                            "{table_name}[{batch}, {column}] = {number} is outside 0 to {last}"
                        )));
                    }
                }
            }
        }
        let rows = |query: usize, head: usize, number: usize| {
            let batch = sequences[query]?;
            if number >= count * size {
                return None;
            }
            let Ok(block) = usize::try_from(chosen.get::<i64>(&[query, head, number / size]))
            else {
                return Some(None);
            };
            let key = block * size + number % size;
            let is_there = key < keys[batch] as usize;
            Some(is_there.then(|| {
                let number = table.get::<i64>(&[batch, key / page]) as usize;
                number * page + key % page
            }))
        };
        let tensors = Selected {
            query: query.with_layout(query_rows).view(memory),
            key: key.with_layout(key_rows).view(memory),
            value: value.with_layout(value_rows).view(memory),
            rotary: None,
            scale,
        };
        attend(memory.parallel, memory.out(&out), &tensors, rows, |_, _, _, _| {});
        Ok(())
    })
}
