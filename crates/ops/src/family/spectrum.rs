//! Fourier transforms along the last dimension of a tensor, or the last two.
//!
//! Workspace: a table for each dimension, and what up to [`PARTS`] threads transform, in complex numbers of `f64`.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, B, I, O};
use crate::table::{Node, node};
use cairn_tensor::kernels::fourier::{Lines, buffer_length, table_length, transform_lines};
use cairn_tensor::kernels::linalg::Stack;
use cairn_tensor::{DType, Layout, View, ViewMut};

/// Lines that are transformed at once.
const PARTS: usize = 8;

const COMPLEX: &[DType] = &[DType::Complex64, DType::Complex128];

/// One transform with its part of the workspace.
#[derive(Clone, Copy)]
struct Pass {
    lines: Lines,
    parts: usize,
    table: (Scratch, usize),
    buffers: (Scratch, usize),
}

impl Pass {
    /// Of `count` lines. `at` is the argument that has the length.
    fn new(call: &mut Call<'_>, at: usize, lines: Lines, count: usize) -> Result<Pass> {
        let length = lines.length;
        let (Some(table), Some(buffer)) = (table_length(length), buffer_length(length)) else {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name}: a transform of {length} elements is more than memory can hold"
            )));
        };
        let parts = count.clamp(1, PARTS);
        Ok(Pass {
            lines,
            parts,
            table: (call.scratch(DType::Complex128, &[table]), table),
            buffers: (call.scratch(DType::Complex128, &[parts, buffer]), buffer),
        })
    }

    fn run(
        &self,
        memory: &Memory<'_>,
        out: ViewMut<'_>,
        input: View<'_>,
    ) -> std::result::Result<(), Fault> {
        let (Some(table), Some(buffers)) = (
            Stack::new(memory.scratch_bytes(&self.table.0), 1, self.table.1),
            Stack::new(memory.scratch_bytes(&self.buffers.0), self.parts, self.buffers.1),
        ) else {
            return Err(Fault("the workspace is not aligned for numbers of 8 bytes".into()));
        };
        transform_lines(memory.parallel, out, input, self.lines, &table, &buffers);
        Ok(())
    }
}

/// An input whose lines are read before they are written: it may be the output.
fn line_input(call: &mut Call<'_>, out: &Operand) -> Result<UnaliasedInput> {
    let input = call.tensor(0)?;
    let outs: &[&Operand] = if call.has_partial_overlap(&input, out) { &[out] } else { &[] };
    Ok(call.unaliased(input, outs))
}

/// How many lines of its last dimension a tensor has.
fn line_count(layout: &Layout) -> usize {
    layout.dims()[..layout.rank() - 1].iter().product()
}

/// Complex numbers to complex numbers. Arguments: input, out, how many of the last dimensions, whether it is the inverse,
/// which is divided by the number of elements of a transform.
fn transform(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(1)?;
    let input = line_input(call, &out)?;
    let (count, is_inverse) = (call.int(2)? as usize, call.flag(3)?);
    expect_lines(call, &input, count)?;
    call.expect_same(1, &out, 0, &input)?;
    call.expect_dims(1, &out, input.dims())?;
    if input.count() == 0 {
        return call.nothing();
    }
    let last = out.rank() - 1;
    let mut passes = Vec::new();
    for dim in (last + 1 - count..=last).rev() {
        let length = out.dims()[dim];
        let scale = if is_inverse { 1.0 / length as f64 } else { 1.0 };
        let lines = Lines { length, is_inverse, is_half: false, scale };
        passes.push((dim, Pass::new(call, 0, lines, out.count() / length)?));
    }
    call.plan(move |memory| {
        let mut from = input.view(memory);
        for (dim, pass) in &passes {
            let along = memory.out(&out.with_layout(out.layout().transposed(*dim, last)));
            let lines = from.layout().transposed(*dim, last);
            pass.run(memory, along, from.with_layout(lines).expect("the same elements"))?;
            from = memory.out(&out).view();
        }
        Ok(())
    })
}

/// Fails unless a tensor of complex numbers has at least so many dimensions.
fn expect_lines(call: &Call<'_>, input: &Layout, count: usize) -> Result<()> {
    call.expect_dtype(0, input, COMPLEX)?;
    if input.rank() >= count {
        return Ok(());
    }
    let (name, dims) = (call.parameter(0), input.dims());
    Err(Error::invalid(format!("{name} {dims:?}: expected {count} dimensions or more")))
}

/// What the transforms of real signals have. Arguments: input, length of a transform, out, whether it is the inverse.
struct RealTransform {
    length: usize,
    is_inverse: bool,
    output: Layout,
}

impl RealTransform {
    fn read(call: &Call<'_>) -> Result<RealTransform> {
        let (input, is_inverse) = (call.layout(0)?, call.flag(3)?);
        let [from, to] = match is_inverse {
            false => [DType::Float, DType::Complex64],
            true => [DType::Complex64, DType::Float],
        };
        call.expect_dtype(0, &input, &[from])?;
        let lengths = call.ints(1)?;
        let length = match lengths[..] {
            [length] if (1..=i64::from(i32::MAX)).contains(&length) => length as usize,
            _ => {
                let name = call.parameter(1);
                return Err(Error::invalid(format!("{name} = {lengths:?}: expected one length")));
            }
        };
        let Some(outer) = input.rank().checked_sub(1) else {
            let name = call.parameter(0);
            return Err(Error::invalid(format!("{name} has no dimensions: expected one or more")));
        };
        let mut dims = input.dims().to_vec();
        dims[outer] = if is_inverse { length } else { length / 2 + 1 };
        Ok(RealTransform { length, is_inverse, output: Layout::contiguous(to, &dims) })
    }
}

/// See [`RealTransform`] for the arguments. A line that has other than as many elements as a transform takes is cut, or
/// followed by zeros. The inverse reads half of the frequencies, and is divided by the length.
fn real_transform(call: &mut Call<'_>) -> Result<Plan> {
    let RealTransform { length, is_inverse, output } = RealTransform::read(call)?;
    let out = call.output(2)?;
    let input = call.read(0, &[&out])?;
    call.expect_dtype(2, &out, &[output.dtype])?;
    call.expect_dims(2, &out, output.dims())?;
    if out.count() == 0 {
        return call.nothing();
    }
    let scale = if is_inverse { 1.0 / length as f64 } else { 1.0 };
    let lines = Lines { length, is_inverse, is_half: is_inverse, scale };
    let pass = Pass::new(call, 1, lines, line_count(&out))?;
    call.plan(move |memory| pass.run(memory, memory.out(&out), input.view(memory)))
}

fn infer_real(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![RealTransform::read(call)?.output])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("FFT", &["x"], &["y"], Infer::Like(0), transform, &[A(0), O(0), I(1), B(false)]),
    node("IFFT", &["x"], &["y"], Infer::Like(0), transform, &[A(0), O(0), I(1), B(true)]),
    node("FFT2D", &["x"], &["y"], Infer::Like(0), transform, &[A(0), O(0), I(2), B(false)]),
    node("IFFT2D", &["x"], &["y"], Infer::Like(0), transform, &[A(0), O(0), I(2), B(true)]),
    node(
        "RFFT",
        &["input", "fft_length"],
        &["y"],
        Infer::By(infer_real),
        real_transform,
        &[A(0), A(1), O(0), B(false)],
    )
    .needs_values(&[1]),
    node(
        "IRFFT",
        &["x", "fft_length"],
        &["y"],
        Infer::By(infer_real),
        real_transform,
        &[A(0), A(1), O(0), B(true)],
    )
    .needs_values(&[1]),
];
