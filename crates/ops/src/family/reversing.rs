//! The first elements of each sequence in the opposite order.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::indexed::integer_at;

/// Arguments: x, the length of each sequence, out, the dimension along sequences, the dimension of sequences.
fn reverse_sequence(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let x = call.read(0, &[&out])?;
    let lengths = call.read_index(1, &[&out])?;
    call.expect_same(2, &out, 0, &x)?;
    call.expect_dims(2, &out, x.dims())?;
    if x.rank() < 2 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected at least two dimensions")));
    }
    let (along, of) = (call.dim(3, x.rank())?, call.dim(4, x.rank())?);
    if along == of {
        let (one, other, rank) = (call.parameter(3), call.parameter(4), x.rank());
        return Err(Error::invalid(format!(
            "{one} and {other} are both dimension {along} of {rank}"
        )));
    }
    call.expect_dims(1, &lengths, &x.dims()[of..=of])?;
    let (name, size) = (call.parameter(1), x.dims()[along]);
    let along = if along > of { along - 1 } else { along };
    call.plan(move |memory| {
        let (from, to, lengths) = (x.view(memory), memory.out(&out), lengths.view(memory));
        let length = |sequence: usize| {
            let value = integer_at(&lengths, &[sequence]);
            let inside = usize::try_from(value).ok().filter(|length| *length <= size);
            inside.ok_or_else(|| {
                Fault(format!("{name}[{sequence}] = {value} is outside 0 to {size}"))
            })
        };
        let count = lengths.count();
        (0..count).try_for_each(|sequence| length(sequence).map(|_| ()))?;
        for sequence in 0..count {
            let length = length(sequence)?;
            let (a, b) = (from.layout().at(of, sequence), to.layout().at(of, sequence));
            let part = |start: usize, first: usize, count: usize, step: isize| {
                if count > 0 && out.count() > 0 {
                    let (a, b) =
                        (a.sliced(along, first, count, step), b.sliced(along, start, count, 1));
                    let a = from.with_layout(a).expect("a part of the sequence");
                    copy(memory.parallel, to.with_layout(b).expect("a part of the output"), a);
                }
            };
            part(0, length.saturating_sub(1), length, -1);
            part(length, length, size - length, 1);
        }
        Ok(())
    })
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "ReverseSequence",
    &["x", "seq_lengths"],
    &["y"],
    Infer::Like(0),
    reverse_sequence,
    &[
        A(0),
        A(1),
        O(0),
        Attr("seq_dim", AttrDefault::Required),
        Attr("batch_dim", AttrDefault::Int(0)),
    ],
)];
