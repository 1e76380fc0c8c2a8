//! Keys and values normalised, rotated and put into caches, in one.

use super::pages::{
    Pages, by_chunks, by_positions, check_indices, expect_not_quantised, in_chunks, wrong_cache,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::attention::check_scratch;
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::pages::{PlaceOf, RowSteps, RowTargets, make_rows, row_scratch};
use cairn_tensor::kernels::rotary::Rotation;
use cairn_tensor::{DType, Layout};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// How tokens of a cache are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slots {
    /// An index of a position in each batch.
    Batch,
    /// An index of a slot for each token.
    Token,
    /// The first slot of a block for as many tokens as it has.
    Block,
}

/// The rows that one call makes, and where they go.
pub(super) struct Making {
    pub rows: UnaliasedInput,
    pub norm: Option<(UnaliasedInput, f32)>,
    pub rotation: Option<(Rotation, UnaliasedInput, UnaliasedInput)>,
    pub plain: Option<Operand>,
    pub pages: Option<Pages>,
    pub scratch: Scratch,
}

impl Making {
    fn prepare(&self, memory: &Memory<'_>) {
        self.rows.prepare(memory);
        self.norm.iter().for_each(|(gamma, _)| gamma.prepare(memory));
        self.rotation.iter().for_each(|(_, cos, sin)| {
            cos.prepare(memory);
            sin.prepare(memory);
        });
    }

    fn run(&self, memory: &Memory<'_>, place: &PlaceOf<'_>) {
        let steps = RowSteps {
            norm: self.norm.map(|(gamma, epsilon)| (gamma.prepared(memory), epsilon)),
            factor: 1.0,
            rotation: self
                .rotation
                .map(|(kind, cos, sin)| (kind, cos.prepared(memory), sin.prepared(memory))),
        };
        let targets = RowTargets {
            plain: self.plain.map(|plain| memory.out(&plain)),
            pages: self.pages.as_ref().map(|pages| (pages.out(memory), place)),
        };
        let scratch = memory.scratch(&self.scratch);
        make_rows(memory.parallel, self.rows.prepared(memory), &steps, &targets, scratch);
    }
}

/// Cosines or sines as batches, positions, features.
fn factors(
    call: &mut Call<'_>,
    at: usize,
    outs: &[&Operand],
    dims: [usize; 3],
) -> Result<UnaliasedInput> {
    let one = call.read(at, outs)?;
    call.expect_dtype(at, &one, REAL)?;
    let layout = match one.rank() {
        4 if one.dims()[1] == 1 => one.without(1).broadcast_to(&dims),
        2 => one.with(0).broadcast_to(&dims),
        _ => None,
    };
    let fits = one.dims().last() == Some(&dims[2]);
    layout.filter(|_| fits).map(|layout| one.with_layout(layout)).ok_or_else(|| {
        let (name, have) = (call.parameter(at), one.dims());
        Error::invalid(format!("{name} has the sizes {have:?}, which do not repeat to {dims:?}"))
    })
}

/// A vector of so many features.
fn gamma(
    call: &mut Call<'_>,
    at: usize,
    outs: &[&Operand],
    features: usize,
) -> Result<UnaliasedInput> {
    let gamma = call.read(at, outs)?;
    call.expect_dtype(at, &gamma, REAL)?;
    call.expect_dims(at, &gamma, &[features])?;
    Ok(gamma)
}

/// The plan of makings that share their slots.
fn plan(
    call: &mut Call<'_>,
    makings: Vec<Making>,
    (index, at): (UnaliasedInput, usize),
    slots: Slots,
    positions: usize,
) -> Result<Plan> {
    let paged = makings.iter().find_map(|making| making.pages.as_ref());
    let [blocks, size] = paged.map_or([0, 1], Pages::sizes);
    let name = call.parameter(at);
    let limit = if slots == Slots::Batch { size } else { blocks * size };
    call.plan(move |memory| {
        let index = index.view(memory);
        check_indices(&index, name, -1, limit)?;
        for making in &makings {
            check_scratch(&memory.scratch(&making.scratch))?;
        }
        makings.iter().for_each(|making| making.prepare(memory));
        let numbers = PositionAccess::new(index);
        let place = |batch: usize, position: usize| {
            let number = match slots {
                Slots::Batch => numbers.get::<i64>(&[batch, position]),
                Slots::Token => numbers.get(&[batch * positions + position]),
                Slots::Block => {
                    let first =
                        numbers.get::<i64>(&[batch * positions.div_ceil(size) + position / size]);
                    if first < 0 {
                        first
                    } else {
                        first / size as i64 * size as i64 + (position % size) as i64
                    }
                }
            };
            let slot = usize::try_from(number).ok()?;
            Some(if slots == Slots::Batch { (batch, slot) } else { (slot / size, slot % size) })
        };
        makings.iter().for_each(|making| making.run(memory, &place));
        Ok(())
    })
}

/// Arguments: keys and values, what normalised features are multiplied by, cosines, sines, index, caches of keys and of values,
/// scales and offsets, what is added to the mean square, order of the caches, whether rows are wanted, keys, values, what the
/// caches become (absent: in place), values apart: then all features are keys', normalised, and the first of them rotated.
fn norm_rope_cache(call: &mut Call<'_>) -> Result<Plan> {
    expect_not_quantised(call, 7..11)?;
    let values =
        if call.has(18) && call.layout(18)?.count() > 0 { Some(call.tensor(18)?) } else { None };
    let form = match call.text(12)? {
        "" => "Norm",
        form => form,
    }
    .to_string();
    let (slots, chunked) = match form.as_str() {
        "Norm" => (Slots::Batch, false),
        "PA" | "PA_BNSD" => (Slots::Token, false),
        "PA_NZ" => (Slots::Token, true),
        "PA_BLK_BNSD" => (Slots::Block, false),
        "PA_BLK_NZ" => (Slots::Block, true),
        other => {
            let name = call.parameter(12);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD and PA_BLK_NZ are known"
            )));
        }
    };
    let kv = call.tensor(0)?;
    call.expect_dtype(0, &kv, REAL)?;
    let (norm_features, rope_features) =
        (call.layout(1)?.count(), call.layout(2)?.dims().last().copied().unwrap_or(0));
    let [batches, heads, positions, features] = match *kv.dims() {
        [batches, heads, positions, features] => [batches, heads, positions, features],
        _ => [0, 0, 0, 0],
    };
    let fits = match &values {
        None => heads == 1 && norm_features + rope_features == features,
        Some(_) => heads > 0 && norm_features == features && rope_features <= features,
    };
    if !fits || !rope_features.is_multiple_of(2) {
        let (name, have) = (call.parameter(0), kv.dims());
        let expected = match &values {
            None => format!(
                "batches, 1, positions, and {norm_features} features to normalise before {rope_features}, an even number, to rotate"
            ),
            Some(_) => format!(
                "batches, heads, positions, and {norm_features} features to normalise, of which {rope_features}, an even number, are rotated"
            ),
        };
        return Err(Error::invalid(format!("{name} has the sizes {have:?}: expected {expected}")));
    }
    let [key_features, value_features] = match &values {
        None => [rope_features, norm_features],
        Some(values) => {
            let width = values.dims().last().copied().unwrap_or(0);
            call.expect_same(18, values, 0, &kv)?;
            call.expect_dims(18, values, &[batches, heads, positions, width])?;
            [features, width]
        }
    };
    let wants_rows = call.flag_or(13, false)?;
    let mut targets = Vec::new();
    for (cache_at, out_at, row_at, width) in
        [(6, 17, 15, value_features), (5, 16, 14, key_features)]
    {
        let pages = Pages::new(call, cache_at, out_at, |call, cache| {
            let found = match slots {
                Slots::Batch => (cache.rank() == 4).then(|| cache.with(2)),
                _ if chunked => in_chunks(cache),
                _ => by_positions(cache),
            };
            let fits = |one: &Layout| {
                one.dims()[1] == heads
                    && one.dims()[2] * one.dims()[4] == width
                    && (slots != Slots::Batch || one.dims()[0] == batches)
            };
            found.filter(fits).ok_or_else(|| {
                wrong_cache(
                    call,
                    cache_at,
                    cache,
                    &format!("what {form} has, with {heads} heads of {width} features"),
                )
            })
        })?;
        call.expect_same(cache_at, &pages.operand, 0, &kv)?;
        let plain = match wants_rows {
            false => None,
            true => {
                let out = call.output(row_at)?;
                call.expect_dims(row_at, &out, &[batches, heads, positions, width])?;
                call.expect_same(row_at, &out, 0, &kv)?;
                Some(out.with_layout(out.permuted(&[0, 2, 1, 3])))
            }
        };
        targets.push((pages, plain));
    }
    let outs: Vec<Operand> = (targets.iter())
        .flat_map(|(pages, plain)| [Some(pages.operand), *plain])
        .flatten()
        .collect();
    let outs: Vec<&Operand> = outs.iter().collect();
    let kv = call.unaliased(kv, &outs);
    let rows = kv.permuted(&[0, 2, 1, 3]);
    let values = values.map(|values| {
        let values = call.unaliased(values, &outs);
        values.with_layout(values.permuted(&[0, 2, 1, 3]))
    });
    let epsilon = call.float(11)? as f32;
    let gamma = gamma(call, 1, &outs, norm_features)?;
    let dims = [batches, positions, rope_features];
    let (cos, sin) = (factors(call, 2, &outs, dims)?, factors(call, 3, &outs, dims)?);
    let index = call.read_index(4, &outs)?;
    let size = targets[0].0.sizes()[1].max(1);
    match slots {
        Slots::Batch => call.expect_dims(4, &index, &[batches, positions])?,
        Slots::Token => call.expect_dims(4, &index, &[batches * positions])?,
        Slots::Block => call.expect_dims(4, &index, &[batches * positions.div_ceil(size)])?,
    }
    if targets[0].0.sizes() != targets[1].0.sizes() {
        let (a, b) = (call.parameter(5), call.parameter(6));
        return Err(Error::invalid(format!(
            "{a} and {b} have different sizes or numbers of blocks"
        )));
    }
    let mut makings = Vec::new();
    let (norm, rotation) = (Some((gamma, epsilon)), Some((Rotation::InterleaveHalf, cos, sin)));
    let sources = match values {
        None => [
            (kv.with_layout(rows.sliced(3, 0, norm_features, 1)), norm, None),
            (kv.with_layout(rows.sliced(3, norm_features, rope_features, 1)), None, rotation),
        ],
        Some(values) => [(values, None, None), (kv.with_layout(rows), norm, rotation)],
    };
    for ((pages, plain), (rows, norm, rotation)) in targets.into_iter().zip(sources) {
        let scratch = call.scratch(DType::Float, &row_scratch(rows.dims()));
        let pages = Some(pages);
        makings.push(Making { rows, norm, rotation, plain, pages, scratch });
    }
    plan(call, makings, (index, 4), slots, positions)
}

/// Arguments: queries, keys and values, what normalised queries and keys are multiplied by, cosines, sines, index, rotated
/// queries, caches of keys and values, scales and offsets, sizes, heads, what is added to the mean square, order of the caches,
/// queries, keys and values before they are quantised or absent; what the first three outputs become (absent: in place);
/// whether the last are wanted (absent: where they are there).
fn norm_rope_all(call: &mut Call<'_>) -> Result<Plan> {
    expect_not_quantised(call, 9..13)?;
    if !matches!(call.text(16)?, "" | "PA_NZ") {
        let (name, other) = (call.parameter(16), call.text(16)?);
        return Err(Error::invalid(format!("{name} = {other:?}: \"PA_NZ\" is known")));
    }
    let (sizes, heads) = (call.sizes(13)?, call.sizes(14)?);
    let qkv = call.tensor(0)?;
    call.expect_dtype(0, &qkv, REAL)?;
    let ([batches, length, all_heads, features], [queries, keys, values]) =
        match (&sizes[..], &heads[..]) {
            (&[b, s, n, d], &[q, k, v]) => ([b, s, n, d], [q, k, v]),
            _ => ([0; 4], [0; 3]),
        };
    let fits = queries + keys + values == all_heads
        && keys == values
        && keys > 0
        && features.is_multiple_of(2)
        && qkv.dims() == [batches * length, all_heads * features];
    if !fits {
        let (name, a, b, have) =
            (call.parameter(0), call.parameter(13), call.parameter(14), qkv.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}, which {a} = {sizes:?} and {b} = {heads:?} do not describe"
        )));
    }
    let tokens = batches * length;
    let by_heads = |one: &Layout, count: usize| {
        let stride = one.strides()[1];
        let strides = [0, one.strides()[0], features as isize * stride, stride];
        Layout::strided(one.dtype, &[1, tokens, count, features], &strides, one.offset)
    };
    let wants_rows = call.flag_or(23, true)?;
    let mut plain = Vec::new();
    for (at, out_at, count) in
        [(6, Some(20), queries), (17, None, queries), (18, None, keys), (19, None, values)]
    {
        let at = out_at.filter(|at| call.has(*at)).unwrap_or(at);
        let is_wanted =
            out_at.is_some() || (wants_rows && call.has(at) && call.layout(at)?.count() > 0);
        if !is_wanted {
            plain.push(None);
            continue;
        }
        let out = call.output(at)?;
        call.expect_dims(at, &out, &[tokens, count * features])?;
        call.expect_same(at, &out, 0, &qkv)?;
        plain.push(Some(out.with_layout(by_heads(&out, count))));
    }
    let mut caches = Vec::new();
    for (at, out_at) in [(7, 21), (8, 22)] {
        let pages = Pages::new(call, at, out_at, |call, cache| {
            let found =
                by_chunks(cache, keys).filter(|one| one.dims()[2] * one.dims()[4] == features);
            found.ok_or_else(|| {
                let expected = format!("blocks, chunks of {keys} heads of {features} features, positions, 32 bytes of features");
                wrong_cache(call, at, cache, &expected)
            })
        })?;
        call.expect_same(at, &pages.operand, 0, &qkv)?;
        caches.push(pages);
    }
    if caches[0].sizes() != caches[1].sizes() {
        let (a, b) = (call.parameter(7), call.parameter(8));
        return Err(Error::invalid(format!(
            "{a} and {b} have different sizes or numbers of blocks"
        )));
    }
    let outs: Vec<Operand> =
        plain.iter().flatten().copied().chain(caches.iter().map(|pages| pages.operand)).collect();
    let outs: Vec<&Operand> = outs.iter().collect();
    let qkv = call.unaliased(qkv, &outs);
    let rows = by_heads(&qkv, all_heads);
    let epsilon = call.float(15)? as f32;
    let gammas = [gamma(call, 1, &outs, features)?, gamma(call, 2, &outs, features)?];
    let dims = [1, tokens, features];
    let (cos, sin) = (factors(call, 3, &outs, dims)?, factors(call, 4, &outs, dims)?);
    let index = call.read_index(5, &outs)?;
    call.expect_dims(5, &index, &[tokens])?;
    let mut caches = caches.into_iter();
    let rotation = Some((Rotation::Half, cos, sin));
    let mut makings = Vec::new();
    let mut add =
        |call: &mut Call<'_>, (start, count): (usize, usize), norm, rotation, plain, pages| {
            let layout = rows.sliced(2, start, count, 1);
            let scratch = call.scratch(DType::Float, &row_scratch(layout.dims()));
            makings.push(Making {
                rows: qkv.with_layout(layout),
                norm,
                rotation,
                plain,
                pages,
                scratch,
            });
        };
    let query_norm = Some((gammas[0], epsilon));
    add(call, (0, queries), query_norm, rotation, plain[0], None);
    if plain[1].is_some() {
        add(call, (0, queries), query_norm, rotation, plain[1], None);
    }
    add(call, (queries, keys), Some((gammas[1], epsilon)), rotation, plain[2], caches.next());
    add(call, (queries + keys, values), None, None, plain[3], caches.next());
    plan(call, makings, (index, 5), Slots::Token, tokens)
}

/// The rows of this file.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("KvRmsNormRopeCache", norm_rope_cache),
    aclnn("KvRmsNormRopeCacheV2", norm_rope_cache).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(12), A(13), A(14), A(15), A(16), No, No, A(11),
    ]),
    aclnn("QkvRmsNormRopeCache", norm_rope_all),
];

fn infer_kv(call: &Call<'_>) -> Result<Vec<Layout>> {
    let kv = call.layout(0)?;
    let rows = |at: usize| {
        let mut dims = kv.dims().to_vec();
        if let (Some(last), Ok(like)) = (dims.last_mut(), call.layout(at)) {
            *last = like.dims().last().copied().unwrap_or(0);
        }
        Layout::contiguous(kv.dtype, &dims)
    };
    let [keys, values] = if call.has(18) { [0, 18] } else { [2, 1] };
    Ok(vec![call.layout(5)?.packed(), call.layout(6)?.packed(), rows(keys), rows(values)])
}

fn infer_all(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (qkv, sizes, heads) = (call.layout(0)?, call.sizes(13)?, call.sizes(14)?);
    let mut layouts = Vec::new();
    for at in [6, 7, 8] {
        layouts.push(call.layout(at)?.packed());
    }
    let (tokens, features) =
        (qkv.dims().first().copied().unwrap_or(0), sizes.get(3).copied().unwrap_or(0));
    for count in heads {
        layouts.push(Layout::contiguous(qkv.dtype, &[tokens, count * features]));
    }
    Ok(layouts)
}

/// The operators of this file by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "KvRmsNormRopeCache",
        &[
            "kv", "gamma", "cos", "sin", "index", "k_cache", "ckv_cache", "k_rope_scale?", "c_kv_scale?",
            "k_rope_offset?", "c_kv_offset?", "v?",
        ],
        &["k_cache", "ckv_cache", "k_rope", "c_kv"],
        Infer::By(infer_kv),
        norm_rope_cache,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10),
            Attr("epsilon", AttrDefault::Float(1e-5)), Attr("cache_mode", AttrDefault::Text("Norm")),
            Attr("is_output_kv", AttrDefault::Flag(false)), O(2), O(3), O(0), O(1), A(11),
        ],
    )
    .writes(&[(0, 5), (1, 6)]),
    node(
        "QkvRmsNormRopeCache",
        &[
            "qkv", "q_gamma", "k_gamma", "cos", "sin", "index", "q_out", "k_cache", "v_cache", "k_scale?", "v_scale?",
            "k_offset?", "v_offset?",
        ],
        &["q_out", "k_cache", "v_cache", "q_out_before_quant", "k_out_before_quant", "v_out_before_quant"],
        Infer::By(infer_all),
        norm_rope_all,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), A(12),
            Attr("qkv_size", AttrDefault::Required), Attr("head_nums", AttrDefault::Required),
            Attr("epsilon", AttrDefault::Float(1e-6)), Attr("cache_mode", AttrDefault::Text("PA_NZ")), O(3), O(4), O(5),
            O(0), O(1), O(2), Attr("is_output_qkv", AttrDefault::Flag(false)),
        ],
    )
    .writes(&[(0, 6), (1, 7), (2, 8)]),
];
