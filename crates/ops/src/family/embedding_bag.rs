//! Rows of a table that indices name, reduced (sum, mean, max) over each bag of indices.
//!
//! Workspace: the indices, where they are several rows that are not contiguous; and a copy of each input that
//! shares memory with an output.

use super::inputs::out_of_range;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::bags::{BadBag, BagMode, BagOutputs, Bags, fill_bags};
use cairn_tensor::{DType, Layout};

// The indices of the arguments.
const TABLE: usize = 0;
const INDEX: usize = 1;
const STARTS: usize = 2;
const MODE: usize = 3;
const WEIGHTS: usize = 4;
/// Whether the end of the last bag follows the starts.
const WITH_END: usize = 5;
/// The index that does not count.
const PADDING: usize = 6;
const OUT: usize = 7;
/// Output: the bag of each index.
const BAG_OF: usize = 8;
/// Output: how many indices each bag has.
const LENGTHS: usize = 9;
/// Output: of a maximum, the row that each element comes from.
const MAX_INDICES: usize = 10;

/// How the rows of a bag are reduced: 0 and 1 are sum and mean, any other number the maximum; or a text.
fn mode(call: &Call<'_>) -> Result<BagMode> {
    let Arg::Text(text) = call.arg(MODE) else {
        return Ok(match call.int(MODE)? {
            0 => BagMode::Sum,
            1 => BagMode::Mean,
            _ => BagMode::Max,
        });
    };
    match text.as_str() {
        "sum" => Ok(BagMode::Sum),
        "mean" => Ok(BagMode::Mean),
        "max" => Ok(BagMode::Max),
        other => {
            let name = call.parameter(MODE);
            Err(Error::invalid(format!("{name} = {other:?}: sum, mean and max are known")))
        }
    }
}

/// How many bags there are.
fn bag_count(call: &Call<'_>) -> Result<usize> {
    let index = call.layout(INDEX)?;
    let wrong = |at: usize, layout: &Layout, expected: &str| {
        let (name, dims) = (call.parameter(at), layout.dims());
        Error::invalid(format!("{name} has the sizes {dims:?}: expected {expected}"))
    };
    if !call.has(STARTS) {
        return match index.rank() {
            2 => Ok(index.dims()[0]),
            _ => Err(wrong(INDEX, &index, "a row for each bag, where no bag has a start")),
        };
    }
    let starts = call.layout(STARTS)?;
    if index.rank() != 1 {
        return Err(wrong(INDEX, &index, "one dimension"));
    }
    if starts.rank() != 1 {
        return Err(wrong(STARTS, &starts, "one dimension"));
    }
    let has_end = call.flag_or(WITH_END, false)?;
    match starts.dims()[0].checked_sub(usize::from(has_end)) {
        Some(count) => Ok(count),
        None => Err(wrong(STARTS, &starts, "at least the end of the last bag")),
    }
}

/// The type of indices in the results: that of more bits of indices and starts.
fn index_type(call: &Call<'_>) -> Result<DType> {
    let mut types = vec![call.layout(INDEX)?.dtype];
    if call.has(STARTS) {
        types.push(call.layout(STARTS)?.dtype);
    }
    Ok(if types.contains(&DType::Int64) { DType::Int64 } else { DType::Int32 })
}

/// For the arguments see [`TABLE`] and the constants after it.
fn embedding_bag(call: &mut Call<'_>) -> Result<Plan> {
    let (mode, count) = (mode(call)?, bag_count(call)?);
    let arg_indices = [OUT, BAG_OF, LENGTHS, MAX_INDICES];
    let mut outs = Vec::with_capacity(arg_indices.len());
    for at in arg_indices {
        outs.push(call.output(at)?);
    }
    let [out, bag_of, lengths, max_indices] = outs[..] else {
        unreachable!("as many as there are outputs")
    };
    let outs: Vec<_> = outs.iter().collect();
    let table = call.read_by_index(TABLE, &outs)?;
    call.expect_dtype(TABLE, &table, &[DType::Float, DType::Float16, DType::Bf16])?;
    if table.rank() != 2 {
        let (name, dims) = (call.parameter(TABLE), table.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected two")));
    }
    let columns = table.dims()[1];
    let index = call.read_index(INDEX, &outs)?;
    let indices = index.count();
    let index = call.flat_input(index);
    let starts = match call.has(STARTS) {
        true => Some(call.read_index(STARTS, &outs)?),
        false => None,
    };
    let weights = match call.has(WEIGHTS) {
        false => None,
        true => {
            let weights = call.read(WEIGHTS, &outs)?;
            call.expect_same(WEIGHTS, &weights, TABLE, &table)?;
            if weights.count() != indices || mode != BagMode::Sum {
                let (name, dims) = (call.parameter(WEIGHTS), weights.dims());
                return Err(Error::invalid(format!(
                    "{name} ({dims:?}): sums alone take weights, one for each of {indices} indices"
                )));
            }
            Some(call.flat_input(weights))
        }
    };
    call.expect_dims(OUT, &out, &[count, columns])?;
    call.expect_same(OUT, &out, TABLE, &table)?;
    let index_dtype = index_type(call)?;
    for (at, one) in [(BAG_OF, &bag_of), (LENGTHS, &lengths), (MAX_INDICES, &max_indices)] {
        call.expect_dtype(at, one, &[index_dtype])?;
    }
    if bag_of.count() > 0 {
        call.expect_dims(BAG_OF, &bag_of, &[indices])?;
    }
    call.expect_dims(LENGTHS, &lengths, &[count])?;
    match mode {
        BagMode::Max => call.expect_dims(MAX_INDICES, &max_indices, &[count, columns])?,
        _ if max_indices.count() == 0 => {}
        _ => call.expect_dims(MAX_INDICES, &max_indices, &[count])?,
    }
    let padding = usize::try_from(call.int(PADDING)?).ok();
    let (index_name, start_name) = (call.parameter(INDEX), call.parameter(STARTS));
    call.plan(move |memory| {
        let bags = Bags {
            table: table.view(memory),
            index: index.view(memory),
            starts: starts.as_ref().map(|one| one.view(memory)),
            count,
            weights: weights.as_ref().map(|one| one.view(memory)),
            padding,
            mode,
        };
        let outputs = BagOutputs {
            rows: memory.out(&out),
            bags: memory.out(&bag_of),
            lengths: memory.out(&lengths),
            from: memory.out(&max_indices),
        };
        fill_bags(memory.parallel, &bags, outputs).map_err(|bad| match bad {
            BadBag::Index(bad) => out_of_range(index_name, bad),
            BadBag::Start(bag, start) => Fault(format!(
                "{start_name}[{bag}] = {start}: bags begin at 0, follow each other, and end at {indices} at the latest"
            )),
        })
    })
}

fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (table, index) = (call.layout(TABLE)?, call.layout(INDEX)?);
    let (count, index_dtype) = (bag_count(call)?, index_type(call)?);
    let columns = table.dims().last().copied().unwrap_or(0);
    let max_dims: &[usize] = match mode(call)? {
        BagMode::Max => &[count, columns],
        _ => &[count],
    };
    Ok(vec![
        Layout::contiguous(table.dtype, &[count, columns]),
        Layout::contiguous(index_dtype, &[index.count()]),
        Layout::contiguous(index_dtype, &[count]),
        Layout::contiguous(index_dtype, max_dims),
    ])
}

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[aclnn("EmbeddingBag", embedding_bag).with_args(&[
    A(0), A(1), A(2), A(4), A(6), A(7), A(8), A(9), A(10), A(11), A(12),
])];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "EmbeddingBag",
    &["weight", "indices", "offsets?", "per_sample_weights?"],
    &["y", "offset2bag", "bag_size", "max_indices"],
    Infer::By(outputs),
    embedding_bag,
    &[
        A(0),
        A(1),
        A(2),
        Attr("mode", AttrDefault::Text("mean")),
        A(3),
        Attr("include_last_offset", AttrDefault::Flag(false)),
        Attr("padding_idx", AttrDefault::Int(-1)),
        O(0),
        O(1),
        O(2),
        O(3),
    ],
)];
