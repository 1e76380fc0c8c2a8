//! Products of groups of rows by IR name. Lists of inputs have lengths of their own.

use super::grouped_matmul::{
    GROUP_TYPE, LIST, LIST_TYPE, SPLIT, TRANSPOSED_WEIGHT, TRANSPOSED_X, WEIGHT, X, grouped,
};
use super::groups::ListKind;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::table::ArgSource::{Attr, Beyond, Listed, No, Outs};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::{Dims, Layout};

/// The sizes of a list of matrices, with the last two swapped where a flag says so.
fn sizes(call: &Call<'_>, at: usize, flag: usize) -> Result<Vec<Dims>> {
    let Arg::Tensors(list) = call.arg(at) else { return Ok(Vec::new()) };
    let is_transposed = call.flag_or(flag, false)?;
    let mut all = Vec::new();
    for one in list {
        let (mut dims, rank) = (Dims::new(one.layout.dims()), one.layout.rank());
        if rank < 2 {
            let (name, dims) = (call.parameter(at), one.layout.dims());
            return Err(Error::invalid(format!("{name} ({dims:?}) is no matrix")));
        }
        if is_transposed {
            dims.swap(rank - 2, rank - 1);
        }
        all.push(dims);
    }
    match all.is_empty() {
        true => Err(Error::invalid(format!("{} is an empty list", call.parameter(at)))),
        false => Ok(all),
    }
}

/// How many rows each group has, where the list is known before a run.
fn group_rows(call: &Call<'_>) -> Result<Vec<usize>> {
    let name = call.parameter(LIST);
    let values = call.ints(LIST).map_err(|_| {
        Error::invalid(format!(
            "{name} is no constant, but decides the sizes of several outputs: make it one, or set split_item to 2 or 3"
        ))
    })?;
    let kind = ListKind::read(call, LIST_TYPE)?;
    let (mut rows, mut end) = (Vec::new(), 0);
    for value in &values {
        let length = match kind {
            ListKind::Ends => value - end,
            ListKind::Lengths => *value,
            ListKind::Pairs => {
                let list_type = call.parameter(LIST_TYPE);
                return Err(Error::invalid(format!(
                    "{list_type} = 2 makes one output: expected 0 or 1"
                )));
            }
        };
        end = *value;
        rows.push(usize::try_from(length).map_err(|_| {
            Error::invalid(format!("{name} = {values:?} has a group of {length} rows"))
        })?);
    }
    Ok(rows)
}

/// One output for `split_item` 2 and 3, else one for each group.
fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, weights) = (sizes(call, X, TRANSPOSED_X)?, sizes(call, WEIGHT, TRANSPOSED_WEIGHT)?);
    let Arg::Tensors(list) = call.arg(X) else { return Ok(Vec::new()) };
    let dtype = list[0].layout.dtype;
    let columns = |group: usize| {
        let weight = &weights[group.min(weights.len() - 1)];
        weight[weight.len() - 1]
    };
    let row_count = |dims: &Dims| dims[..dims.len() - 1].iter().product::<usize>();
    let is_single = call.int_or(SPLIT, 0)? >= 2;
    let dims: Vec<Dims> = match (call.int_or(GROUP_TYPE, -1)?, is_single) {
        (2, true) => {
            let groups = call.layout(LIST)?.dims().first().copied().unwrap_or(0);
            vec![Dims::new(&[groups, x[0][0], columns(0)])]
        }
        (2, false) => {
            (0..weights.len()).map(|group| Dims::new(&[x[0][0], columns(group)])).collect()
        }
        (_, true) if x.len() == 1 => vec![with_columns(&x[0], columns(0))],
        (_, true) => {
            let rows = x.iter().map(row_count).sum();
            vec![Dims::new(&[rows, columns(0)])]
        }
        (_, false) if x.len() == 1 && call.has(LIST) => {
            let rows = group_rows(call)?;
            let matrix = |(group, rows): (usize, &usize)| Dims::new(&[*rows, columns(group)]);
            rows.iter().enumerate().map(matrix).collect()
        }
        (_, false) => {
            x.iter().enumerate().map(|(group, dims)| with_columns(dims, columns(group))).collect()
        }
    };
    Ok(dims.iter().map(|dims| Layout::contiguous(dtype, dims)).collect())
}

/// The sizes with another last one.
fn with_columns(dims: &Dims, columns: usize) -> Dims {
    let mut dims = *dims;
    let last = dims.len() - 1;
    dims[last] = columns;
    dims
}

/// The operators of this file.
#[rustfmt::skip]
pub const NODES: &[Node] = &[node(
    "GroupedMatmul",
    &[
        "x[]", "weight[]", "bias[]", "scale[]", "offset[]", "antiquant_scale[]", "antiquant_offset[]", "group_list?",
        "per_token_scale?",
    ],
    &["y[]"],
    Infer::By(outputs),
    grouped,
    &[
        Listed(0), Listed(1), Listed(2), Listed(3), Listed(4), Listed(5), Listed(6), Beyond(8), Beyond(7), No, No, No,
        Attr("split_item", AttrDefault::Int(0)), Attr("group_type", AttrDefault::Int(-1)),
        Attr("group_list_type", AttrDefault::Int(0)), Attr("act_type", AttrDefault::Int(0)), Outs(0),
        // They choose types of quantised results and how products are cut: nothing of these.
        Attr("dtype", AttrDefault::Int(0)), Attr("tuning_config", AttrDefault::Ints(&[0])),
        Attr("transpose_x", AttrDefault::Flag(false)), Attr("transpose_weight", AttrDefault::Flag(false)),
    ],
)];
