//! Products of groups of rows, each with the weights of its group; only the rows that groups have are computed.
//!
//! Workspace: the panels of the largest product, and for half types with a bias the sums in `f32`.

use super::groups::{Groups, ListKind};
use super::quantised::{brings_elements, refuse_quantised};
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, I, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::matmul::{largest_scratch, product_within, scratch_type};
use cairn_tensor::{DType, Layout, Scalar};

// Arguments: x, weights, bias, scale, offset, antiquantScale, antiquantOffset, perTokenScale, group list, activation's three,
// splitItem, groupType, groupListType, actType, out, activation's output, scales' output.
// By name, after those: whether x and whether weights are transposed.
pub(super) const X: usize = 0;
pub(super) const WEIGHT: usize = 1;
const BIAS: usize = 2;
pub(super) const LIST: usize = 8;
pub(super) const SPLIT: usize = 12;
pub(super) const GROUP_TYPE: usize = 13;
pub(super) const LIST_TYPE: usize = 14;
const ACTIVATION: usize = 15;
const OUT: usize = 16;
pub(super) const TRANSPOSED_X: usize = 19;
pub(super) const TRANSPOSED_WEIGHT: usize = 20;

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Rows of a tensor of at least two dimensions.
fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let wrong = || {
        let (name, dims) = (call.parameter(at), layout.dims());
        Error::invalid(format!("{name} ({dims:?}) is no matrix"))
    };
    let (columns, rest) = layout.dims().split_last().ok_or_else(wrong)?;
    if rest.is_empty() {
        return Err(wrong());
    }
    layout.reshaped(&[rest.iter().product(), *columns]).ok_or_else(wrong)
}

/// A product of one group, with a bias of as many numbers as the product has columns.
struct Product {
    left: (Operand, Layout),
    right: (Operand, Layout),
    out: (Operand, Layout),
    bias: Option<(Operand, Layout)>,
}

/// Scratch that the products of a call share.
#[derive(Clone, Copy)]
struct Shared {
    panels: Option<Scratch>,
    sums: Option<Scratch>,
}

impl Shared {
    /// For products of at most these sizes.
    fn new(call: &mut Call<'_>, types: [DType; 3], sizes: [usize; 3], biased: bool) -> Shared {
        let [out, a, b] = types;
        let sums = (biased && out != DType::Float)
            .then(|| call.scratch(DType::Float, &[sizes[0], sizes[1]]));
        let target = if sums.is_some() { DType::Float } else { out };
        let count = largest_scratch(target, a, b, sizes);
        let panels = (count > 0).then(|| call.scratch(scratch_type(a, b), &[count]));
        Shared { panels, sums }
    }
}

impl Product {
    fn run(&self, memory: &Memory<'_>, shared: &Shared) {
        let (parallel, panels) = (memory.parallel, shared.panels.map(|one| memory.scratch(&one)));
        let a = memory.view_with_layout(&self.left.0, self.left.1);
        let b = memory.view_with_layout(&self.right.0, self.right.1);
        let out = memory.out(&self.out.0.with_layout(self.out.1));
        let bias = self.bias.map(|(operand, layout)| {
            let rows = layout.broadcast_to(out.dims()).expect("a bias of each column");
            memory.view_with_layout(&operand, rows)
        });
        let (zero, one) = (Scalar::from(0), Scalar::from(1));
        match (bias, shared.sums) {
            (None, _) => product_within(parallel, out, a, b, zero, panels),
            (Some(bias), None) => {
                copy(parallel, out, bias);
                product_within(parallel, out, a, b, one, panels);
            }
            (Some(bias), Some(sums)) => {
                let sums = memory.scratch(&sums);
                let layout = Layout::contiguous(DType::Float, out.dims());
                let sums = sums.with_layout(layout).expect("no more rows than the largest product");
                product_within(parallel, sums, a, b, zero, panels);
                map2(parallel, out, sums.view(), bias, |x: f32, y: f32| x + y);
            }
        }
    }
}

/// A list of tensors, with their last two dimensions swapped where a flag says so.
fn matrices(call: &mut Call<'_>, at: usize, flag: usize) -> Result<Vec<Operand>> {
    let (list, is_transposed) = (call.tensors(at)?, call.flag_or(flag, false)?);
    if let Some(one) = list.iter().find(|one| is_transposed && one.rank() < 2) {
        let (name, dims) = (call.parameter(at), one.dims());
        return Err(Error::invalid(format!("{name} ({dims:?}) is no matrix")));
    }
    let swapped = |one: Operand| {
        let rank = one.rank();
        one.with_layout(one.layout().transposed(rank - 2, rank - 1))
    };
    Ok(list.into_iter().map(|one| if is_transposed { swapped(one) } else { one }).collect())
}

/// See the top of the file for the arguments.
pub(super) fn grouped(call: &mut Call<'_>) -> Result<Plan> {
    refuse_quantised(call, &[3, 4, 5, 6, 7, 9, 10, 11])?;
    let activation = call.int_or(ACTIVATION, 0)?;
    if activation != 0 {
        let name = call.parameter(ACTIVATION);
        return Err(Error::invalid(format!(
            "{name} = {activation}: products that are not quantised have no activation, which is 0"
        )));
    }
    let split = call.int_or(SPLIT, 0)?;
    if !(0..=3).contains(&split) {
        let name = call.parameter(SPLIT);
        return Err(Error::invalid(format!("{name} = {split} is outside 0 to 3")));
    }
    let outs = call.outputs(OUT)?;
    let x = matrices(call, X, TRANSPOSED_X)?;
    let weights = matrices(call, WEIGHT, TRANSPOSED_WEIGHT)?;
    let bias = if brings_elements(call, BIAS) { call.tensors(BIAS)? } else { Vec::new() };
    for (at, list) in [(X, &x), (WEIGHT, &weights), (OUT, &outs)] {
        let Some(first) = x.first().filter(|_| !list.is_empty()) else {
            let name = call.parameter(at);
            return Err(Error::invalid(format!("{name} is an empty list")));
        };
        for one in list {
            call.expect_dtype(at, one, TYPES)?;
            call.expect_same(at, one, X, first)?;
        }
    }
    for one in &bias {
        call.expect_dtype(BIAS, one, &[x[0].dtype, DType::Float])?;
    }
    let is_single_out = outs.len() == 1;
    if split >= 2 && !is_single_out {
        let (name, count) = (call.parameter(OUT), outs.len());
        let split_name = call.parameter(SPLIT);
        return Err(Error::invalid(format!(
            "{name} has {count} tensors, but {split_name} = {split} makes one"
        )));
    }
    for out in &outs {
        if x.iter().chain(&weights).chain(&bias).any(|one| call.shares(one, out)) {
            return Err(Error::invalid("an input shares memory with the output"));
        }
    }
    match call.int_or(GROUP_TYPE, 0)? {
        2 => by_depth(call, &x, &weights, &outs, !bias.is_empty()),
        -1 | 0 => by_rows(call, &x, &weights, &outs, &bias),
        other => {
            let name = call.parameter(GROUP_TYPE);
            Err(Error::invalid(format!("{name} = {other}: expected -1, 0 or 2")))
        }
    }
}

/// As [`grouped`], with weights in plain order, like all tensors, whatever the name says. The argument after the last is how many
/// terms a quantised group has.
fn grouped_by_plain_weights(call: &mut Call<'_>) -> Result<Plan> {
    let (name, size) = (call.parameter(17), call.int(17)?);
    if size != 0 {
        return Err(Error::invalid(format!("{name} = {size}: quantised calls are not supported")));
    }
    grouped(call)
}

/// Fails unless a layout has these sizes.
fn expect_matrix(call: &Call<'_>, at: usize, layout: &Layout, dims: [usize; 2]) -> Result<()> {
    if layout.dims() == dims {
        return Ok(());
    }
    let (name, have) = (call.parameter(at), layout.dims());
    Err(Error::invalid(format!("{name} has a matrix of {have:?}: expected {dims:?}")))
}

/// Groups of rows: of one `x` by a list, or a tensor for each group.
fn by_rows(
    call: &mut Call<'_>,
    x: &[Operand],
    weights: &[Operand],
    outs: &[Operand],
    bias: &[Operand],
) -> Result<Plan> {
    let is_stacked = weights.len() == 1 && weights[0].rank() == 3;
    let count = if is_stacked { weights[0].dims()[0] } else { weights.len() };
    let weights: Vec<(Operand, Layout)> = (0..count)
        .map(|group| match is_stacked {
            true => (weights[0], weights[0].layout().at(0, group)),
            false => (weights[group], *weights[group].layout()),
        })
        .collect();
    for (_, weight) in &weights {
        as_rows(call, WEIGHT, weight)?;
        if weight.rank() != 2 {
            let (name, dims) = (call.parameter(WEIGHT), weight.dims());
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2 or 3")));
        }
    }
    let has_list = brings_elements(call, LIST)
        || matches!(call.arg(LIST), crate::argument::Arg::Ints(values) if !values.is_empty());
    let is_single_x = x.len() == 1 && (count != 1 || has_list);
    if !is_single_x && x.len() != count {
        let (name, have) = (call.parameter(X), x.len());
        let weight_name = call.parameter(WEIGHT);
        return Err(Error::invalid(format!(
            "{name} has {have} tensors, {weight_name} has {count} groups: expected one, or as many"
        )));
    }
    let is_single_out = outs.len() == 1 && (count != 1 || is_single_x);
    if !is_single_out && outs.len() != count {
        let (name, have) = (call.parameter(OUT), outs.len());
        return Err(Error::invalid(format!(
            "{name} has {have} tensors: expected one, or {count}, as many as there are groups"
        )));
    }
    let bias: Vec<Option<(Operand, Layout)>> = match bias {
        [] => vec![None; count],
        [one] if is_stacked => {
            call.expect_dims(BIAS, one, &[count, weights[0].1.dims()[1]])?;
            (0..count).map(|group| Some((*one, one.layout().at(0, group)))).collect()
        }
        list if list.len() == count => {
            for (one, (_, weight)) in list.iter().zip(&weights) {
                call.expect_dims(BIAS, one, &[weight.dims()[1]])?;
            }
            list.iter().map(|one| Some((*one, *one.layout()))).collect()
        }
        list => {
            let (name, have) = (call.parameter(BIAS), list.len());
            return Err(Error::invalid(format!("{name} has {have} tensors: expected {count}")));
        }
    };
    let rows: Vec<Layout> =
        x.iter().map(|one| as_rows(call, X, one.layout())).collect::<Result<_>>()?;
    let out_rows: Vec<Layout> =
        outs.iter().map(|one| as_rows(call, OUT, one.layout())).collect::<Result<_>>()?;
    for (group, (_, weight)) in weights.iter().enumerate() {
        let left = &rows[if is_single_x { 0 } else { group }];
        let out = &out_rows[if is_single_out { 0 } else { group }];
        if left.dims()[1] != weight.dims()[0] {
            let (a, b, name) = (left.dims(), weight.dims(), call.parameter(X));
            return Err(Error::invalid(format!("{name} {a:?} cannot be multiplied by {b:?}")));
        }
        if out.dims()[1] != weight.dims()[1] {
            expect_matrix(call, OUT, out, [out.dims()[0], weight.dims()[1]])?;
        }
        if !is_single_x && !is_single_out {
            expect_matrix(call, OUT, out, [left.dims()[0], weight.dims()[1]])?;
        }
    }
    let all_rows: usize = rows.iter().map(|one| one.dims()[0]).sum();
    if is_single_out {
        let columns = out_rows[0].dims()[1];
        expect_matrix(call, OUT, &out_rows[0], [all_rows, columns])?;
    }
    let references: Vec<&Operand> = outs.iter().collect();
    let kind = ListKind::read(call, LIST_TYPE)?;
    let list = match has_list {
        true => Some(Groups::read(call, LIST, kind, count, &references)?),
        false if is_single_x => {
            let name = call.parameter(LIST);
            return Err(Error::Null(format!("{name} is null: one x has rows of {count} groups")));
        }
        false => None,
    };
    let largest = rows.iter().map(|one| one.dims()[0]).max().unwrap_or(0);
    let columns = weights.iter().map(|(_, one)| one.dims()[1]).max().unwrap_or(0);
    let depth = weights.iter().map(|(_, one)| one.dims()[0]).max().unwrap_or(0);
    let biased = bias.iter().any(Option::is_some);
    let types = [outs[0].dtype, x[0].dtype, weights[0].0.dtype];
    let shared = Shared::new(call, types, [largest, columns, depth], biased);
    if is_single_x {
        let bound: Vec<Operand> =
            weights.iter().map(|(one, _)| *one).chain(outs.iter().copied()).collect();
        bound.iter().chain(x).for_each(|one| call.touch_by_index(one));
    }
    let (x, outs) = (x.to_vec(), outs.to_vec());
    let mut starts = vec![0; rows.len() + 1];
    (0..rows.len()).for_each(|at| starts[at + 1] = starts[at] + rows[at].dims()[0]);
    let (name, out_name) = (call.parameter(LIST), call.parameter(OUT));
    call.plan(move |memory| {
        let run = |group: usize, from: std::ops::Range<usize>| -> Outcome {
            let length = from.len();
            let (left, left_rows, first) = match is_single_x {
                true => (x[0], rows[0], from.start),
                false => (x[group], rows[group], 0),
            };
            let (out, all, out_first) = match is_single_out {
                true => {
                    (outs[0], out_rows[0], if is_single_x { from.start } else { starts[group] })
                }
                false => (outs[group], out_rows[group], 0),
            };
            if !is_single_out && all.dims()[0] != length {
                let have = all.dims()[0];
                return Err(Fault(format!(
                    "{out_name}[{group}] has {have} rows, but its group has {length}"
                )));
            }
            let product = Product {
                left: (left, left_rows.sliced(0, first, length, 1)),
                right: weights[group],
                out: (out, all.sliced(0, out_first, length, 1)),
                bias: bias[group],
            };
            product.run(memory, &shared);
            Ok(())
        };
        match &list {
            Some(list) if is_single_x => list.visit(memory, all_rows, run),
            Some(list) => {
                list.visit(memory, all_rows, |group, range| {
                    let (want, have) = (rows[group].dims()[0], range.len());
                    if want != have {
                        return Err(Fault(format!(
                            "{name}: group {group} has {have} rows, but its tensor has {want}"
                        )));
                    }
                    Ok(())
                })?;
                (0..count).try_for_each(|group| run(group, 0..rows[group].dims()[0]))
            }
            None => (0..count).try_for_each(|group| run(group, 0..rows[group].dims()[0])),
        }
    })
}

/// Groups of terms: `x` has all of them in its columns, the weights in their rows, or a tensor for each group.
fn by_depth(
    call: &mut Call<'_>,
    x: &[Operand],
    weights: &[Operand],
    outs: &[Operand],
    biased: bool,
) -> Result<Plan> {
    if biased {
        let name = call.parameter(BIAS);
        return Err(Error::invalid(format!("{name} is there: groups of terms have none")));
    }
    let [left] = x else {
        let (name, have) = (call.parameter(X), x.len());
        return Err(Error::invalid(format!("{name} has {have} tensors: expected one")));
    };
    if left.rank() != 2 || weights.iter().any(|one| one.rank() != 2) {
        let (a, b) = (call.parameter(X), call.parameter(WEIGHT));
        return Err(Error::invalid(format!("{a} and {b}: expected matrices for groups of terms")));
    }
    let (m, k, n) = (left.dims()[0], left.dims()[1], weights[0].dims()[1]);
    if weights.len() == 1 && outs.len() == 1 && outs[0].rank() == 3 {
        let count = outs[0].dims()[0];
        call.expect_dims(WEIGHT, &weights[0], &[k, n])?;
        call.expect_dims(OUT, &outs[0], &[count, m, n])?;
        let kind = ListKind::read(call, LIST_TYPE)?;
        let list = Groups::read(call, LIST, kind, count, &[&outs[0]])?;
        return sums_of_groups(call, *left, weights[0], outs[0], list, false);
    }
    if weights.len() != outs.len() {
        let (name, have, want) = (call.parameter(OUT), outs.len(), weights.len());
        return Err(Error::invalid(format!("{name} has {have} tensors: expected {want}")));
    }
    let depths: Vec<usize> = weights.iter().map(|one| one.dims()[0]).collect();
    if depths.iter().sum::<usize>() > k {
        let name = call.parameter(WEIGHT);
        return Err(Error::invalid(format!("{name} has {depths:?} rows, more than {k} in all")));
    }
    for (out, weight) in outs.iter().zip(weights) {
        call.expect_dims(OUT, out, &[m, weight.dims()[1]])?;
    }
    let (widest, deepest) = (
        weights.iter().map(|one| one.dims()[1]).max().unwrap_or(0),
        depths.iter().copied().max().unwrap_or(0),
    );
    let types = [outs[0].dtype, left.dtype, weights[0].dtype];
    let shared = Shared::new(call, types, [m, widest, deepest], false);
    let (left, weights, outs) = (*left, weights.to_vec(), outs.to_vec());
    call.touch_by_index(&left);
    call.plan(move |memory| {
        let mut first = 0;
        for (weight, out) in weights.iter().zip(&outs) {
            let depth = weight.dims()[0];
            let product = Product {
                left: (left, left.layout().sliced(1, first, depth, 1)),
                right: (*weight, *weight.layout()),
                out: (*out, *out.layout()),
                bias: None,
            };
            product.run(memory, &shared);
            first += depth;
        }
        Ok(())
    })
}

/// A matrix of `out` for each group of terms: the columns of `left` that a list names times those rows of `right`. With `adds`
/// it is added to what is there, else groups without terms are 0.
fn sums_of_groups(
    call: &mut Call<'_>,
    left: Operand,
    right: Operand,
    out: Operand,
    list: Groups,
    adds: bool,
) -> Result<Plan> {
    let (m, k, n) = (left.dims()[0], left.dims()[1], right.dims()[1]);
    let count = largest_scratch(out.dtype, left.dtype, right.dtype, [m, n, k]);
    let panels = (count > 0).then(|| call.scratch(scratch_type(left.dtype, right.dtype), &[count]));
    call.touch_by_index(&left);
    call.touch_by_index(&right);
    if adds {
        call.touch_by_index(&out);
    }
    call.plan(move |memory| {
        let panels = panels.map(|one| memory.scratch(&one));
        list.visit(memory, k, |_, _| Ok(()))?;
        if !adds {
            fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        }
        let beta = Scalar::from(i64::from(adds));
        list.visit(memory, k, |group, terms| {
            let a = left.layout().sliced(1, terms.start, terms.len(), 1);
            let b = right.layout().sliced(0, terms.start, terms.len(), 1);
            let target = memory.out(&out.with_layout(out.layout().at(0, group)));
            let (a, b) = (memory.view_with_layout(&left, a), memory.view_with_layout(&right, b));
            product_within(memory.parallel, target, a, b, beta, panels);
            Ok(())
        })
    })
}

/// Arguments: x (terms before rows), weights, list, y (read and written), whether x and weights are transposed, group type, list type.
fn grouped_add(call: &mut Call<'_>) -> Result<Plan> {
    let y = call.inout(3)?;
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    for (at, want) in [(4, 1), (5, 0), (6, 2)] {
        let have = match call.arg(at) {
            crate::argument::Arg::Absent => want,
            _ => call.int(at).or_else(|_| call.flag(at).map(i64::from))?,
        };
        if have != want {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} = {have}: expected {want}, there is no other"
            )));
        }
    }
    call.expect_dtype(0, &x, &[DType::Float16, DType::Bf16])?;
    call.expect_same(1, &weight, 0, &x)?;
    call.expect_dtype(3, &y, &[DType::Float])?;
    if x.rank() != 2 || weight.rank() != 2 || x.dims()[0] != weight.dims()[0] {
        let (a, b, name) = (x.dims(), weight.dims(), call.parameter(0));
        return Err(Error::invalid(format!("{name} {a:?} goes with no weights of {b:?}")));
    }
    let (m, n) = (x.dims()[1], weight.dims()[1]);
    let kind = ListKind::read(call, 7)?;
    let entries = call.layout(2)?.dims().first().copied().unwrap_or(0);
    let layout = y.layout().reshaped(&[entries, m, n]).filter(|_| matches!(y.rank(), 2 | 3));
    let Some(layout) = layout else {
        let (name, dims) = (call.parameter(3), y.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {:?}",
            [entries, m, n]
        )));
    };
    if call.shares(&x, &y) || call.shares(&weight, &y) {
        return Err(Error::invalid("an input shares memory with the output"));
    }
    let list = Groups::read(call, 2, kind, entries, &[&y])?;
    let left = x.with_layout(x.layout().transposed(0, 1));
    sums_of_groups(call, left, weight, y.with_layout(layout), list, true)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("GroupedMatmul", grouped).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
        No,
        No,
        No,
        A(8),
        I(0),
        I(0),
        I(0),
        A(9),
    ]),
    aclnn("GroupedMatmulV2", grouped).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
        No,
        No,
        No,
        A(8),
        A(9),
        I(0),
        I(0),
        A(10),
    ]),
    aclnn("GroupedMatmulV3", grouped).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
        No,
        No,
        No,
        A(8),
        A(9),
        I(0),
        I(0),
        A(10),
    ]),
    aclnn("GroupedMatmulV4", grouped),
    aclnn("GroupedMatmulV5", grouped).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        A(10),
        A(11),
        A(12),
        A(13),
        A(14),
        A(15),
        A(17),
    ]),
    aclnn("GroupedMatmulWeightNz", grouped_by_plain_weights).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        A(10),
        A(11),
        A(12),
        A(13),
        A(14),
        A(15),
        A(18),
        A(17),
    ]),
    aclnn("GroupedMatmulAdd", grouped_add),
    aclnn("GroupedMatmulAddV2", grouped_add),
];
