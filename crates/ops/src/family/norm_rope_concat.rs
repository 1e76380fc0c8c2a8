//! Queries, keys and values of two sources normalised, rotated and put after each other, and the gradients of that.
//!
//! Workspace of the gradients: sums of weights and biases for each part, in `f64`.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::norm_rope::{
    LineNorm, LineNormGradients, PARTS, Turn, join, join_gradients,
};
use cairn_tensor::kernels::rotary::Rotation;
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The most features of a head.
const MOST_FEATURES: usize = 1024;

/// How lines are normalised.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    Plain,
    Affine,
}

impl Kind {
    fn read(call: &Call<'_>, at: usize) -> Result<Kind> {
        Ok(match number(call, at, 2)? {
            0 => Kind::None,
            1 => Kind::Plain,
            _ => Kind::Affine,
        })
    }
}

/// A number from 0 to `most`.
fn number(call: &Call<'_>, at: usize, most: i64) -> Result<i64> {
    let value = call.int(at)?;
    if (0..=most).contains(&value) {
        return Ok(value);
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {value} is outside 0 to {most}")))
}

/// Batches, positions, heads and features of an argument; no positions where it is absent.
fn sizes(call: &Call<'_>, at: usize, like: Option<[usize; 4]>) -> Result<[usize; 4]> {
    let wrong = |dims: &[usize]| {
        let name = call.parameter(at);
        let expected = match like {
            Some([batches, _, heads, features]) => {
                format!("{batches} batches, positions, {heads} heads, {features} features")
            }
            None => {
                format!(
                    "batches, positions, heads, an even number of at most {MOST_FEATURES} features"
                )
            }
        };
        Error::invalid(format!("{name} has the sizes {dims:?}: expected {expected}"))
    };
    if let (Some(like), false) = (like, call.has(at)) {
        return Ok([like[0], 0, like[2], like[3]]);
    }
    let layout = call.layout(at)?;
    let dims = <[usize; 4]>::try_from(layout.dims()).map_err(|_| wrong(layout.dims()))?;
    let fits = match like {
        Some(like) => [dims[0], dims[2], dims[3]] == [like[0], like[2], like[3]],
        None => dims[3] > 0 && dims[3] <= MOST_FEATURES && dims[3].is_multiple_of(2),
    };
    if fits { Ok(dims) } else { Err(wrong(&dims)) }
}

/// The rotation, with the arguments of sines and cosines.
struct Turning {
    rotation: Rotation,
    sin: UnaliasedInput,
    cos: UnaliasedInput,
}

impl Turning {
    /// Reads it for joined tensors of so many positions; there must be angles for each.
    fn read(
        call: &mut Call<'_>,
        [sin_at, cos_at, kind_at]: [usize; 3],
        (lengths, like): ([usize; 2], [usize; 4]),
        dtype: DType,
        outs: &[&Operand],
    ) -> Result<Option<Turning>> {
        let rotation = match number(call, kind_at, 2)? {
            0 => return Ok(None),
            1 => Rotation::Interleave,
            _ => Rotation::Half,
        };
        let mut both = Vec::new();
        for at in [sin_at, cos_at] {
            let read = call.read(at, outs)?;
            call.expect_dtype(at, &read, &[dtype])?;
            let rows = read.dims().first().copied().unwrap_or(0);
            call.expect_dims(at, &read, &[rows, like[3]])?;
            if let Some(length) = lengths.into_iter().find(|length| *length != rows) {
                let name = call.parameter(at);
                return Err(Error::invalid(format!(
                    "{name} has {rows} rows for {length} positions: the function's documentation does not say what becomes \
                     of positions without angles"
                )));
            }
            both.push(read);
        }
        Ok(Some(Turning { rotation, sin: both[0], cos: both[1] }))
    }

    fn turn<'a>(&self, memory: &Memory<'a>) -> Turn<'a> {
        (self.rotation, self.cos.prepared(memory), self.sin.prepared(memory))
    }

    fn prepare(&self, memory: &Memory<'_>) {
        self.sin.prepare(memory);
        self.cos.prepare(memory);
    }
}

/// Where two sources begin in what they are joined to.
fn starts(order: i64, [first, added]: [usize; 2]) -> [usize; 2] {
    if order == 0 { [0, first] } else { [added, 0] }
}

/// Batches, heads, positions, features as batches, positions, heads, features.
fn by_positions(layout: &Layout) -> Layout {
    layout.permuted(&[0, 2, 1, 3])
}

/// A number of each line.
fn line_numbers(call: &Call<'_>, at: usize, layout: &Layout, dims: [usize; 4]) -> Result<Layout> {
    let [batches, positions, heads, _] = dims;
    call.expect_dtype(at, layout, &[DType::Float])?;
    call.expect_dims(at, layout, &[batches, positions, heads, 1])?;
    Ok(layout.without(3))
}

/// One source of one result.
struct Source {
    x: UnaliasedInput,
    start: usize,
    norm: bool,
    affine: Option<[UnaliasedInput; 2]>,
    stats: Option<[Operand; 2]>,
    turns: bool,
    /// Which of the results it goes to.
    result: usize,
}

/// Arguments: query, key, value, those of the other source, weights and biases of query, key, and of the other source's, sines, cosines,
/// two kinds of norm, kind of rotation, order, what is added to variances, whether statistics are wanted, results, mean and reciprocal
/// root of query, key, and of the other source's.
fn concat(call: &mut Call<'_>) -> Result<Plan> {
    let results = [call.output(22)?, call.output(23)?, call.output(24)?];
    let kinds = [Kind::read(call, 16)?, Kind::read(call, 17)?];
    let order = number(call, 19, 1)?;
    let (epsilon, keeps) = (call.float(20)? as f32, call.flag(21)?);
    let like = sizes(call, 0, None)?;
    let key = sizes(call, 1, Some(like))?;
    let value = sizes(call, 2, Some(like))?;
    let all = [
        [like, sizes(call, 3, Some(like))?],
        [key, sizes(call, 4, Some(like))?],
        [value, sizes(call, 5, Some(like))?],
    ];
    let mut stats = [[None; 2]; 2];
    for (result, stats) in stats.iter_mut().enumerate() {
        for (source, stats) in stats.iter_mut().enumerate() {
            let at = 25 + 4 * source + 2 * result;
            if keeps && kinds[source] != Kind::None && all[result][source][1] > 0 {
                let mut both = [call.output(at)?, call.output(at + 1)?];
                for (at, one) in [at, at + 1].into_iter().zip(&mut both) {
                    let layout = line_numbers(call, at, one.layout(), all[result][source])?;
                    *one = one.with_layout(layout);
                }
                *stats = Some(both);
            }
        }
    }
    let mut outs: Vec<&Operand> = results.iter().collect();
    outs.extend(stats.iter().flatten().flatten().flatten());
    let mut sources = Vec::new();
    let mut dtype = None;
    for (result, out) in results.iter().enumerate() {
        let lengths = all[result].map(|dims| dims[1]);
        let [batches, _, heads, features] = like;
        call.expect_dims(22 + result, out, &[batches, heads, lengths[0] + lengths[1], features])?;
        for (source, start) in starts(order, lengths).into_iter().enumerate() {
            let at = 3 * source + result;
            if !call.has(at) {
                continue;
            }
            let x = call.read(at, &outs)?;
            call.expect_dtype(at, &x, TYPES)?;
            let dtype = *dtype.get_or_insert(x.dtype);
            call.expect_dtype(at, &x, &[dtype])?;
            call.expect_dtype(22 + result, out, &[dtype])?;
            let kind = if result < 2 { kinds[source] } else { Kind::None };
            let affine = match kind {
                Kind::Affine => {
                    let at = 6 + 4 * source + 2 * result;
                    let both = [call.read(at, &outs)?, call.read(at + 1, &outs)?];
                    for (at, one) in [at, at + 1].into_iter().zip(&both) {
                        call.expect_dtype(at, one, TYPES)?;
                        call.expect_dims(at, one, &[features])?;
                    }
                    Some(both)
                }
                _ => None,
            };
            let stats = stats.get(result).and_then(|both| both[source]);
            let (norm, turns) = (kind != Kind::None, result < 2);
            sources.push(Source { x, start, norm, affine, stats, turns, result });
        }
    }
    let lengths = [0, 1].map(|result: usize| all[result][0][1] + all[result][1][1]);
    let dtype = dtype.unwrap_or(DType::Float);
    let turning = Turning::read(call, [14, 15, 18], (lengths, like), dtype, &outs)?;
    call.plan(move |memory| {
        turning.iter().for_each(|turning| turning.prepare(memory));
        for source in &sources {
            source.x.prepare(memory);
            source.affine.iter().flatten().for_each(|one| one.prepare(memory));
        }
        for source in &sources {
            let out = &results[source.result];
            let norm = source.norm.then(|| LineNorm {
                affine: source.affine.map(|both| both.map(|one| one.prepared(memory))),
                epsilon,
                stats: source.stats.map(|both| both.map(|one| memory.out(&one))),
            });
            let turn = turning.as_ref().filter(|_| source.turns).map(|one| one.turn(memory));
            let to = memory.out(&out.with_layout(by_positions(out.layout())));
            join(memory.parallel, to, source.x.prepared(memory), source.start, norm.as_ref(), turn);
        }
        Ok(())
    })
}

/// What one gradient is computed from.
struct Gradient {
    out: Operand,
    result: usize,
    start: usize,
    norm: Option<GradientNorm>,
    turns: bool,
}

struct GradientNorm {
    x: UnaliasedInput,
    weight: Option<UnaliasedInput>,
    stats: [UnaliasedInput; 2],
    sums: Scratch,
    affine: [Option<Operand>; 2],
}

/// Arguments: gradients of the three results, query, key, those of the other source, weight, mean and reciprocal root of query, key, and
/// of the other source's, sines, cosines, two kinds of norm, kind of rotation, order, gradients of query, key, value, those of the other
/// source, gradients of weight and bias of query, key, and of the other source's.
fn concat_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let kinds = [Kind::read(call, 21)?, Kind::read(call, 22)?];
    let order = number(call, 24, 1)?;
    let like = sizes(call, 3, None)?;
    let [batches, _, heads, features] = like;
    let key = sizes(call, 4, Some(like))?;
    let added = [sizes(call, 5, Some(like))?, sizes(call, 6, Some(like))?];
    let all = [[like, added[0]], [key, added[1]], [key, added[1]]];
    let mut gradients = Vec::new();
    let mut weights = [[None; 2]; 4];
    for (result, both) in all.iter().enumerate() {
        for (source, dims) in both.iter().enumerate() {
            let at = 25 + 3 * source + result;
            if dims[1] == 0 || (source == 1 && !call.has(at)) {
                continue;
            }
            let out = call.output(at)?;
            call.expect_dims(at, &out, dims)?;
            call.expect_same(at, &out, 3, &call.layout(3)?)?;
            gradients.push((result, source, out));
            if result < 2 && kinds[source] == Kind::Affine {
                let at = 31 + 4 * source + 2 * result;
                for (which, at) in [at, at + 1].into_iter().enumerate() {
                    let out = call.output(at)?;
                    call.expect_dims(at, &out, &[features])?;
                    call.expect_dtype(at, &out, TYPES)?;
                    weights[2 * source + result][which] = Some(out);
                }
            }
        }
    }
    let outs: Vec<Operand> = (gradients.iter().map(|(_, _, out)| *out))
        .chain(weights.iter().flatten().flatten().copied())
        .collect();
    let outs: Vec<&Operand> = outs.iter().collect();
    let mut grads = Vec::new();
    for (result, both) in all.iter().enumerate() {
        let grad = call.read(result, &outs)?;
        call.expect_dtype(result, &grad, TYPES)?;
        call.expect_same(result, &grad, 3, &call.layout(3)?)?;
        call.expect_dims(result, &grad, &[batches, heads, both[0][1] + both[1][1], features])?;
        grads.push(grad.with_layout(by_positions(&grad)));
    }
    let mut all_gradients = Vec::new();
    for (result, source, out) in gradients {
        let start = starts(order, all[result].map(|dims| dims[1]))[source];
        let kind = if result < 2 { kinds[source] } else { Kind::None };
        let norm = match kind {
            Kind::None => None,
            _ => {
                let x = call.read(3 + 2 * source + result, &outs)?;
                let first = 7 + 6 * source + 3 * result;
                let weight = match kind {
                    Kind::Affine => {
                        let one = call.read(first, &outs)?;
                        call.expect_dtype(first, &one, TYPES)?;
                        call.expect_dims(first, &one, &[features])?;
                        Some(one)
                    }
                    _ => None,
                };
                let mut stats = [call.read(first + 1, &outs)?, call.read(first + 2, &outs)?];
                for (at, one) in [first + 1, first + 2].into_iter().zip(&mut stats) {
                    let layout = line_numbers(call, at, one, all[result][source])?;
                    *one = one.with_layout(layout);
                }
                let sums = call.scratch(DType::Double, &[PARTS, 2, features]);
                let affine = weights[2 * source + result];
                Some(GradientNorm { x, weight, stats, sums, affine })
            }
        };
        all_gradients.push(Gradient { out, result, start, norm, turns: result < 2 });
    }
    let lengths = [0, 1].map(|result: usize| all[result][0][1] + all[result][1][1]);
    let dtype = call.layout(3)?.dtype;
    let turning = Turning::read(call, [19, 20, 23], (lengths, like), dtype, &outs)?;
    call.plan(move |memory| {
        turning.iter().for_each(|turning| turning.prepare(memory));
        grads.iter().for_each(|grad| grad.prepare(memory));
        for norm in all_gradients.iter().filter_map(|one| one.norm.as_ref()) {
            norm.x.prepare(memory);
            norm.weight.iter().chain(&norm.stats).for_each(|one| one.prepare(memory));
        }
        for gradient in &all_gradients {
            let norm = gradient.norm.as_ref().map(|norm| LineNormGradients {
                x: norm.x.prepared(memory),
                weight: norm.weight.map(|one| one.prepared(memory)),
                stats: norm.stats.map(|one| one.prepared(memory)),
                sums: memory.scratch(&norm.sums),
                affine: norm.affine.map(|one| one.map(|one| memory.out(&one))),
            });
            let turn = turning.as_ref().filter(|_| gradient.turns).map(|one| one.turn(memory));
            let (to, from) = (memory.out(&gradient.out), grads[gradient.result].prepared(memory));
            join_gradients(memory.parallel, to, from, gradient.start, norm.as_ref(), turn);
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("NormRopeConcat", concat), aclnn("NormRopeConcatBackward", concat_gradients)];
