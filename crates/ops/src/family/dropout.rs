//! Dropout: draws masks of bits, and applies them.

use super::elementwise::{Input, Typed};
use super::value::Value;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::dropout::{apply, draw, mask_bytes};
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::random::bernoulli;
use cairn_tensor::{DType, Layout, Scalar, with_number};

/// The probability at `at`.
fn probability(call: &mut Call<'_>, at: usize) -> Result<Value> {
    let value = call.value(at)?;
    match value.known().map(Scalar::as_f64) {
        Some(p) if !(0.0..=1.0).contains(&p) => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {p} is no probability from 0 to 1")))
        }
        _ => Ok(value),
    }
}

/// A mask that has a bit for each of `count` elements.
fn check_mask(call: &Call<'_>, at: usize, mask: &Operand, count: usize) -> Result<()> {
    let (name, dims) = (call.parameter(at), mask.dims());
    if mask.item() != 1 || mask.count() * 8 < count || !mask.is_contiguous() {
        let (dtype, want) = (mask.dtype, mask_bytes(count));
        return Err(Error::invalid(format!(
            "{name} ({dtype}{dims:?}) is not a mask of {count} bits: expected {want} contiguous bytes"
        )));
    }
    Ok(())
}

/// Arguments: sizes, probability, seed, offset, second offset, mask, whether elements are kept with that probability
/// (otherwise dropped).
fn dropout_gen_mask(call: &mut Call<'_>) -> Result<Plan> {
    let sizes = call.ints(0)?;
    let count = sizes.iter().try_fold(1usize, |all, size| {
        usize::try_from(*size).ok().and_then(|size| all.checked_mul(size))
    });
    let Some(count) = count else {
        return Err(Error::invalid(format!("{} = {sizes:?} are no sizes", call.parameter(0))));
    };
    let (p, is_keep_probability) = (probability(call, 1)?, call.flag_or(6, false)?);
    let (generator, mask) = (call.generator(2)?, call.output(5)?);
    call.skip_cast_check(5);
    check_mask(call, 5, &mask, count)?;
    call.plan_real(move |memory| {
        let p = p.read(memory).as_f64();
        let keep = if is_keep_probability { p } else { 1.0 - p };
        draw(memory.parallel, memory.out(&mask), count, generator.philox(memory), keep);
        Ok(())
    })
}

/// What the number of a call says about the factor of the elements that are kept.
#[derive(Clone, Copy)]
enum Scale {
    /// The probability that an element is dropped.
    DropProbability,
    /// The probability that an element is kept.
    KeepProbability,
    /// It is the factor.
    Factor,
}

impl Scale {
    fn factor(self, value: f64) -> f64 {
        let keep = match self {
            Scale::DropProbability => 1.0 - value,
            Scale::KeepProbability => value,
            Scale::Factor => return value,
        };
        if keep > 0.0 { 1.0 / keep } else { 0.0 }
    }
}

/// Arguments: x, mask of bits (or of booleans, of the sizes of x), number, out. What a mask of bits drops is
/// multiplied by 0 (`multiplies`), or is 0.
fn plan_apply_mask(call: &mut Call<'_>, scale: Scale, multiplies: bool) -> Result<Plan> {
    let (x, mask, out) = (call.tensor(0)?, call.tensor(1)?, call.output(3)?);
    let number = match scale {
        Scale::Factor => call.value(2)?,
        _ => probability(call, 2)?,
    };
    call.expect_dims(3, &out, x.dims())?;
    let dtype = call.promoted(Typed::Tensor(x.dtype), Typed::Tensor(x.dtype))?;
    let is_boolean_mask = mask.dtype == DType::Bool && mask.dims() == x.dims();
    if !is_boolean_mask {
        check_mask(call, 1, &mask, x.count())?;
    }
    let x = call.without_overlap(Input::Tensor(x), &out);
    call.plan_real(move |memory| {
        let factor = scale.factor(number.read(memory).as_f64());
        x.prepare(memory);
        x.with(memory, out.dims(), |x| {
            let (out, mask) = (memory.out(&out), memory.view(&mask));
            with_number!(dtype, C => match is_boolean_mask {
                true => {
                    let factor = <C as cairn_tensor::kernels::element::Element>::from_f64(factor);
                    map2::<C, bool, C>(memory.parallel, out, x, mask, move |x, kept| {
                        if kept { x.mul(factor) } else { C::ZERO }
                    });
                }
                false => apply::<C>(memory.parallel, out, x, mask, factor, multiplies),
            })
        });
        Ok(())
    })
}

fn dropout_do_mask(call: &mut Call<'_>) -> Result<Plan> {
    plan_apply_mask(call, Scale::DropProbability, false)
}

fn dropout_do_mask_by_keep(call: &mut Call<'_>) -> Result<Plan> {
    plan_apply_mask(call, Scale::KeepProbability, false)
}

fn dropout_backward(call: &mut Call<'_>) -> Result<Plan> {
    plan_apply_mask(call, Scale::Factor, false)
}

/// Mask and result at once. Arguments: x, probability, whether to drop at all, seed, offset, second offset, out,
/// mask.
fn dropout(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out, mask) = (call.tensor(0)?, call.output(6)?, call.output(7)?);
    call.skip_cast_check(7);
    let (p, active) = (probability(call, 1)?, call.flag(2)?);
    let generator = call.generator(3)?;
    call.expect_dims(6, &out, x.dims())?;
    check_mask(call, 7, &mask, x.count())?;
    let dtype = call.promoted(Typed::Tensor(x.dtype), Typed::Tensor(x.dtype))?;
    let (count, x) = (x.count(), call.without_overlap(Input::Tensor(x), &out));
    call.plan_real(move |memory| {
        let p = if active { p.read(memory).as_f64() } else { 0.0 };
        let (out, mask) = (memory.out(&out), memory.out(&mask));
        draw(memory.parallel, mask, count, generator.philox(memory), 1.0 - p);
        x.prepare(memory);
        x.with(memory, out.dims(), |x| match active {
            true => with_number!(dtype, C => {
                apply::<C>(memory.parallel, out, x, mask.view(), Scale::DropProbability.factor(p), false);
            }),
            false => copy(memory.parallel, out, x),
        });
        Ok(())
    })
}

/// As [`dropout_backward`], where what is dropped is multiplied by 0: infinities become NaN.
fn dropout_v3_backward(call: &mut Call<'_>) -> Result<Plan> {
    plan_apply_mask(call, Scale::Factor, true)
}

/// As [`dropout`], which leaves the mask as it is when all elements stay or all go. Arguments: x, sizes of the noise
/// (always absent), probability, seed, offset, second offset, out, mask.
fn dropout_v3(call: &mut Call<'_>) -> Result<Plan> {
    if call.has(1) {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} is reserved and must be null")));
    }
    let (x, out, mask) = (call.tensor(0)?, call.output(6)?, call.output(7)?);
    call.skip_cast_check(7);
    let (p, generator) = (probability(call, 2)?, call.generator(3)?);
    for (at, one) in [(0, &x), (6, &out)] {
        call.expect_dtype(at, one, &[DType::Float, DType::Float16, DType::Bf16])?;
    }
    call.expect_dims(6, &out, x.dims())?;
    check_mask(call, 7, &mask, x.count())?;
    let offset = call.arg(4);
    if let crate::argument::Arg::Int(offset) = offset
        && offset % 4 != 0
    {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {offset} is no multiple of 4")));
    }
    let (count, x) = (x.count(), call.without_overlap(Input::Tensor(x), &out));
    call.plan_real(move |memory| {
        let p = p.read(memory).as_f64();
        let (out, mask) = (memory.out(&out), memory.out(&mask));
        x.prepare(memory);
        x.with(memory, out.dims(), |x| {
            if p == 0.0 {
                copy(memory.parallel, out, x);
            } else if p == 1.0 {
                fill_scalar(memory.parallel, out, Scalar::from(0.0));
            } else {
                draw(memory.parallel, mask, count, generator.philox(memory), 1.0 - p);
                let factor = Scale::DropProbability.factor(p);
                apply::<f32>(memory.parallel, out, x, mask.view(), factor, false);
            }
        });
        Ok(())
    })
}

fn infer_mask_of_sizes(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count: i64 = call.ints(0)?.iter().product();
    let bytes = mask_bytes(usize::try_from(count).unwrap_or(0));
    Ok(vec![Layout::contiguous(DType::Uint8, &[bytes])])
}

/// The elements in a line of whole bytes, one for each of `count` elements: as many as there are, or up to the next multiple of 128.
pub(super) fn is_mask_of_bytes(mask: &Operand, count: usize) -> bool {
    mask.count() == count || mask.count() == count.next_multiple_of(128)
}

/// The bytes of a mask that belong to elements of these sizes.
pub(super) fn bytes_of(mask: &Operand, dims: &[usize]) -> Option<Layout> {
    let line = mask.is_contiguous().then(|| mask.reshaped(&[mask.count()])).flatten()?;
    line.sliced(0, 0, dims.iter().product(), 1).reshaped(dims)
}

/// A byte for each element, 1 where it stays; further bytes are 0. Arguments: sizes, probability of staying, two seeds, mask.
fn draw_bytes(call: &mut Call<'_>) -> Result<Plan> {
    let sizes = call.sizes(0)?;
    let count = sizes.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
    let (keep, mask) = (probability(call, 1)?, call.output(4)?);
    let generator = call.seeded_by_attributes(2)?;
    call.skip_cast_check(4);
    let line = mask.is_contiguous().then(|| mask.reshaped(&[mask.count()])).flatten();
    let (Some(line), Some(count)) = (line.filter(|_| mask.item() == 1), count) else {
        let (name, dims, dtype) = (call.parameter(4), mask.dims(), mask.dtype);
        return Err(Error::invalid(format!(
            "{name} ({dtype}{dims:?}) is not a mask of contiguous bytes for {sizes:?}"
        )));
    };
    if mask.count() < count {
        let (name, have) = (call.parameter(4), mask.count());
        return Err(Error::invalid(format!(
            "{name} has {have} bytes: {sizes:?} has {count} elements"
        )));
    }
    let parts = [(0, count), (count, mask.count() - count)]
        .map(|(from, length)| mask.with_layout(line.sliced(0, from.min(mask.count()), length, 1)));
    call.plan_real(move |memory| {
        let keep = keep.read(memory).as_f64();
        let [drawn, rest] = parts.map(|part| memory.out(&part));
        bernoulli(memory.parallel, drawn, generator.next(), keep);
        fill_scalar(memory.parallel, rest, Scalar::Bool(false));
        Ok(())
    })
}

fn infer_mask_of_bytes(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = call.sizes(0)?.iter().fold(1usize, |all, size| all.saturating_mul(*size));
    let bytes = count.checked_next_multiple_of(16).unwrap_or(usize::MAX);
    Ok(vec![Layout::contiguous(DType::Uint8, &[bytes])])
}

/// As [`dropout_do_mask_by_keep`]; the mask may have a byte for each element instead of a bit.
fn by_keeping_bytes(call: &mut Call<'_>) -> Result<Plan> {
    let (x, mask, out) = (call.tensor(0)?, call.tensor(1)?, call.output(3)?);
    if mask.item() != 1 || !is_mask_of_bytes(&mask, x.count()) {
        return dropout_do_mask_by_keep(call);
    }
    let keep = probability(call, 2)?;
    call.expect_dtype(0, &x, &[DType::Float, DType::Float16, DType::Bf16])?;
    call.expect_same(3, &out, 0, &x)?;
    call.expect_dims(3, &out, x.dims())?;
    let Some(bytes) = bytes_of(&mask, x.dims()) else {
        return Err(Error::invalid(format!("{} must be contiguous", call.parameter(1))));
    };
    let (mask, x) = (mask.with_layout(bytes), call.without_overlap(Input::Tensor(x), &out));
    call.plan_real(move |memory| {
        let factor = Scale::KeepProbability.factor(keep.read(memory).as_f64()) as f32;
        x.prepare(memory);
        x.with(memory, out.dims(), |x| {
            let (out, mask) = (memory.out(&out), memory.view(&mask));
            map2::<f32, bool, f32>(memory.parallel, out, x, mask, move |x, kept| {
                if kept { x * factor } else { 0.0 }
            });
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("DropoutGenMask", dropout_gen_mask).with_args(&[A(0), A(1), A(2), A(3), No, A(4)]),
    aclnn("DropoutGenMaskV2", dropout_gen_mask).with_args(&[A(0), A(1), A(2), A(3), No, A(5)]),
    aclnn("DropoutGenMaskV2Tensor", dropout_gen_mask).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(6),
    ]),
    aclnn("DropoutDoMask", dropout_do_mask),
    aclnn("Dropout", dropout).with_args(&[A(0), A(1), A(2), A(3), A(4), No, A(5), A(6)]),
    aclnn("DropoutBackward", dropout_backward),
    aclnn("DropoutV3", dropout_v3).with_args(&[A(0), A(1), A(2), A(3), A(4), No, A(5), A(6)]),
    aclnn("DropoutV3Tensor", dropout_v3),
    aclnn("DropoutV3Grad", dropout_v3_backward),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "DropOutDoMask",
        &["x", "mask", "keep_prob"],
        &["y"],
        Infer::Like(0),
        dropout_do_mask_by_keep,
        &[A(0), A(1), A(2), O(0)],
    ),
    node(
        "StatelessDropOutGenMask",
        &["shape", "prob", "seed", "seed1", "offset?"],
        &["y"],
        Infer::By(infer_mask_of_sizes),
        dropout_gen_mask,
        &[A(0), A(1), A(2), A(3), A(4), O(0), B(true)],
    )
    .needs_values(&[0])
    .random(),
    node(
        "DropOutDoMaskV3",
        &["x", "mask", "keep_prob"],
        &["y"],
        Infer::Like(0),
        by_keeping_bytes,
        &[A(0), A(1), A(2), O(0)],
    ),
    node(
        "DropOutGenMaskV3",
        &["shape", "prob"],
        &["y"],
        Infer::By(infer_mask_of_bytes),
        draw_bytes,
        &[A(0), A(1), Attr("seed", AttrDefault::Int(0)), Attr("seed2", AttrDefault::Int(0)), O(0)],
    )
    .needs_values(&[0])
    .random(),
];
