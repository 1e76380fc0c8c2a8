//! Puts the keys and values of tokens into the slots of a cache.

use super::pages::{Pages, by_chunks, by_positions, check_indices, wrong_cache};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::Layout;
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::pages::put_rows;

const SLOTS: usize = 2;
const CACHE_FORM: usize = 8;
const SCATTER_FORM: usize = 9;
const STRIDES: usize = 10;
const OFFSETS: usize = 11;

/// The pages of a cache for rows of `heads` heads and `features`.
fn pages(
    call: &mut Call<'_>,
    (at, out_at): (usize, usize),
    (heads, features): (usize, usize),
    chunked: bool,
) -> Result<Pages> {
    Pages::new(call, at, out_at, |call, cache| {
        let found = if chunked { by_chunks(cache, heads) } else { by_positions(cache) };
        let fits =
            |one: &Layout| one.dims()[1] == heads && one.dims()[2] * one.dims()[4] == features;
        let expected = if chunked {
            format!(
                "blocks, chunks of {heads} heads of {features} features, positions, and 32 bytes of features"
            )
        } else {
            format!("blocks, positions, {heads} heads, {features} features")
        };
        found.filter(fits).ok_or_else(|| wrong_cache(call, at, cache, &expected))
    })
}

/// Arguments: keys, their cache, slots, values and their cache or neither, lengths of what is compressed, where it begins,
/// lengths of sequences, order of the cache, kind of the update, strides, offsets, what the caches become (absent: in place).
fn scatter(call: &mut Call<'_>) -> Result<Plan> {
    for at in [5, 6, 7] {
        if call.has(at) && call.layout(at)?.count() > 0 {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name}: compressed keys are not known here, their documentation has no formula for every case"
            )));
        }
    }
    let chunked = match call.text(CACHE_FORM)? {
        "" | "Norm" => false,
        "PA_NZ" => true,
        other => {
            let name = call.parameter(CACHE_FORM);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: \"Norm\" and \"PA_NZ\" are known"
            )));
        }
    };
    if !matches!(call.text(SCATTER_FORM)?, "" | "None") {
        let (name, other) = (call.parameter(SCATTER_FORM), call.text(SCATTER_FORM)?);
        return Err(Error::invalid(format!(
            "{name} = {other:?}: \"None\" is known; the documentation of the others has no formula"
        )));
    }
    let key = call.layout(0)?;
    let [tokens, heads, _] = *key.dims() else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} ({key}): expected tokens, heads, features")));
    };
    for (at, default) in [(STRIDES, 1), (OFFSETS, 0)] {
        let given = if call.has(at) { call.ints(at)? } else { Vec::new() };
        if given.iter().any(|one| *one != default) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} = {given:?}: only {default} is known; the documentation does not say what others do"
            )));
        }
    }
    let has_values = call.has(3) && call.layout(3)?.rank() > 0 && call.layout(3)?.count() > 0;
    let has_value_cache = call.has(4) && call.layout(4)?.count() > 0;
    if call.has(3) && !has_values && has_value_cache && key.count() > 0 {
        let (name, value, cache) = (call.parameter(3), call.layout(3)?, call.parameter(4));
        return Err(Error::invalid(format!(
            "{name} ({value}) has no elements, but {cache} is there: expected the values of {tokens} tokens"
        )));
    }
    let mut caches = Vec::new();
    for (at, cache_at, out_at) in [(0, 1, 12), (3, 4, 13)] {
        if at == 3 && !has_values {
            continue;
        }
        let rows = call.layout(at)?;
        if rows.rank() != 3 || rows.dims()[..2] != [tokens, heads] {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} ({rows}): expected {tokens} tokens, {heads} heads, features"
            )));
        }
        let pages = pages(call, (cache_at, out_at), (heads, rows.dims()[2]), chunked)?;
        call.expect_same(cache_at, &pages.operand, at, &rows)?;
        caches.push((at, pages));
    }
    let outs: Vec<_> = caches.iter().map(|(_, pages)| pages.operand).collect();
    let outs: Vec<_> = outs.iter().collect();
    let slots = call.read_index(SLOTS, &outs)?;
    if slots.count() != tokens || slots.rank() != 1 {
        let (name, have) = (call.parameter(SLOTS), slots.dims());
        return Err(Error::invalid(format!("{name} has the sizes {have:?}: expected [{tokens}]")));
    }
    let mut work = Vec::new();
    for (at, pages) in caches {
        work.push((call.read(at, &outs)?, pages));
    }
    let sizes = work[0].1.sizes();
    if work.iter().any(|(_, pages)| pages.sizes() != sizes) {
        let (a, b) = (call.parameter(1), call.parameter(4));
        return Err(Error::invalid(format!(
            "{a} and {b} have blocks of different sizes or numbers"
        )));
    }
    let name = call.parameter(SLOTS);
    let [blocks, size] = sizes;
    call.plan(move |memory| {
        let slots = slots.view(memory);
        check_indices(&slots, name, 0, blocks * size)?;
        let numbers = PositionAccess::new(slots);
        for (rows, pages) in &work {
            let rows = rows.view(memory);
            let rows = rows.with_layout(rows.layout().with(0)).expect("the same elements");
            let place = |_: usize, token: usize| {
                let slot = numbers.get::<i64>(&[token]) as usize;
                Some((slot / size, slot % size))
            };
            put_rows(memory.parallel, pages.out(memory), rows, &place);
        }
        Ok(())
    })
}

/// The rows of this file.
pub const ROWS: &[Row] = &[
    aclnn("ScatterPaKvCache", scatter),
    aclnn("ScatterPaCache", scatter).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        A(3),
        A(4),
        A(5),
        No,
        No,
        No,
        No,
    ]),
];

fn infer_caches(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(1)?.packed(), call.layout(4)?.packed()])
}

/// The operators of this file by IR name.
pub const NODES: &[Node] = &[node(
    "ScatterPaKvCache",
    &[
        "key",
        "key_cache",
        "slot_mapping",
        "value",
        "value_cache",
        "compress_lens?",
        "compress_seq_offset?",
        "seq_lens?",
    ],
    &["key_cache", "value_cache"],
    Infer::By(infer_caches),
    scatter,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        Attr("cache_mode", AttrDefault::Text("Norm")),
        Attr("scatter_mode", AttrDefault::Text("None")),
        Attr("strides", AttrDefault::None),
        Attr("offsets", AttrDefault::None),
        O(0),
        O(1),
    ],
)
.writes(&[(0, 1), (1, 4)])];
