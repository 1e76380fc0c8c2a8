//! Merges results of attention over parts of the keys (ring attention).

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Among, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::merge::{Partial, merge_by_logarithms, merge_two};
use cairn_tensor::{DType, Layout};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Results in the order of positions, batches, heads, features; fails if the sizes do not fit the form.
fn checked_result_layout(
    call: &Call<'_>,
    at: usize,
    layout: &Layout,
    form: &str,
    heads: usize,
) -> Result<Layout> {
    let dims = layout.dims();
    match (form, dims) {
        ("TND", [_, n, _]) if *n == heads => Ok(layout.with(1)),
        ("SBH", [s, b, h]) if heads > 0 && h.is_multiple_of(heads) => {
            let (strides, features) = (layout.strides(), h / heads);
            let strides = [strides[0], strides[1], features as isize * strides[2], strides[2]];
            let dims = [*s, *b, heads, features];
            Ok(Layout::strided(layout.dtype, &dims, &strides, layout.offset))
        }
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}, which are no {form} of {heads} heads"
            )))
        }
    }
}

/// Arguments: result, greatest scores and sums of one part, those of the other, ends of sequences from 0 on or absent, order
/// of dimensions, that of scores and sums or absent, result, greatest scores and sums.
fn merge(call: &mut Call<'_>) -> Result<Plan> {
    let form = call.text(7)?.to_string();
    let stats_form = call.text(8)?.to_string();
    if !matches!(form.as_str(), "TND" | "SBH") {
        let name = call.parameter(7);
        return Err(Error::invalid(format!("{name} = {form:?}: TND and SBH are known")));
    }
    if !matches!(stats_form.as_str(), "" | "TND" | "SBH") {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {stats_form:?}: TND and SBH are known")));
    }
    let packed = form == "TND";
    let by_heads = packed && stats_form != "TND";
    let (out, greatest, sums) = (call.output(9)?, call.output(10)?, call.output(11)?);
    let outs = [&out, &greatest, &sums];
    let mut reads = Vec::with_capacity(6);
    for at in 0..6 {
        reads.push(call.read(at, &outs)?);
    }
    call.expect_dtype(0, &reads[0], REAL)?;
    let mut stats = reads[1].dims().to_vec();
    let heads = match (packed, stats.len()) {
        (true, 3) | (false, 4) => stats[1],
        _ => 0,
    };
    let expected = checked_result_layout(call, 0, &reads[0], &form, heads)?;
    let fits = match packed {
        true => stats[0] == expected.dims()[0],
        false => stats[0] == expected.dims()[1] && stats[2] == expected.dims()[0],
    };
    if !fits || stats.last() == Some(&0) {
        let (name, dims) = (call.parameter(1), reads[0].dims());
        return Err(Error::invalid(format!("{name} has the sizes {stats:?}: {dims:?} has others")));
    }
    for at in [3, 9] {
        let one: &Layout = if at == 3 { &reads[3] } else { &out };
        call.expect_dims(at, one, reads[0].dims())?;
        call.expect_same(at, one, 0, &reads[0])?;
    }
    for (at, one) in [(1, &*reads[1]), (2, &*reads[2]), (4, &*reads[4]), (5, &*reads[5])]
        .into_iter()
        .chain([(10, greatest.layout()), (11, sums.layout())])
    {
        call.expect_dims(at, one, &stats)?;
        call.expect_dtype(at, one, &[DType::Float])?;
        if by_heads && !one.is_contiguous() {
            let name = call.parameter(at);
            return Err(Error::invalid(format!("{name} is not contiguous")));
        }
    }
    let ends = if by_heads { Some(call.read_index(6, &outs)?) } else { None };
    let ends_name = call.parameter(6);
    // Each statistic is there several times, along the last dimension.
    let repeats = stats.pop().unwrap_or(0);
    let tokens = reads[0].dims()[0];
    call.plan(move |memory| {
        let as_result = |layout: &Layout| result_layout(layout, packed, heads);
        let views: Vec<_> = reads.iter().map(|read| read.view(memory)).collect();
        let stats_of = |layout: &Layout, range: &std::ops::Range<usize>| match (packed, by_heads) {
            (true, true) => {
                let strides = [repeats as isize, 0, (range.len() * repeats) as isize, 1];
                let dims = [range.len(), 1, heads, repeats];
                let start = layout.offset + (range.start * heads * repeats) as isize;
                Layout::strided(layout.dtype, &dims, &strides, start)
            }
            (true, false) => layout.sliced(0, range.start, range.len(), 1).with(1),
            (false, _) => layout.permuted(&[2, 0, 1, 3]),
        };
        let results_of = |layout: &Layout, range: &std::ops::Range<usize>| match packed {
            true => as_result(layout).sliced(0, range.start, range.len(), 1),
            false => as_result(layout),
        };
        let mut ranges: Vec<std::ops::Range<usize>> = std::iter::once(0..tokens).collect();
        if let Some(ends) = &ends {
            let ends = ends.view(memory);
            let positions = PositionAccess::new(ends);
            let values: Vec<i64> = (0..ends.count()).map(|at| positions.get(&[at])).collect();
            let is_valid = values.first() == Some(&0)
                && values.last() == Some(&(tokens as i64))
                && values.is_sorted();
            if !is_valid {
                return Err(Fault(format!(
                    "{ends_name} = {values:?}: expected ends of sequences from 0 to {tokens}"
                )));
            }
            ranges = values.windows(2).map(|two| two[0] as usize..two[1] as usize).collect();
        }
        for range in &ranges {
            let part = |at: usize| {
                let one =
                    |at: usize, layout: Layout| views[at].with_layout(layout).expect("a part");
                Partial {
                    result: one(at, results_of(views[at].layout(), range)),
                    greatest: one(at + 1, stats_of(views[at + 1].layout(), range)),
                    sums: one(at + 2, stats_of(views[at + 2].layout(), range)),
                }
            };
            let stats_out = |one: &Operand| memory.out(&one.with_layout(stats_of(one, range)));
            let out = memory.out(&out.with_layout(results_of(&out, range)));
            merge_two(
                memory.parallel,
                [part(0), part(3)],
                out,
                stats_out(&greatest),
                stats_out(&sums),
            );
        }
        Ok(())
    })
}

/// As [`checked_result_layout`], of sizes that were checked.
fn result_layout(layout: &Layout, packed: bool, heads: usize) -> Layout {
    let (dims, strides) = (layout.dims(), layout.strides());
    if packed {
        return layout.with(1);
    }
    let features = dims[2] / heads;
    let strides = [strides[0], strides[1], features as isize * strides[2], strides[2]];
    let dims = [dims[0], dims[1], heads, features];
    Layout::strided(layout.dtype, &dims, &strides, layout.offset)
}

/// Arguments: logarithms of sums of each part, results of each part, whether the logarithms of all sums are wanted, result,
/// logarithms or absent, how many parts there are or absent.
fn update(call: &mut Call<'_>) -> Result<Plan> {
    let (kind, out) = (call.int(2)?, call.output(3)?);
    let total = match kind {
        0 => None,
        1 => Some(call.output(4)?),
        other => {
            let name = call.parameter(2);
            return Err(Error::invalid(format!("{name} = {other}: 0 and 1 are known")));
        }
    };
    let (logarithms, results) = (call.tensors(0)?, call.tensors(1)?);
    let (count, names) = (logarithms.len(), [call.parameter(0), call.parameter(1)]);
    let declared = call.int_or(5, count as i64)?;
    if count == 0 || results.len() != count || declared != count as i64 {
        let (other, [a, b]) = (results.len(), names);
        return Err(Error::invalid(format!(
            "{a} has {count} tensors, {b} has {other}: expected as many of both, and {declared}"
        )));
    }
    call.expect_dtype(1, &results[0], REAL)?;
    if results[0].rank() != 2 {
        let (name, dims) = (names[1], results[0].dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected two")));
    }
    let rows = results[0].dims()[0];
    call.expect_dims(3, &out, results[0].dims())?;
    call.expect_dtype(3, &out, REAL)?;
    if let Some(total) = &total {
        call.expect_dims(4, total, &[rows])?;
        call.expect_dtype(4, total, &[DType::Float])?;
    }
    let outs: Vec<_> = [&out].into_iter().chain(&total).collect();
    let mut reads: [Vec<UnaliasedInput>; 2] = [Vec::new(), Vec::new()];
    for (logarithm, one) in logarithms.into_iter().zip(results) {
        call.expect_dims(0, &logarithm, &[rows])?;
        call.expect_dtype(0, &logarithm, &[DType::Float])?;
        call.expect_dims(1, &one, out.dims())?;
        call.expect_dtype(1, &one, REAL)?;
        reads[0].push(call.unaliased(logarithm, &outs));
        reads[1].push(call.unaliased(one, &outs));
    }
    call.plan(move |memory| {
        let [logarithms, results] = [&reads[0], &reads[1]]
            .map(|reads| reads.iter().map(|one| one.view(memory)).collect::<Vec<_>>());
        let total = total.map(|total| memory.out(&total));
        merge_by_logarithms(memory.parallel, &logarithms, &results, memory.out(&out), total);
        Ok(())
    })
}

fn infer_updated(call: &Call<'_>) -> Result<Vec<Layout>> {
    let first = |at: usize| match call.arg(at) {
        crate::argument::Arg::Tensors(all) if !all.is_empty() => Ok(all[0].layout.packed()),
        _ => Err(Error::Null(format!("{} has no tensors", call.parameter(at)))),
    };
    Ok(vec![first(1)?, first(0)?])
}

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("RingAttentionUpdate", merge).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), No, A(8), A(9), A(10),
    ]),
    aclnn("RingAttentionUpdateV2", merge),
    aclnn("AttentionUpdate", update),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "AttentionUpdate",
    &["lse[]", "go[]"],
    &["output", "lse_m"],
    Infer::By(infer_updated),
    update,
    &[
        Among(0, 2, 0),
        Among(1, 2, 0),
        Attr("update_type", AttrDefault::Required),
        O(0),
        O(1),
        Attr("sp", AttrDefault::Required),
    ],
)];
