//! Collectives as nodes of graphs. What is fused with what (`fusion`, `fusion_id`) is left to the engine, and `sr_tag` to the
//! order of the nodes.

use super::{PackedInput, PackedOutput};
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::group::{Group, Message, Reduction};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O, Outs, Rest};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::{DType, Layout};
use std::cell::Cell;

// Arguments of the first functions: x, y, group, ranks or root or peer, reduction.
const X: usize = 0;
const Y: usize = 1;
const GROUP: usize = 2;
const NUMBER: usize = 3;
const REDUCTION: usize = 4;
const SHAPE: usize = 5;
const TYPE: usize = 6;

const GROUP_ATTR: ArgSource = Attr("group", AttrDefault::Required);
const SIZE_ATTR: ArgSource = Attr("rank_size", AttrDefault::Required);
const REDUCTION_ATTR: ArgSource = Attr("reduction", AttrDefault::Required);

/// Copies all bytes of one range to another of the same length.
pub(super) fn copy_bytes(to: &[Cell<u8>], from: &[Cell<u8>]) {
    assert_eq!(to.len(), from.len());
    if to.as_ptr() != from.as_ptr() {
        to.iter().zip(from).for_each(|(to, from)| to.set(from.get()));
    }
}

/// Fails for elements that cannot be reduced.
fn expect_reducible(call: &Call<'_>, at: usize, layout: &Layout, op: Reduction) -> Result<()> {
    let dtype = layout.dtype;
    let is_number = !matches!(dtype, DType::Bool) && !dtype.is_complex();
    match is_number {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{} has elements of {dtype:?}, which cannot be reduced by {op:?}",
            call.parameter(at)
        ))),
    }
}

/// Input and output, of the same type.
fn ends(call: &mut Call<'_>) -> Result<(PackedInput, PackedOutput)> {
    let (x, y) = (call.packed_input(X)?, call.packed_output(Y)?);
    call.expect_dtype(Y, &y, &[x.dtype])?;
    Ok((x, y))
}

/// Fails unless a tensor is `times` as long as another in its first dimension.
fn expect_times(
    call: &Call<'_>,
    at: usize,
    long: &Layout,
    short: &Layout,
    times: usize,
) -> Result<()> {
    let mut dims = short.dims().to_vec();
    match dims.first_mut() {
        Some(first) => *first *= times,
        None => {
            return Err(Error::invalid(format!(
                "{} is a scalar: it has no rows to be gathered",
                call.parameter(X)
            )));
        }
    }
    call.expect_dims(at, long, &dims)
}

fn all_reduce(call: &mut Call<'_>) -> Result<Plan> {
    let ((x, y), reduction) = (ends(call)?, call.reduction(REDUCTION)?);
    call.expect_dims(Y, &y, x.dims())?;
    expect_reducible(call, X, &x, reduction)?;
    let group = call.group(GROUP, None)?;
    let dtype = x.dtype;
    call.plan(move |memory| {
        let bytes = y.bytes(memory);
        copy_bytes(bytes, x.bytes(memory));
        memory.groups[group].all_reduce(dtype, reduction, bytes)?;
        y.store(memory);
        Ok(())
    })
}

fn all_gather(call: &mut Call<'_>) -> Result<Plan> {
    let ((x, y), size) = (ends(call)?, call.ranks(NUMBER)?);
    expect_times(call, Y, &y, &x, size)?;
    let group = call.group(GROUP, Some(size))?;
    call.plan(move |memory| {
        memory.groups[group].all_gather(x.bytes(memory), y.bytes(memory))?;
        y.store(memory);
        Ok(())
    })
}

fn reduce_scatter(call: &mut Call<'_>) -> Result<Plan> {
    let ((x, y), size) = (ends(call)?, call.ranks(NUMBER)?);
    let reduction = call.reduction(REDUCTION)?;
    expect_times(call, X, &x, &y, size)?;
    expect_reducible(call, X, &x, reduction)?;
    let group = call.group(GROUP, Some(size))?;
    let dtype = x.dtype;
    call.plan(move |memory| {
        let (send, receive) = (x.bytes(memory), y.bytes(memory));
        memory.groups[group].reduce_scatter(dtype, reduction, send, receive)?;
        y.store(memory);
        Ok(())
    })
}

fn all_to_all(call: &mut Call<'_>) -> Result<Plan> {
    let (x, y) = ends(call)?;
    call.expect_dims(Y, &y, x.dims())?;
    let group = call.group(GROUP, None)?;
    let (name, dims) = (call.parameter(X), x.dims().to_vec());
    call.plan(move |memory| {
        let (group, send, receive) = (memory.groups[group], x.bytes(memory), y.bytes(memory));
        if !send.len().is_multiple_of(group.size()) {
            let size = group.size();
            return Err(Fault(format!("{name} {dims:?} cannot be divided among {size} ranks")));
        }
        exchange_equal(group, send, receive)?;
        y.store(memory);
        Ok(())
    })
}

/// Part `i` of `send` goes to rank `i`, and what comes from there becomes part `i` of `receive`; all parts are equally long.
pub(super) fn exchange_equal(
    group: &dyn Group,
    send: &[Cell<u8>],
    receive: &[Cell<u8>],
) -> Outcome {
    fn parts<'a>(group: &dyn Group, of: &'a [Cell<u8>]) -> Vec<Message<'a>> {
        let bytes = of.len() / group.size();
        let part = |rank| Message { rank, bytes: &of[rank * bytes..(rank + 1) * bytes] };
        (0..group.size()).map(part).collect()
    }
    group.exchange(&parts(group, send), &parts(group, receive))
}

fn broadcast(call: &mut Call<'_>) -> Result<Plan> {
    let (inputs, outputs) = (call.tensors(X)?, call.outputs(Y)?);
    let root = call.int(NUMBER)?;
    if inputs.len() != outputs.len() {
        return Err(Error::invalid(format!(
            "{} inputs and {} outputs: expected as many",
            inputs.len(),
            outputs.len()
        )));
    }
    for (input, output) in inputs.iter().zip(&outputs) {
        if input.dims() != output.dims() || input.dtype != output.dtype {
            return Err(Error::invalid(format!(
                "{} and {} differ",
                input.layout(),
                output.layout()
            )));
        }
        if !input.is_contiguous() || !output.is_contiguous() {
            return Err(Error::invalid(
                "tensors whose elements lie one after the other are expected".to_owned(),
            ));
        }
    }
    let group = call.group(GROUP, None)?;
    call.plan(move |memory| {
        let group = memory.groups[group];
        let root_rank = usize::try_from(root).ok().filter(|root| *root < group.size());
        let Some(root_rank) = root_rank else {
            let size = group.size();
            return Err(Fault(format!("root_rank = {root}: the group has {size} ranks")));
        };
        for (input, output) in inputs.iter().zip(&outputs) {
            let bytes = memory.bytes(output);
            if group.rank() == root_rank {
                copy_bytes(bytes, memory.bytes(input));
            }
            group.broadcast(root_rank, bytes)?;
        }
        Ok(())
    })
}

fn send(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.packed_input(X)?;
    let (group, rank) = call.group_of_two(GROUP, NUMBER, false)?;
    call.plan(move |memory| {
        memory.groups[group].send_receive(&[Message { rank, bytes: x.bytes(memory) }], &[])
    })
}

fn receive(call: &mut Call<'_>) -> Result<Plan> {
    let y = call.packed_output(Y)?;
    let (group, rank) = call.group_of_two(GROUP, NUMBER, true)?;
    call.plan(move |memory| {
        memory.groups[group].send_receive(&[], &[Message { rank, bytes: y.bytes(memory) }])?;
        y.store(memory);
        Ok(())
    })
}

/// The output of [`receive`].
fn received(call: &Call<'_>) -> Result<Vec<Layout>> {
    let dims: Vec<i64> = call.ints(SHAPE)?;
    let sizes = dims.iter().map(|size| usize::try_from(*size));
    let Ok(sizes) = sizes.collect::<std::result::Result<Vec<_>, _>>() else {
        return Err(Error::invalid(format!("shape = {dims:?}: expected sizes")));
    };
    Ok(vec![Layout::contiguous(call.dtype(TYPE)?, &sizes)])
}

/// The output of [`all_gather`].
fn gathered(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, size) = (call.layout(X)?, call.ranks(NUMBER)?);
    resized(call, &x, |rows| rows.checked_mul(size))
}

/// The output of [`reduce_scatter`].
fn scattered(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, size) = (call.layout(X)?, call.ranks(NUMBER)?);
    resized(call, &x, |rows| rows.is_multiple_of(size).then_some(rows / size))
}

fn resized(
    call: &Call<'_>,
    x: &Layout,
    rows: impl Fn(usize) -> Option<usize>,
) -> Result<Vec<Layout>> {
    let mut dims = x.dims().to_vec();
    let resized = dims.first().and_then(|first| rows(*first));
    match (dims.first_mut(), resized) {
        (Some(first), Some(rows)) => *first = rows,
        _ => {
            let (name, ranks) = (call.parameter(X), call.int(NUMBER)?);
            return Err(Error::invalid(format!("{name} ({x}) does not go with {ranks} ranks")));
        }
    }
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

/// One output like each input.
fn like_all(call: &Call<'_>) -> Result<Vec<Layout>> {
    let crate::argument::Arg::Tensors(list) = call.arg(X) else {
        return Err(Error::invalid("a list of tensors is expected".to_owned()));
    };
    Ok(list.iter().map(|one| one.layout.packed()).collect())
}

/// No outputs.
fn nothing(_: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(Vec::new())
}

/// The nodes of this family.
pub const NODES: &[Node] = &[
    node(
        "HcomAllReduce",
        &["x"],
        &["y"],
        Infer::Like(X),
        all_reduce,
        &[A(0), O(0), GROUP_ATTR, ArgSource::No, REDUCTION_ATTR],
    )
    .communicates(),
    node(
        "HcomAllGather",
        &["x"],
        &["y"],
        Infer::By(gathered),
        all_gather,
        &[A(0), O(0), GROUP_ATTR, SIZE_ATTR],
    )
    .communicates(),
    node(
        "HcomReduceScatter",
        &["x"],
        &["y"],
        Infer::By(scattered),
        reduce_scatter,
        &[A(0), O(0), GROUP_ATTR, SIZE_ATTR, REDUCTION_ATTR],
    )
    .communicates(),
    node("HcomAllToAll", &["x"], &["y"], Infer::Like(X), all_to_all, &[A(0), O(0), GROUP_ATTR])
        .communicates(),
    node(
        "HcomBroadcast",
        &["x[]"],
        &["y[]"],
        Infer::By(like_all),
        broadcast,
        &[Rest(0), Outs(0), GROUP_ATTR, Attr("root_rank", AttrDefault::Required)],
    )
    .communicates(),
    node(
        "HcomSend",
        &["x"],
        &[],
        Infer::By(nothing),
        send,
        &[A(0), ArgSource::No, GROUP_ATTR, Attr("dest_rank", AttrDefault::Required)],
    )
    .communicates(),
    node(
        "HcomReceive",
        &[],
        &["y"],
        Infer::By(received),
        receive,
        &[
            ArgSource::No,
            O(0),
            GROUP_ATTR,
            Attr("src_rank", AttrDefault::Required),
            ArgSource::No,
            Attr("shape", AttrDefault::Required),
            Attr("dtype", AttrDefault::Required),
        ],
    )
    .communicates(),
];
