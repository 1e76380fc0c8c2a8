//! The indices of the arguments of attention for inference, and the orders of dimensions that they may have.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Operand;
use cairn_tensor::Layout;

pub(super) const QUERY: usize = 0;
/// Keys: a tensor, or a list of one, or of one for each sequence.
pub(super) const KEY: usize = 1;
pub(super) const VALUE: usize = 2;
/// What is added to scores, or the slopes that it is computed from (`pseShift`).
pub(super) const SHIFT: usize = 3;
pub(super) const MASK: usize = 4;
/// The lengths of the sequences' queries; of packed ones where they end.
pub(super) const QUERY_LENGTHS: usize = 5;
/// The lengths of the sequences' keys; of packed ones that are not paged where they end.
pub(super) const KEY_LENGTHS: usize = 6;
/// The blocks of each sequence.
pub(super) const TABLE: usize = 7;
/// How many positions after the queries of each sequence belong to none.
pub(super) const QUERY_PADDING: usize = 8;
pub(super) const KEY_PADDING: usize = 9;
/// Keys, and values, that come before those of every sequence.
pub(super) const PREFIX_KEY: usize = 10;
pub(super) const PREFIX_VALUE: usize = 11;
pub(super) const PREFIX_LENGTH: usize = 12;
pub(super) const QUERY_ROPE: usize = 13;
pub(super) const KEY_ROPE: usize = 14;
pub(super) const SINK: usize = 15;
/// Where the first query is among all, then the first key.
pub(super) const STARTS: usize = 16;
pub(super) const HEADS: usize = 18;
pub(super) const SCALE: usize = 19;
pub(super) const BEFORE: usize = 20;
pub(super) const AFTER: usize = 21;
/// The order of dimensions (`inputLayout`), perhaps followed by that of the result.
pub(super) const FORM: usize = 22;
/// The heads of keys; 0 for as many as queries have.
pub(super) const GROUPS: usize = 23;
pub(super) const SPARSE: usize = 24;
pub(super) const PRECISE: usize = 25;
pub(super) const BLOCK: usize = 26;
/// Whether the logarithms of sums are wanted.
pub(super) const WANTS_LOGARITHMS: usize = 27;
pub(super) const SHIFT_KIND: usize = 28;
pub(super) const OUT: usize = 29;
pub(super) const LOGARITHMS: usize = 30;
/// Scales and offsets of quantised tensors follow, and how they are meant.
pub(super) const QUANTISED: usize = 31;
/// How many of them there are at most.
const MOST_QUANTISED: usize = 18;

/// The orders of dimensions of queries and results.
#[derive(Clone, Copy)]
pub(super) struct Forms {
    pub query: &'static str,
    pub out: &'static str,
}

impl Forms {
    /// Whether sequences lie one after the other, without batches.
    pub(super) fn is_packed(&self) -> bool {
        self.query.contains('T')
    }
}

/// The orders that the argument names.
pub(super) fn forms(call: &Call<'_>) -> Result<Forms> {
    let text = call.text(FORM)?;
    let (query, out) = text.split_once('_').unwrap_or((text, text));
    let known = |name: &str, among: &[&'static str]| among.iter().copied().find(|one| *one == name);
    let batches = |query| Some(Forms { query, out: known(out, &["BSND", "BNSD", "NBSD"])? });
    let found = match (query, out) {
        ("" | "BSH", "" | "BSH") => Some(Forms { query: "BSH", out: "BSH" }),
        ("BSH", _) => batches("BSH"),
        ("BSND", _) => batches("BSND"),
        ("BNSD", _) => batches("BNSD"),
        ("TND", _) => known(out, &["TND", "NTD"]).map(|out| Forms { query: "TND", out }),
        ("NTD", _) => known(out, &["TND", "NTD"]).map(|out| Forms { query: "NTD", out }),
        _ => None,
    };
    found.ok_or_else(|| {
        let name = call.parameter(FORM);
        Error::invalid(format!(
            "{name} = {text:?}: BSH, BSND, BNSD, TND and NTD are known, and after an underscore the order of the result: \
             BSND, BNSD or NBSD of batches, TND or NTD of sequences"
        ))
    })
}

/// A tensor as batches, heads, positions, features; of packed sequences there is one batch.
pub(super) fn by_heads(
    call: &Call<'_>,
    at: usize,
    layout: &Layout,
    form: &str,
    heads: usize,
) -> Result<Layout> {
    let wrong = || {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}) does not fit {form} with {heads} heads"))
    };
    let rank = if matches!(form, "BSH" | "TND" | "NTD") { 3 } else { 4 };
    if layout.rank() != rank || heads == 0 {
        return Err(wrong());
    }
    let found = match form {
        "BNSD" => *layout,
        "BSND" => layout.permuted(&[0, 2, 1, 3]),
        "NBSD" => layout.permuted(&[1, 0, 2, 3]),
        "TND" => layout.permuted(&[1, 0, 2]).with(0),
        "NTD" => layout.with(0),
        _ => split_heads(layout, heads).ok_or_else(wrong)?.permuted(&[0, 2, 1, 3]),
    };
    if found.dims()[1] == heads { Ok(found) } else { Err(wrong()) }
}

/// The last of three dimensions as heads and features.
pub(super) fn split_heads(layout: &Layout, heads: usize) -> Option<Layout> {
    let (dims, strides) = (layout.dims(), layout.strides());
    let features = dims[2] / heads.max(1);
    let dims = (features * heads == dims[2]).then_some([dims[0], dims[1], heads, features])?;
    let strides = [strides[0], strides[1], features as isize * strides[2], strides[2]];
    Some(Layout::strided(layout.dtype, &dims, &strides, layout.offset))
}

/// The heads of queries, and those of keys and values.
pub(super) fn heads(call: &Call<'_>) -> Result<[usize; 2]> {
    let positive = |at: usize, value: i64| {
        usize::try_from(value).ok().filter(|count| *count > 0).ok_or_else(|| {
            Error::invalid(format!("{} = {value} is no number of heads", call.parameter(at)))
        })
    };
    let heads = positive(HEADS, call.int(HEADS)?)?;
    let groups = match call.int_or(GROUPS, 0)? {
        0 => heads,
        count => positive(GROUPS, count)?,
    };
    if !heads.is_multiple_of(groups) {
        let (a, b) = (call.parameter(HEADS), call.parameter(GROUPS));
        return Err(Error::invalid(format!("{a} = {heads} is no multiple of {b} = {groups}")));
    }
    Ok([heads, groups])
}

/// A tensor that is read and has elements, if it is there.
pub(super) fn given(call: &mut Call<'_>, at: usize) -> Result<Option<Operand>> {
    Ok(call.optional(at)?.filter(|one| one.count() > 0))
}

/// The tensors of an argument that is one or a list.
pub(super) fn one_or_several(call: &mut Call<'_>, at: usize) -> Result<Vec<Operand>> {
    match call.arg(at) {
        Arg::Tensors(_) => call.tensors(at),
        _ => Ok(vec![call.tensor(at)?]),
    }
}

/// Fails for the first scale or offset of quantised tensors that is there, and for a mode of theirs other than 0.
pub(super) fn expect_not_quantised(call: &Call<'_>) -> Result<()> {
    for at in QUANTISED..=QUANTISED + MOST_QUANTISED {
        let name = call.parameter(at);
        match call.arg(at) {
            Arg::Tensor(tensor) if tensor.layout.count() > 0 => {
                return Err(Error::invalid(format!(
                    "{name}: quantised tensors are not known here; expected none"
                )));
            }
            Arg::Int(mode) if *mode != 0 => {
                return Err(Error::invalid(format!(
                    "{name} = {mode}: quantised tensors are not known here; expected 0"
                )));
            }
            _ => (),
        }
    }
    Ok(())
}
