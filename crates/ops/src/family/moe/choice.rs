//! Which experts tokens are given to.
//!
//! Workspace: the weights of all experts in `f32`, and a key with its index for each.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::moe::choice::{
    Choice, Chosen, MOST_GROUPS, Norm, Renorm, choose, sigmoid_gradient,
};
use cairn_tensor::{DType, Dims, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The most experts that the general choice takes.
const MOST_EXPERTS: usize = 2048;

/// A number of the row or the caller, which is one of these.
fn one_of(call: &Call<'_>, at: usize, allowed: std::ops::RangeInclusive<i64>) -> Result<i64> {
    let value = call.int(at)?;
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (name, low, high) = (call.parameter(at), allowed.start(), allowed.end());
    Err(Error::invalid(format!("{name} = {value} is outside {low} to {high}")))
}

/// Tokens and experts of scores, whose first dimensions are tokens.
fn matrix(call: &Call<'_>, at: usize, layout: &Layout, ranks: &[usize]) -> Result<[usize; 2]> {
    let split = layout.dims().split_last().filter(|_| ranks.contains(&layout.rank()));
    let Some((experts, tokens)) = split else {
        let (name, dims) = (call.parameter(at), layout.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {ranks:?} dimensions"
        )));
    };
    Ok([tokens.iter().product(), *experts])
}

/// A tensor as rows, which it must be without a copy.
fn as_rows(call: &Call<'_>, at: usize, operand: Operand, dims: [usize; 2]) -> Result<Operand> {
    match operand.reshaped(&dims) {
        Some(layout) => Ok(operand.with_layout(layout)),
        None => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} ({}) has no rows in order", operand.layout())))
        }
    }
}

/// Arguments: x, finished, k, renorm, whether the softmax is wanted, y, experts, row numbers, softmax.
fn softmax_choice(call: &mut Call<'_>) -> Result<Plan> {
    let (weights, experts) = (call.output(5)?, call.output(6)?);
    let renorm = one_of(call, 3, 0..=1)?;
    let places = call.optional_output(7)?;
    let wants_softmax = renorm == 0 && call.flag(4)? && call.has(8);
    let softmax = if wants_softmax { Some(call.output(8)?) } else { None };
    let mut outs = vec![&weights, &experts];
    outs.extend(places.iter().chain(&softmax));
    let x = call.read(0, &outs)?;
    call.expect_dtype(0, &x, TYPES)?;
    let [tokens, count] = matrix(call, 0, &x, &[2, 3])?;
    let k = one_of(call, 2, 0..=(count.min(1024) as i64))? as usize;
    let mut dims = Dims::new(x.dims());
    dims[x.rank() - 1] = k;
    call.expect_dims(5, &weights, &dims)?;
    call.expect_same(5, &weights, 0, &x)?;
    for (at, out) in [(6, Some(&experts)), (7, places.as_ref())] {
        if let Some(out) = out {
            call.expect_dims(at, out, &dims)?;
            call.expect_dtype(at, out, &[DType::Int32])?;
        }
    }
    let finished = match call.has(1) {
        true => {
            let read = call.read(1, &outs)?;
            call.expect_dtype(1, &read, &[DType::Bool])?;
            call.expect_dims(1, &read, &x.dims()[..x.rank() - 1])?;
            Some(read)
        }
        false => None,
    };
    if let Some(softmax) = &softmax {
        call.expect_dims(8, softmax, x.dims())?;
        call.expect_dtype(8, softmax, &[DType::Float])?;
    }
    let choice = Choice {
        norm: if renorm == 1 { Norm::None } else { Norm::Softmax },
        groups: 1,
        kept_groups: 1,
        counted: 1,
        renorm: if renorm == 1 { Renorm::Softmax } else { Renorm::None },
        scale: 1.0,
    };
    let rows = [tokens, k];
    let (weights, experts) = (as_rows(call, 5, weights, rows)?, as_rows(call, 6, experts, rows)?);
    let places = places.map(|out| as_rows(call, 7, out, rows)).transpose()?;
    let softmax = softmax.map(|out| as_rows(call, 8, out, [tokens, count])).transpose()?;
    let flat = |layout: &Layout, dims: &[usize]| layout.reshaped(dims);
    let Some(x_rows) = flat(&x, &[tokens, count]) else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} ({}) has no rows in order", *x)));
    };
    let x = x.with_layout(x_rows);
    let finished = match finished {
        Some(read) => match flat(&read, &[tokens]) {
            Some(layout) => Some(read.with_layout(layout)),
            None => {
                let name = call.parameter(1);
                return Err(Error::invalid(format!("{name} ({}) is not in order", *read)));
            }
        },
        None => None,
    };
    let scratch = call.scratch(DType::Float, &[tokens, count]);
    let entries = call.scratch(DType::Uint8, &[tokens.saturating_mul(count), 8]);
    call.plan(move |memory| {
        if let Some(places) = &places {
            let to = PositionAccessMut::new(memory.out(places));
            for token in 0..tokens {
                (0..k).for_each(|slot| to.set(&[token, slot], (slot * tokens + token) as i64));
            }
        }
        let chosen = Chosen {
            scores: x.view(memory),
            bias: None,
            finished: finished.map(|read| read.view(memory)),
            by_kind: None,
            weights: memory.out(&weights),
            experts: memory.out(&experts),
            norm: softmax.map(|out| memory.out(&out)),
            scratch: memory.scratch(&scratch),
            entries: memory.scratch(&entries),
        };
        choose(memory.parallel, &choice, &chosen).map_err(Fault)
    })
}

/// Arguments: x, bias, kinds of tokens, experts of kinds, k, groups that are kept, groups, how groups are compared, renorm, norm, whether
/// the norm is wanted, scale, epsilon, y, experts, norm.
fn group_choice(call: &mut Call<'_>) -> Result<Plan> {
    let (weights, experts) = (call.output(13)?, call.output(14)?);
    let norm_out = match call.flag(10)? && call.has(15) {
        true => Some(call.output(15)?),
        false => None,
    };
    let mut outs = vec![&weights, &experts];
    outs.extend(&norm_out);
    let x = call.read(0, &outs)?;
    call.expect_dtype(0, &x, TYPES)?;
    let [tokens, count] = matrix(call, 0, &x, &[2])?;
    if count == 0 || count > MOST_EXPERTS {
        let name = call.parameter(0);
        return Err(Error::invalid(format!(
            "{name} has {count} experts: expected 1 to {MOST_EXPERTS}"
        )));
    }
    let groups = one_of(call, 6, 1..=(count.min(MOST_GROUPS) as i64))? as usize;
    let by_pairs = one_of(call, 7, 0..=1)? == 1;
    if !count.is_multiple_of(groups) || count / groups <= usize::from(by_pairs) {
        let name = call.parameter(6);
        return Err(Error::invalid(format!(
            "{name} = {groups} groups of {count} experts: expected groups of one size, at least {}",
            1 + usize::from(by_pairs)
        )));
    }
    let kept_groups = one_of(call, 5, 1..=(groups as i64))? as usize;
    let k = one_of(call, 4, 1..=((count / groups * kept_groups) as i64))? as usize;
    let renorm = one_of(call, 8, 0..=1)? == 1;
    let norm = match one_of(call, 9, 0..=2)? {
        0 => Norm::Softmax,
        1 => Norm::Sigmoid,
        _ => Norm::RootSoftplus,
    };
    let (scale, epsilon) = (call.float(11)? as f32, call.float(12)? as f32);
    let bias = match call.has(1) {
        true => {
            let read = call.read(1, &outs)?;
            call.expect_dtype(1, &read, TYPES)?;
            call.expect_dims(1, &read, &[count])?;
            Some(read)
        }
        false => None,
    };
    let by_kind = kinds(call, tokens, k, &outs)?;
    call.expect_dims(13, &weights, &[tokens, k])?;
    call.expect_same(13, &weights, 0, &x)?;
    call.expect_dims(14, &experts, &[tokens, k])?;
    call.expect_dtype(14, &experts, &[DType::Int32])?;
    if let Some(out) = &norm_out {
        call.expect_dims(15, out, &[tokens, count])?;
        call.expect_dtype(15, out, &[DType::Float])?;
    }
    let sums = renorm || norm != Norm::Softmax;
    let choice = Choice {
        norm,
        groups,
        kept_groups,
        counted: 1 + usize::from(by_pairs),
        renorm: if sums { Renorm::Sum(epsilon) } else { Renorm::None },
        scale,
    };
    let scratch = call.scratch(DType::Float, &[tokens, count]);
    let entries = call.scratch(DType::Uint8, &[tokens.saturating_mul(count), 8]);
    let names = [call.parameter(2), call.parameter(3)];
    call.plan(move |memory| {
        if let Some((kinds, table)) = &by_kind {
            check_kinds(memory, names, kinds, table, count)?;
        }
        let chosen = Chosen {
            scores: x.view(memory),
            bias: bias.map(|read| read.view(memory)),
            finished: None,
            by_kind: by_kind.map(|(kinds, table)| (kinds.view(memory), table.view(memory))),
            weights: memory.out(&weights),
            experts: memory.out(&experts),
            norm: norm_out.map(|out| memory.out(&out)),
            scratch: memory.scratch(&scratch),
            entries: memory.scratch(&entries),
        };
        choose(memory.parallel, &choice, &chosen).map_err(Fault)
    })
}

/// Arguments: x, bias, two tables of experts, groups, groups that are kept, experts that a group is compared by, k, norm type, whether
/// weights are divided by their sum, scale, whether experts are looked up in the tables, y, experts.
fn sigmoid_choice(call: &mut Call<'_>) -> Result<Plan> {
    let (weights, experts) = (call.output(12)?, call.output(13)?);
    let outs = [&weights, &experts];
    one_of(call, 8, 0..=0)?;
    if call.flag(11)? {
        let (name, table) = (call.parameter(11), call.parameter(3));
        return Err(Error::invalid(format!(
            "{name} = true: the function's documentation does not say which expert of a row of {table} is taken"
        )));
    }
    let (x, bias) = (call.read(0, &outs)?, call.read(1, &outs)?);
    call.expect_dtype(0, &x, TYPES)?;
    let [tokens, count] = matrix(call, 0, &x, &[2])?;
    call.expect_same(1, &bias, 0, &x)?;
    call.expect_dims(1, &bias, &[count])?;
    if count == 0 || count > 1024 {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has {count} experts: expected 1 to 1024")));
    }
    let groups = one_of(call, 4, 1..=(count.min(256) as i64))? as usize;
    if !count.is_multiple_of(groups) {
        let name = call.parameter(4);
        return Err(Error::invalid(format!(
            "{name} = {groups} groups of {count} experts: expected groups of one size"
        )));
    }
    let size = count / groups;
    let kept_groups = one_of(call, 5, 1..=(groups as i64))? as usize;
    let counted = one_of(call, 6, 1..=(size as i64))? as usize;
    let k = one_of(call, 7, 1..=((size * kept_groups) as i64))? as usize;
    let is_normed = call.flag(9)?;
    for (at, out, dtype) in [(12, &weights, DType::Float), (13, &experts, DType::Int32)] {
        call.expect_dims(at, out, &[tokens, k])?;
        call.expect_dtype(at, out, &[dtype])?;
    }
    let choice = Choice {
        norm: Norm::Sigmoid,
        groups,
        kept_groups,
        counted,
        renorm: if is_normed { Renorm::Sum(0.0) } else { Renorm::None },
        scale: if is_normed { call.float(10)? as f32 } else { 1.0 },
    };
    let scratch = call.scratch(DType::Float, &[tokens, count]);
    let entries = call.scratch(DType::Uint8, &[tokens.saturating_mul(count), 8]);
    call.plan(move |memory| {
        let chosen = Chosen {
            scores: x.view(memory),
            bias: Some(bias.view(memory)),
            finished: None,
            by_kind: None,
            weights: memory.out(&weights),
            experts: memory.out(&experts),
            norm: None,
            scratch: memory.scratch(&scratch),
            entries: memory.scratch(&entries),
        };
        choose(memory.parallel, &choice, &chosen).map_err(Fault)
    })
}

/// The kinds of tokens and the experts of each kind, which are there together or not at all.
fn kinds(
    call: &mut Call<'_>,
    tokens: usize,
    k: usize,
    outs: &[&Operand],
) -> Result<Option<(UnaliasedInput, UnaliasedInput)>> {
    match (call.has(2), call.has(3)) {
        (false, false) => return Ok(None),
        (true, true) => {}
        _ => {
            let (a, b) = (call.parameter(2), call.parameter(3));
            return Err(Error::invalid(format!("{a} and {b}: expected both or none")));
        }
    }
    let (kinds, table) = (call.read(2, outs)?, call.read_by_index(3, outs)?);
    for (at, one) in [(2, &kinds), (3, &table)] {
        call.expect_dtype(at, one, &[DType::Int32, DType::Int64])?;
    }
    call.expect_dims(2, &kinds, &[tokens])?;
    let rows = table.dims().first().copied().unwrap_or(0);
    call.expect_dims(3, &table, &[rows, k])?;
    Ok(Some((kinds, table)))
}

/// Fails for a kind that the table does not have, and for an expert of a kind that is none.
fn check_kinds(
    memory: &Memory<'_>,
    names: [&str; 2],
    kinds: &UnaliasedInput,
    table: &UnaliasedInput,
    count: usize,
) -> Outcome {
    let (rows, k) = (table.dims()[0], table.dims()[1]);
    let tokens = kinds.dims()[0];
    let (kinds, table) =
        (PositionAccess::new(kinds.view(memory)), PositionAccess::new(table.view(memory)));
    for token in 0..tokens {
        let kind: i64 = kinds.get(&[token]);
        if !(0..rows as i64).contains(&kind) {
            let (name, last) = (names[0], rows as i64 - 1);
            return Err(Fault(format!("{name}[{token}] = {kind} is outside 0 to {last}")));
        }
        for slot in 0..k {
            let expert: i64 = table.get(&[kind as usize, slot]);
            if !(0..count as i64).contains(&expert) {
                let (name, last) = (names[1], count as i64 - 1);
                return Err(Fault(format!(
                    "{name}[{kind}, {slot}] = {expert} is outside 0 to {last}"
                )));
            }
        }
    }
    Ok(())
}

/// Arguments: norm, gradient of the weights, experts, renorm (not read), norm type, scale, epsilon, out.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(7)?;
    let (norm, grad) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    let experts = call.read(2, &[&out])?;
    let kind = call.int(4)?;
    if kind != 1 {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {kind}: expected 1, the logistic function")));
    }
    call.expect_dtype(0, &norm, &[DType::Float])?;
    call.expect_dtype(1, &grad, TYPES)?;
    call.expect_dtype(2, &experts, &[DType::Int32])?;
    call.expect_same(7, &out, 1, &grad)?;
    let [tokens, count] = matrix(call, 0, &norm, &[2])?;
    let [_, k] = matrix(call, 1, &grad, &[2])?;
    call.expect_dims(1, &grad, &[tokens, k])?;
    call.expect_dims(2, &experts, &[tokens, k])?;
    call.expect_dims(7, &out, &[tokens, count])?;
    let (scale, epsilon) = (call.float(5)? as f32, call.float(6)? as f32);
    let name = call.parameter(2);
    call.plan(move |memory| {
        let (norm, grad, experts) = (norm.view(memory), grad.view(memory), experts.view(memory));
        let to = memory.out(&out);
        sigmoid_gradient(memory.parallel, to, norm, grad, experts, scale, epsilon).map_err(
            |(token, slot, value)| {
                let last = count as i64 - 1;
                Fault(format!("{name}[{token}, {slot}] = {value} is outside 0 to {last}"))
            },
        )
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeGatingTopKSoftmax", softmax_choice).with_args(&[
        A(0),
        A(1),
        A(2),
        I(0),
        B(false),
        A(3),
        A(4),
        A(5),
        No,
    ]),
    aclnn("MoeGatingTopKSoftmaxV2", softmax_choice).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
    ]),
    aclnn("MoeGatingTopK", group_choice).with_args(&[
        A(0),
        A(1),
        No,
        No,
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
    ]),
    aclnn("MoeGatingTopKV2", group_choice),
    aclnn("MoeFusedTopk", sigmoid_choice),
    aclnn("MoeGatingTopKBackward", backward),
];

fn softmax_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, k) = (call.layout(0)?, call.int(2)?);
    let mut dims = Dims::new(x.dims());
    if let Some(last) = dims.last_mut() {
        *last = usize::try_from(k).unwrap_or(0).min(*last);
    }
    let numbers = Layout::contiguous(DType::Int32, &dims);
    Ok(vec![Layout::contiguous(x.dtype, &dims), numbers, numbers])
}

fn group_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, k) = (call.layout(0)?, call.int(4)?);
    let [tokens, count] = matrix(call, 0, &x, &[2])?;
    let dims = [tokens, usize::try_from(k).unwrap_or(0).min(count)];
    Ok(vec![
        Layout::contiguous(x.dtype, &dims),
        Layout::contiguous(DType::Int32, &dims),
        Layout::contiguous(DType::Float, &[tokens, count]),
    ])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MoeGatingTopKSoftmax",
        &["x", "finished?"],
        &["y", "expert_idx", "row_idx"],
        Infer::By(softmax_outputs),
        softmax_choice,
        &[A(0), A(1), Attr("k", AttrDefault::Required), I(0), B(false), O(0), O(1), O(2), No],
    ),
    node(
        "MoeGatingTopK",
        &["x", "bias?", "input_ids?", "tid2eid?"],
        &["y", "expert_idx", "y2"],
        Infer::By(group_outputs),
        group_choice,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            Attr("k", AttrDefault::Required),
            Attr("k_group", AttrDefault::Int(1)),
            Attr("group_count", AttrDefault::Int(1)),
            Attr("group_select_mode", AttrDefault::Int(0)),
            Attr("renorm", AttrDefault::Int(0)),
            Attr("norm_type", AttrDefault::Int(0)),
            Attr("out_flag", AttrDefault::Flag(false)),
            Attr("routed_scaling_factor", AttrDefault::Float(1.0)),
            Attr("eps", AttrDefault::Float(1e-20)),
            O(0),
            O(1),
            O(2),
        ],
    ),
];
