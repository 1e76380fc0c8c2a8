//! What latent attention does before its scores: queries from low ranks, and keys into caches.
//!
//! Workspace: the products in `f32`, what later products read in the type of the tokens, the panels of all products, and a few
//! lines for each worker.

use super::pages::{
    Pages, by_positions, check_indices, expect_not_quantised, in_chunks, wrong_cache,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::attention::check_scratch;
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, F, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::matmul::{matmul, panels};
use cairn_tensor::kernels::pages::{PlaceOf, RowSteps, RowTargets, make_rows, row_scratch};
use cairn_tensor::kernels::rotary::Rotation;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];
const SIN: usize = 7;
const COS: usize = 8;
const INDEX: usize = 9;
const CACHES: [usize; 2] = [10, 11];
const CACHE_FORM: usize = 14;
const QUERY: usize = 15;
const QUERY_ROPE: usize = 16;
/// The scale of quantised queries: there is none.
const QUERY_SCALE: usize = 17;
/// What the caches become; absent in place.
const CACHES_OUT: [usize; 2] = [18, 19];
/// What normalised queries and keys are multiplied by.
const FACTORS: [usize; 2] = [20, 21];
const QUERY_NORM: usize = 22;
const WANTS_QUERY_NORM: usize = 23;
/// Kinds of quantisation, which must be 0.
const KINDS: std::ops::Range<usize> = 24..29;
/// Scales of quantised tensors.
const SCALES: std::ops::Range<usize> = 29..38;

/// A product with the panels that it takes.
struct Product {
    out: Layout,
    panels: Option<Scratch>,
}

impl Product {
    fn new(call: &mut Call<'_>, out: &Layout, a: &Layout, b: &Layout) -> Product {
        let panels = if out.count() > 0 { panels(out, a, b) } else { None };
        Product { out: *out, panels: panels.map(|one| call.scratch(one.dtype(), &one.dims())) }
    }

    fn run(&self, memory: &Memory<'_>, out: ViewMut<'_>, a: View<'_>, b: View<'_>) {
        let panels = self.panels.map(|panels| memory.scratch(&panels));
        let out = out.with_layout(self.out).expect("the layout of the product");
        matmul(memory.parallel, out, a, b, Scalar::from(1), Scalar::from(0), panels);
    }
}

/// Tokens and features of a tensor that may have batches and positions instead of tokens.
fn by_tokens(
    call: &Call<'_>,
    at: usize,
    one: &Layout,
    tokens: usize,
    last: &[usize],
) -> Result<Layout> {
    let mut dims = vec![tokens];
    dims.extend(last);
    let keeps = one.rank() >= last.len() && one.dims()[one.rank() - last.len()..] == *last;
    one.reshaped(&dims).filter(|_| keeps).ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!(
            "{name} ({one}) is not contiguous, or has other sizes than {tokens} tokens of {last:?}"
        ))
    })
}

/// Rows of tokens as batches, positions, heads, features.
fn rows(layout: &Layout) -> Layout {
    let layout = if layout.rank() == 2 { layout.with(1) } else { *layout };
    layout.with(0)
}

/// A part of a view as rows of tokens.
fn view_rows(view: View<'_>, part: Layout) -> View<'_> {
    view.with_layout(rows(&part)).expect("a part")
}

/// A tensor to write as rows of tokens.
fn out_rows(out: ViewMut<'_>) -> Option<ViewMut<'_>> {
    Some(out.with_layout(rows(out.layout())).expect("the same elements"))
}

/// An input of these sizes.
fn input(
    call: &mut Call<'_>,
    at: usize,
    outs: &[&Operand],
    dims: &[usize],
    dtype: DType,
) -> Result<UnaliasedInput> {
    let one = call.read(at, outs)?;
    call.expect_dtype(at, &one, &[dtype])?;
    call.expect_dims(at, &one, dims)?;
    Ok(one)
}

/// Arguments: tokens, weights of queries to their low rank, from there to heads, from features of heads to those of keys, of
/// keys to their low rank; what normalised queries and keys are multiplied by; sines, cosines, slots, caches of keys and of their
/// rotated features, what is added to the mean squares of queries and keys; then see the constants above.
fn prolog(call: &mut Call<'_>) -> Result<Plan> {
    expect_not_quantised(call, SCALES)?;
    for at in KINDS {
        let kind = call.int_or(at, 0)?;
        if kind != 0 {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} = {kind}: 0 is known, quantised tensors are not"
            )));
        }
    }
    let chunked = match call.text(CACHE_FORM)? {
        "" | "PA_BSND" => false,
        "PA_NZ" => true,
        other => {
            let name = call.parameter(CACHE_FORM);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: \"PA_BSND\" and \"PA_NZ\" are known"
            )));
        }
    };
    let (x, down) = (call.layout(0)?, call.layout(1)?);
    let (up, latent) = (call.layout(3)?, call.layout(4)?);
    let rope = call.layout(SIN)?.dims().last().copied().unwrap_or(0);
    let sizes = match (x.dims(), down.dims(), up.dims()) {
        ([.., hidden], [_, rank], [heads, features, width]) if x.rank() == 2 || x.rank() == 3 => {
            Some((*hidden, *rank, *heads, *features, *width))
        }
        _ => None,
    };
    let Some((hidden, rank, heads, features, width)) = sizes else {
        let names = [0, 1, 3].map(|at| call.parameter(at)).join(", ");
        return Err(Error::invalid(format!(
            "{names} are {x}, {down}, {up}: expected tokens and hidden features; hidden and low-rank features; heads, features \
             and features of keys"
        )));
    };
    let tokens = x.count() / hidden.max(1);
    let dtype = x.dtype;
    let (query, query_rope) = (call.output(QUERY)?, call.output(QUERY_ROPE)?);
    let query = query.with_layout(by_tokens(call, QUERY, &query, tokens, &[heads, width])?);
    let query_rope =
        query_rope.with_layout(by_tokens(call, QUERY_ROPE, &query_rope, tokens, &[heads, rope])?);
    let mut caches = Vec::new();
    for ((at, out_at), width) in CACHES.into_iter().zip(CACHES_OUT).zip([width, rope]) {
        let pages = Pages::new(call, at, out_at, |call, cache| {
            let found = if chunked { in_chunks(cache) } else { by_positions(cache) };
            let fits = |one: &Layout| one.dims()[1] == 1 && one.dims()[2] * one.dims()[4] == width;
            found.filter(fits).ok_or_else(|| {
                wrong_cache(call, at, cache, &format!("blocks, positions, 1, {width} features"))
            })
        })?;
        call.expect_dtype(at, &pages.operand, &[dtype])?;
        caches.push(pages);
    }
    let query_norm = match call.flag_or(WANTS_QUERY_NORM, false)? {
        false => None,
        true => {
            let out = call.output(QUERY_NORM)?;
            Some(out.with_layout(by_tokens(call, QUERY_NORM, &out, tokens, &[rank])?))
        }
    };
    let scale = call.optional_output(QUERY_SCALE)?.filter(|one| one.count() > 0);
    let outs = [
        Some(query),
        Some(query_rope),
        Some(caches[0].operand),
        Some(caches[1].operand),
        query_norm,
        scale,
    ];
    let outs: Vec<&Operand> = outs.iter().flatten().collect();
    let x = call.read(0, &outs)?;
    call.expect_dtype(0, &x, REAL)?;
    let x = x.with_layout(by_tokens(call, 0, &x, tokens, &[hidden])?);
    let down = input(call, 1, &outs, &[hidden, rank], dtype)?;
    let to_heads = input(call, 2, &outs, &[rank, heads * (features + rope)], dtype)?;
    let up = input(call, 3, &outs, &[heads, features, width], dtype)?;
    let latent =
        input(call, 4, &outs, &[latent.dims().first().copied().unwrap_or(0), width + rope], dtype)?;
    call.expect_dims(4, &latent, &[hidden, width + rope])?;
    let gammas = [input(call, 5, &outs, &[rank], dtype)?, input(call, 6, &outs, &[width], dtype)?];
    let mut factors = Vec::new();
    for at in [COS, SIN] {
        let one = call.read(at, &outs)?;
        call.expect_dtype(at, &one, REAL)?;
        let layout = by_tokens(call, at, &one, tokens, &[rope])?;
        factors.push(one.with_layout(layout.with(0)));
    }
    let index = call.read_index(INDEX, &outs)?;
    let index = index.with_layout(by_tokens(call, INDEX, &index, tokens, &[])?);
    let [blocks, size] = caches[0].sizes();
    if caches[1].sizes() != [blocks, size] {
        let (a, b) = (call.parameter(CACHES[0]), call.parameter(CACHES[1]));
        return Err(Error::invalid(format!(
            "{a} and {b} have different sizes or numbers of blocks"
        )));
    }
    let epsilons = [call.float(12)? as f32, call.float(13)? as f32];
    let scales = [call.float(FACTORS[0])? as f32, call.float(FACTORS[1])? as f32];
    // Products in f32, and what later products read.
    let low = call.scratch(DType::Float, &[tokens, rank]);
    let low_norm = call.scratch(dtype, &[tokens, rank]);
    let all_heads = call.scratch(DType::Float, &[tokens, heads, features + rope]);
    let plain_heads = call.scratch(dtype, &[tokens, heads, features]);
    let keys = call.scratch(DType::Float, &[tokens, width + rope]);
    let flat_heads = all_heads.reshaped(&[tokens, heads * (features + rope)]).expect("contiguous");
    let products = [
        Product::new(call, &low, &x, &down),
        Product::new(call, &flat_heads, &low_norm, &to_heads),
        Product::new(call, &query.permuted(&[1, 0, 2]), &plain_heads.permuted(&[1, 0, 2]), &up),
        Product::new(call, &keys, &x, &latent),
    ];
    let longest = rank.max(width).max(rope);
    let lines = call.scratch(DType::Float, &row_scratch(&[1, tokens, 1, longest]));
    let name = call.parameter(INDEX);
    call.plan(move |memory| {
        let index = index.view(memory);
        check_indices(&index, name, 0, blocks * size)?;
        check_scratch(&memory.scratch(&lines))?;
        let numbers = PositionAccess::new(index);
        let place = |_: usize, token: usize| {
            let slot = numbers.get::<i64>(&[token]) as usize;
            Some((slot / size, slot % size))
        };
        for one in
            [&x, &down, &to_heads, &up, &latent, &gammas[0], &gammas[1], &factors[0], &factors[1]]
        {
            one.prepare(memory);
        }
        if let Some(scale) = &scale {
            fill_scalar(memory.parallel, memory.out(scale), Scalar::from(0.0));
        }
        if tokens == 0 {
            return Ok(());
        }
        let x = x.prepared(memory);
        let [low, low_norm, all_heads, plain_heads, keys] =
            [&low, &low_norm, &all_heads, &plain_heads, &keys].map(|one| memory.scratch(one));
        let lines = memory.scratch(&lines);
        let make = |from: View<'_>, steps: RowSteps<'_>, targets: RowTargets<'_>| {
            let count = row_scratch(from.dims());
            let lines = lines
                .with_layout(Layout::contiguous(DType::Float, &count))
                .expect("the longest lines");
            make_rows(memory.parallel, from, &steps, &targets, lines);
        };
        let rotation = Some((
            Rotation::InterleaveHalf,
            factors[0].prepared(memory),
            factors[1].prepared(memory),
        ));
        let place: &PlaceOf<'_> = &place;
        let to_pages =
            |at: usize| RowTargets { plain: None, pages: Some((caches[at].out(memory), place)) };

        products[0].run(memory, low, x, down.prepared(memory));
        let norm = Some((gammas[0].prepared(memory), epsilons[0]));
        let normalised = RowSteps { norm, factor: scales[0], rotation: None };
        make(
            view_rows(low.view(), *low.layout()),
            normalised,
            RowTargets { plain: out_rows(low_norm), pages: None },
        );
        if let Some(out) = &query_norm {
            copy(memory.parallel, memory.out(out), low_norm.view());
        }
        products[1].run(memory, all_heads, low_norm.view(), to_heads.prepared(memory));
        let part = |view: ViewMut<'_>, start: usize, count: usize| {
            let last = view.rank() - 1;
            view.layout().sliced(last, start, count, 1)
        };
        let rotated = RowSteps { norm: None, factor: 1.0, rotation };
        make(
            view_rows(all_heads.view(), part(all_heads, features, rope)),
            rotated,
            RowTargets { plain: out_rows(memory.out(&query_rope)), pages: None },
        );
        let without = all_heads.view().with_layout(part(all_heads, 0, features)).expect("a part");
        copy(memory.parallel, plain_heads, without);
        let by_head = plain_heads.layout().permuted(&[1, 0, 2]);
        let by_head = plain_heads.view().with_layout(by_head).expect("the same elements");
        products[2].run(memory, memory.out(&query), by_head, up.prepared(memory));

        products[3].run(memory, keys, x, latent.prepared(memory));
        let norm = Some((gammas[1].prepared(memory), epsilons[1]));
        let normalised = RowSteps { norm, factor: scales[1], rotation: None };
        make(view_rows(keys.view(), part(keys, 0, width)), normalised, to_pages(0));
        make(view_rows(keys.view(), part(keys, width, rope)), rotated, to_pages(1));
        Ok(())
    })
}

/// The rows of this file.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    aclnn("MlaProlog", prolog).with_args(&[
        A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), A(19), A(20), A(21), A(22), A(23), No,
        No, No, F(1.0), F(1.0), No, No, No, No, No, No, No, A(12), A(13), A(14), A(15), A(16), A(17), A(18),
    ]),
    aclnn("MlaPrologV2", prolog).with_args(V2),
    aclnn("MlaPrologV2WeightNz", prolog).with_args(V2),
];

#[rustfmt::skip]
const V2: &[ArgSource] = &[
    A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), A(19), A(20), A(21), A(22), A(23), A(24),
    No, No, F(1.0), F(1.0), No, No, No, No, No, No, No, A(12), A(13), A(14), A(15), A(16), A(17), A(18),
];

/// The queries and their rotated features, the caches, then what has no elements but for a scale.
fn infer_outputs(call: &Call<'_>, more: usize) -> Result<Vec<Layout>> {
    let (x, up, down) = (call.layout(0)?, call.layout(3)?, call.layout(1)?);
    let rope = call.layout(SIN)?.dims().last().copied().unwrap_or(0);
    let size = |layout: &Layout, at: usize| layout.dims().get(at).copied().unwrap_or(0);
    let with = |last: [usize; 2]| {
        let mut dims = x.dims()[..x.rank().saturating_sub(1)].to_vec();
        dims.extend(last);
        Layout::contiguous(x.dtype, &dims)
    };
    let mut layouts = vec![
        with([size(&up, 0), size(&up, 2)]),
        with([size(&up, 0), rope]),
        call.layout(CACHES[0])?.packed(),
        call.layout(CACHES[1])?.packed(),
    ];
    if more > 0 {
        layouts.push(Layout::contiguous(DType::Float, &[1]));
    }
    if more > 1 {
        let tokens = x.count() / size(&x, x.rank().saturating_sub(1)).max(1);
        let wanted = call.flag_or(WANTS_QUERY_NORM, false)?;
        let norm = if wanted { vec![tokens, size(&down, 1)] } else { vec![0] };
        layouts.push(Layout::contiguous(x.dtype, &norm));
        layouts.push(Layout::contiguous(DType::Float, &[0]));
    }
    Ok(layouts)
}

const EPSILONS: [ArgSource; 2] = [
    Attr("rmsnorm_epsilon_cq", AttrDefault::Float(1e-5)),
    Attr("rmsnorm_epsilon_ckv", AttrDefault::Float(1e-5)),
];
const CACHE_MODE: ArgSource = Attr("cache_mode", AttrDefault::Text("PA_BSND"));
const fn kind(name: &'static str) -> ArgSource {
    Attr(name, AttrDefault::Int(0))
}

/// The operators of this file by IR name.
#[rustfmt::skip]
pub const NODES: &[Node] = &[
    node(
        "MlaProlog",
        &[
            "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq", "rmsnorm_gamma_ckv",
            "rope_sin", "rope_cos", "cache_index", "kv_cache", "kr_cache", "dequant_scale_x?", "dequant_scale_w_dq?",
            "dequant_scale_w_uq_qr?", "dequant_scale_w_dkv_kr?", "quant_scale_ckv?", "quant_scale_ckr?", "smooth_scales_cq?",
        ],
        &["query", "query_rope", "kv_cache", "kr_cache"],
        Infer::By(|call| infer_outputs(call, 0)),
        prolog,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), EPSILONS[0], EPSILONS[1], CACHE_MODE,
            O(0), O(1), No, O(2), O(3), F(1.0), F(1.0), No, No, No, No, No, No, No, A(12), A(13), A(14), A(15), A(16), A(17),
            A(18),
        ],
    )
    .writes(&[(2, 10), (3, 11)]),
    node(
        "MlaPrologV2",
        &[
            "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq", "rmsnorm_gamma_ckv",
            "rope_sin", "rope_cos", "cache_index", "kv_cache", "kr_cache", "dequant_scale_x?", "dequant_scale_w_dq?",
            "dequant_scale_w_uq_qr?", "dequant_scale_w_dkv_kr?", "quant_scale_ckv?", "quant_scale_ckr?", "smooth_scales_cq?",
        ],
        &["query", "query_rope", "kv_cache", "kr_cache", "dequant_scale_q_nope"],
        Infer::By(|call| infer_outputs(call, 1)),
        prolog,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), EPSILONS[0], EPSILONS[1], CACHE_MODE,
            O(0), O(1), O(4), O(2), O(3), F(1.0), F(1.0), No, No, No, No, No, No, No, A(12), A(13), A(14), A(15), A(16), A(17),
            A(18),
        ],
    )
    .writes(&[(2, 10), (3, 11)]),
    node(
        "MlaPrologV3",
        &[
            "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq", "rmsnorm_gamma_ckv",
            "rope_sin", "rope_cos", "kv_cache", "kr_cache", "cache_index?", "dequant_scale_x?", "dequant_scale_w_dq?",
            "dequant_scale_w_uq_qr?", "dequant_scale_w_dkv_kr?", "quant_scale_ckv?", "quant_scale_ckr?", "smooth_scales_cq?",
            "actual_seq_len?", "k_nope_clip_alpha?",
        ],
        &[
            "query", "query_rope", "kv_cache", "kr_cache", "dequant_scale_q_nope", "query_norm", "dequant_scale_q_norm",
        ],
        Infer::By(|call| infer_outputs(call, 2)),
        prolog,
        &[
            A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(11), A(9), A(10), EPSILONS[0], EPSILONS[1], CACHE_MODE,
            O(0), O(1), O(4), O(2), O(3), Attr("qc_qr_scale", AttrDefault::Float(1.0)),
            Attr("kc_scale", AttrDefault::Float(1.0)), O(5), Attr("query_norm_flag", AttrDefault::Flag(false)),
            kind("weight_quant_mode"), kind("kv_cache_quant_mode"), kind("query_quant_mode"), kind("ckvkr_repo_mode"),
            kind("quant_scale_repo_mode"), A(12), A(13), A(14), A(15), A(16), A(17), A(18), A(20), A(19),
        ],
    )
    .writes(&[(2, 9), (3, 10)]),
];
