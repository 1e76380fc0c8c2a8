//! Random numbers. A call brings a seed and an offset; both, and the position of an element, decide its value.

use super::elementwise::Input;
use super::value::Value;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Plan};
use crate::table::ArgSource::{A, Attr, F, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::map3;
use cairn_tensor::kernels::multinomial::{multinomial as sample, tree_size};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::philox::Philox;
use cairn_tensor::kernels::random as kernel;
use cairn_tensor::{DType, Dims, Layout, broadcast, with_real};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The state of the random number generator of a call.
#[derive(Clone, Copy)]
pub struct GeneratorState {
    seed: Value,
    offset: Value,
    second_offset: Value,
}

impl GeneratorState {
    /// The generator, once the values of seed and offsets are known.
    pub fn philox(&self, memory: &Memory<'_>) -> Philox {
        let [seed, offset, second_offset] = [self.seed, self.offset, self.second_offset]
            .map(|one| one.read(memory).as_i64() as u64);
        Philox::new(seed, offset.wrapping_add(second_offset))
    }
}

/// A generator that attributes seed once and that every run of its operator draws on from. When both seeds are 0, chance seeds it.
#[derive(Clone, Copy)]
pub struct SeededByAttributes {
    seed: u64,
}

impl SeededByAttributes {
    /// The words of the next run in this process.
    pub fn next(&self) -> Philox {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        Philox::new(self.seed, RUNS.fetch_add(1, Ordering::Relaxed))
    }
}

impl Call<'_> {
    /// Seed at `at`, then the offset, then a second offset that is added to it (0 when absent): numbers, or tensors that
    /// hold them.
    pub fn generator(&mut self, at: usize) -> Result<GeneratorState> {
        self.is_random = true;
        let (seed, offset) = (self.value(at)?, self.value(at + 1)?);
        Ok(GeneratorState { seed, offset, second_offset: self.value_or(at + 2, 0)? })
    }

    /// The two seeds at `at`, as attributes.
    pub fn seeded_by_attributes(&mut self, at: usize) -> Result<SeededByAttributes> {
        self.is_random = true;
        let (low, high) = (self.int(at)? as u64, self.int(at + 1)? as u64);
        let seed = match (low, high) {
            (0, 0) => RandomState::new().hash_one(at),
            _ => low ^ high.rotate_left(32),
        };
        Ok(SeededByAttributes { seed })
    }
}

/// Arguments: out, mean, deviation, seed, offset, second offset.
fn normal(call: &mut Call<'_>) -> Result<Plan> {
    let (out, mean, deviation) = (call.output(0)?, call.float(1)?, call.float(2)?);
    call.expect_dtype(0, &out, REAL)?;
    if deviation < 0.0 {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {deviation} is below 0")));
    }
    let generator = call.generator(3)?;
    call.plan(move |memory| {
        kernel::normal(
            memory.parallel,
            memory.out(&out),
            generator.philox(memory),
            mean,
            deviation,
        );
        Ok(())
    })
}

/// Each element with its own mean or deviation. Arguments: out, mean, deviation (tensors or numbers), seed,
/// offset.
fn normal_each(call: &mut Call<'_>) -> Result<Plan> {
    let (out, mean, deviation) = (call.output(0)?, call.input(1)?, call.input(2)?);
    call.expect_dtype(0, &out, REAL)?;
    let dims = call.broadcast([(1, &mean), (2, &deviation)].into_iter(), (0, &out))?;
    let generator = call.generator(3)?;
    let (mean, deviation): (Input, Input) =
        (call.without_overlap(mean, &out), call.without_overlap(deviation, &out));
    let compute = if out.dtype == DType::Double { DType::Double } else { DType::Float };
    let standard_normal = call.scratch(compute, &dims);
    call.plan(move |memory| {
        mean.prepare(memory);
        deviation.prepare(memory);
        let drawn = memory.scratch(&standard_normal);
        kernel::normal(memory.parallel, drawn, generator.philox(memory), 0.0, 1.0);
        mean.with(memory, &dims, |mean| {
            deviation.with(memory, &dims, |deviation| {
                with_real!(compute, C => map3::<C, C, C, C>(
                    memory.parallel, memory.out(&out), drawn.view(), deviation, mean,
                    |x, deviation, mean| x.mul(deviation).add(mean),
                ))
            })
        });
        Ok(())
    })
}

/// Arguments: out, from, to, seed, offset, second offset.
fn uniform(call: &mut Call<'_>) -> Result<Plan> {
    let (out, low, high) = (call.output(0)?, call.float(1)?, call.float(2)?);
    call.expect_dtype(0, &out, REAL)?;
    if low > high || low.is_nan() || high.is_nan() {
        let (from, to) = (call.parameter(1), call.parameter(2));
        return Err(Error::invalid(format!("{from} = {low} is above {to} = {high}")));
    }
    let generator = call.generator(3)?;
    call.plan(move |memory| {
        kernel::uniform(memory.parallel, memory.out(&out), generator.philox(memory), low, high);
        Ok(())
    })
}

/// Arguments: out, how many numbers, rate, seed, offset.
fn exponential(call: &mut Call<'_>) -> Result<Plan> {
    let (out, count, rate) = (call.output(0)?, call.int(1)?, call.float(2)?);
    call.expect_dtype(0, &out, &[DType::Float, DType::Float16, DType::Bf16])?;
    if usize::try_from(count) != Ok(out.count()) {
        let (name, other, have) = (call.parameter(1), call.parameter(0), out.count());
        return Err(Error::invalid(format!("{name} = {count}, but {other} has {have} elements")));
    }
    if rate.is_nan() || rate <= 0.0 {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {rate} is not above 0")));
    }
    let generator = call.generator(3)?;
    call.plan(move |memory| {
        kernel::exponential(memory.parallel, memory.out(&out), generator.philox(memory), rate);
        Ok(())
    })
}

/// Integers, in tensors of any type. Arguments: out, from, to (excluded), seed, offset, second offset.
fn random_integers(call: &mut Call<'_>) -> Result<Plan> {
    let (out, low, high) = (call.output(0)?, call.int(1)?, call.int(2)?);
    call.expect_number(0, &out)?;
    if low >= high {
        let (from, to) = (call.parameter(1), call.parameter(2));
        return Err(Error::invalid(format!("{from} = {low} is not below {to} = {high}")));
    }
    let (generator, count) = (call.generator(3)?, high.wrapping_sub(low) as u64);
    call.plan(move |memory| {
        kernel::integers(memory.parallel, memory.out(&out), generator.philox(memory), low, count);
        Ok(())
    })
}

/// Integers from 0 to the largest up to which the type holds all integers. Arguments: out, seed, offset, second
/// offset.
fn integers_of_type(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(0)?;
    call.expect_number(0, &out)?;
    let count = match out.dtype {
        DType::Float => (1 << 24) + 1,
        DType::Double => (1 << 53) + 1,
        DType::Float16 => (1 << 11) + 1,
        DType::Bf16 => (1 << 8) + 1,
        DType::Bool => 2,
        dtype => 1 << (8 * out.item() - usize::from(dtype != DType::Uint8)),
    };
    let generator = call.generator(1)?;
    call.plan(move |memory| {
        kernel::integers(memory.parallel, memory.out(&out), generator.philox(memory), 0, count);
        Ok(())
    })
}

/// Arguments: out, probability (a number or a tensor), seed, offset, second offset, a tensor of the same sizes as
/// out (or nothing).
fn bernoulli(call: &mut Call<'_>) -> Result<Plan> {
    let (out, p) = (call.output(0)?, call.input(1)?);
    call.skip_cast_check(0);
    call.expect_number(0, &out)?;
    let generator = call.generator(2)?;
    if call.has(5) {
        call.expect_dims(5, &call.layout(5)?, out.dims())?;
    }
    if let Input::Scalar(p) = p {
        let p = p.as_f64();
        if !(0.0..=1.0).contains(&p) {
            let name = call.parameter(1);
            return Err(Error::invalid(format!("{name} = {p} is no probability from 0 to 1")));
        }
        return call.plan(move |memory| {
            kernel::bernoulli(memory.parallel, memory.out(&out), generator.philox(memory), p);
            Ok(())
        });
    }
    if let Input::Tensor(p) = p {
        call.expect_number(1, &p)?;
    }
    let dims = Dims::new(out.dims());
    if broadcast(p.dims(), &dims) != Some(dims) {
        let (name, have) = (call.parameter(1), p.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")));
    }
    let p = call.without_overlap(p, &out);
    call.plan(move |memory| {
        p.prepare(memory);
        p.with(memory, &dims, |p| {
            kernel::bernoulli_each(memory.parallel, memory.out(&out), generator.philox(memory), p);
        });
        Ok(())
    })
}

/// Arguments: count, seed, offset, second offset, out.
fn permutation(call: &mut Call<'_>) -> Result<Plan> {
    let (count, out) = (call.number(0)?.as_i64(), call.output(4)?);
    let Ok(size) = usize::try_from(count) else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} = {count} is below 0")));
    };
    call.expect_dims(4, &out, &[size])?;
    call.expect_number(4, &out)?;
    let generator = call.generator(1)?;
    let is_direct = out.dtype == DType::Int64 && out.is_contiguous();
    let scratch = (!is_direct).then(|| call.scratch(DType::Int64, &[size]));
    call.plan(move |memory| {
        let (target, philox) = (memory.out(&out), generator.philox(memory));
        match scratch {
            None => kernel::permutation(target, philox),
            Some(scratch) => {
                kernel::permutation(memory.scratch(&scratch), philox);
                copy(memory.parallel, target, memory.scratch(&scratch).view());
            }
        }
        Ok(())
    })
}

/// Arguments: weights, number of samples, whether with replacement, seed, offset, second offset, out.
fn multinomial(call: &mut Call<'_>) -> Result<Plan> {
    let (weights, samples, with_replacement) = (call.tensor(0)?, call.int(1)?, call.flag(2)?);
    let out = call.output(6)?;
    call.expect_dtype(0, &weights, REAL)?;
    let name = call.parameter(0);
    let Some((categories, batch)) = weights.dims().split_last().filter(|(_, rows)| rows.len() < 2)
    else {
        let dims = weights.dims();
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected one or two dimensions"
        )));
    };
    let (categories, rows) = (*categories, batch.first().copied().unwrap_or(1));
    let count = usize::try_from(samples).unwrap_or(0);
    if count == 0 || categories == 0 || (!with_replacement && count > categories) {
        let (what, dims) = (call.parameter(1), weights.dims());
        return Err(Error::invalid(format!("{what} = {samples} samples of {name} {dims:?}")));
    }
    let mut dims: Vec<usize> = batch.to_vec();
    dims.push(count);
    call.expect_dims(6, &out, &dims)?;
    call.expect_index_output(6, &out)?;
    let generator = call.generator(3)?;
    let (weights, rows_out) = match batch.is_empty() {
        true => (weights.with_layout(weights.with(0)), out.with_layout(out.with(0))),
        false => (weights, out),
    };
    let trees = call.scratch(DType::Double, &[rows, tree_size(categories)]);
    call.plan(move |memory| {
        let trees = memory.scratch(&trees);
        let philox = generator.philox(memory);
        sample(
            memory.parallel,
            memory.out(&rows_out),
            memory.view(&weights),
            trees,
            with_replacement,
            philox,
        )
        .map_err(|text| Fault(format!("{name}: {text}")))
    })
}

/// A tensor of the sizes at 6 and the type at 7.
fn infer_of_sizes(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = call.ints(6)?;
    let dims: Option<Vec<usize>> = sizes.iter().map(|size| usize::try_from(*size).ok()).collect();
    match dims.filter(|dims| dims.len() <= cairn_tensor::MAX_DIMS) {
        Some(dims) => Ok(vec![Layout::contiguous(call.dtype(7)?, &dims)]),
        None => Err(Error::invalid(format!("{} = {sizes:?} are no sizes", call.parameter(6)))),
    }
}

/// As many elements as argument 0 says, of the type that argument 5 names.
fn infer_permuted(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = call.number(0)?.as_i64();
    match usize::try_from(count) {
        Ok(size) => Ok(vec![Layout::contiguous(call.dtype(5)?, &[size])]),
        Err(_) => Err(Error::invalid(format!("{} = {count} is below 0", call.parameter(0)))),
    }
}

fn infer_samples(call: &Call<'_>) -> Result<Vec<Layout>> {
    let mut dims = call.layout(0)?.dims().to_vec();
    let count = usize::try_from(call.int(1)?).unwrap_or(0);
    dims.pop();
    dims.push(count);
    Ok(vec![Layout::contiguous(DType::Int64, &dims)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("InplaceNormal", normal),
    aclnn("InplaceNormalTensor", normal),
    aclnn("NormalFloatFloat", normal).with_args(&[A(4), A(0), A(1), A(2), A(3)]),
    aclnn("NormalFloatTensor", normal_each).with_args(&[A(4), A(0), A(1), A(2), A(3)]),
    aclnn("NormalTensorFloat", normal_each).with_args(&[A(4), A(0), A(1), A(2), A(3)]),
    aclnn("NormalTensorTensor", normal_each).with_args(&[A(4), A(0), A(1), A(2), A(3)]),
    aclnn("InplaceUniform", uniform),
    aclnn("InplaceUniformTensor", uniform),
    aclnn("SimThreadExponential", exponential),
    aclnn("InplaceRandom", random_integers),
    aclnn("InplaceRandomTensor", random_integers),
    aclnn("InplaceRandomWithoutFromTo", integers_of_type),
    aclnn("InplaceRandomWithoutFromToTensor", integers_of_type),
    aclnn("InplaceBernoulli", bernoulli),
    aclnn("InplaceBernoulliTensor", bernoulli),
    aclnn("Bernoulli", bernoulli).with_args(&[A(4), A(1), A(2), A(3), No, A(0)]),
    aclnn("BernoulliTensor", bernoulli).with_args(&[A(4), A(1), A(2), A(3), No, A(0)]),
    aclnn("Randperm", permutation).with_args(&[A(0), A(1), A(2), No, A(3)]),
    aclnn("Multinomial", multinomial).with_args(&[A(0), A(1), A(2), A(3), A(4), No, A(5)]),
    aclnn("MultinomialTensor", multinomial),
];

const KEY_INPUTS: &[&str] = &["shape", "key", "counter", "alg"];
const DTYPE: crate::table::ArgSource = Attr("dtype", AttrDefault::Int(0));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "StatelessRandomUniformV2",
        KEY_INPUTS,
        &["y"],
        Infer::By(infer_of_sizes),
        uniform,
        &[O(0), F(0.0), F(1.0), A(1), A(2), No, A(0), DTYPE],
    )
    .needs_values(&[0])
    .random(),
    node(
        "StatelessRandomNormalV2",
        KEY_INPUTS,
        &["y"],
        Infer::By(infer_of_sizes),
        normal,
        &[O(0), F(0.0), F(1.0), A(1), A(2), No, A(0), DTYPE],
    )
    .needs_values(&[0])
    .random(),
    node(
        "StatelessBernoulli",
        &["shape", "prob", "seed", "offset"],
        &["y"],
        Infer::By(infer_of_sizes),
        bernoulli,
        &[O(0), A(1), A(2), A(3), No, No, A(0), DTYPE],
    )
    .needs_values(&[0])
    .random(),
    node(
        "StatelessRandperm",
        &["n", "seed", "offset"],
        &["y"],
        Infer::By(infer_permuted),
        permutation,
        &[
            A(0),
            A(1),
            A(2),
            No,
            O(0),
            Attr("dtype", AttrDefault::Int(DType::Int64 as i64)),
            Attr("layout", AttrDefault::Int(0)),
        ],
    )
    .needs_values(&[0])
    .random(),
    node(
        "MultinomialWithReplacement",
        &["x", "seed", "offset"],
        &["y"],
        Infer::By(infer_samples),
        multinomial,
        &[
            A(0),
            Attr("numsamples", AttrDefault::Required),
            Attr("replacement", AttrDefault::Flag(false)),
            A(1),
            A(2),
            No,
            O(0),
        ],
    )
    .random(),
];
