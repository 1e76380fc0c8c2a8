//! Short-time Fourier transforms: of windows that slide along signals.
//!
//! Workspace: the table of one transform, and [`MAX_BUFFERS`] buffers at most, in complex numbers of `f64`.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::fourier::{Slides, buffer_length, sliding, table_length};
use cairn_tensor::kernels::linalg::Stack;
use cairn_tensor::{DType, Layout};

/// How many windows are transformed at once.
const MAX_BUFFERS: usize = 8;

const TYPES: &[DType] = &[DType::Float, DType::Double, DType::Complex64, DType::Complex128];

/// The windows of a call. Arguments: signal, factors of a window, out, length of a transform, hop from one window to the
/// next, length of a window, whether results are divided by the root of their number, whether real signals have the first half
/// of the frequencies alone, whether results are complex numbers or pairs of real ones, whether a number of 0 stands for the
/// one that follows from the others (no when absent).
struct Windows {
    /// Elements of a transform.
    length: usize,
    /// Elements from one window to the next.
    hop: usize,
    /// Elements of a window.
    window: usize,
    /// The sizes of the output as complex numbers.
    dims: Vec<usize>,
    is_complex: bool,
}

impl Windows {
    fn read(call: &Call<'_>) -> Result<Windows> {
        let signal = call.layout(0)?;
        call.expect_dtype(0, &signal, TYPES)?;
        let (name, signal_dims) = (call.parameter(0), signal.dims());
        if !matches!(signal_dims.len(), 1 | 2) || signal.count() == 0 {
            return Err(Error::invalid(format!(
                "{name} has the sizes {signal_dims:?}: expected signals of one or two dimensions"
            )));
        }
        let samples = signal_dims[signal_dims.len() - 1];
        let has_defaults = call.flag_or(9, false)?;
        let number = |at: usize, default: usize, max: usize| -> Result<usize> {
            let value = match call.int(at)? {
                0 if has_defaults => default as i64,
                value => value,
            };
            match usize::try_from(value).ok().filter(|one| (1..=max).contains(one)) {
                Some(value) => Ok(value),
                None => {
                    let name = call.parameter(at);
                    Err(Error::invalid(format!("{name} = {value} is outside 1 to {max}")))
                }
            }
        };
        let length = number(3, 0, samples)?;
        let hop = number(4, length / 4, i64::MAX as usize)?;
        let window = number(5, length, length)?;
        let one_sided = call.flag(7)?;
        if one_sided && signal.dtype.is_complex() {
            let (flag, dtype) = (call.parameter(7), signal.dtype);
            return Err(Error::invalid(format!(
                "{flag} = true does not go with {name} of type {dtype}: all frequencies differ"
            )));
        }
        let frequencies = if one_sided { length / 2 + 1 } else { length };
        let mut dims = signal_dims[..signal_dims.len() - 1].to_vec();
        dims.extend([frequencies, (samples - length) / hop + 1]);
        Ok(Windows { length, hop, window, dims, is_complex: call.flag(8)? })
    }

    /// What the output has to be.
    fn output(&self, signal: DType) -> Layout {
        let is_double = matches!(signal, DType::Double | DType::Complex128);
        if self.is_complex {
            let dtype = if is_double { DType::Complex128 } else { DType::Complex64 };
            return Layout::contiguous(dtype, &self.dims);
        }
        let mut dims = self.dims.clone();
        dims.push(2);
        Layout::contiguous(if is_double { DType::Double } else { DType::Float }, &dims)
    }
}

/// See [`Windows`] for the arguments.
fn stft(call: &mut Call<'_>) -> Result<Plan> {
    let windows = Windows::read(call)?;
    let out = call.output(2)?;
    let signal = call.read(0, &[&out])?;
    let expected = windows.output(signal.dtype);
    call.expect_dims(2, &out, expected.dims())?;
    call.expect_dtype(2, &out, &[expected.dtype])?;
    let window = if call.has(1) { Some(call.read(1, &[&out])?) } else { None };
    if let Some(window) = &window {
        call.expect_same(1, window, 0, &signal)?;
        call.expect_dims(1, window, &[windows.window])?;
    }
    let (signal, out) = match signal.rank() {
        1 => (signal.with_layout(signal.with(0)), out.with_layout(out.with(0))),
        _ => (signal, out),
    };
    let Windows { length, hop, .. } = windows;
    // Without factors, all of a window are 1, and it may be shorter than a transform.
    let ones = (window.is_none() && windows.window < length)
        .then(|| call.scratch(DType::Float, &[windows.window]));
    let scale = if call.flag(6)? { 1.0 / (length as f64).sqrt() } else { 1.0 };
    let slides = Slides { length, hop, scale };
    let (Some(table), Some(buffer)) = (table_length(length), buffer_length(length)) else {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = {length} is more than memory can hold")));
    };
    let buffer_count = (out.dims()[0] * out.dims()[2]).min(MAX_BUFFERS);
    let tables = call.scratch(DType::Complex128, &[table]);
    let buffers = call.scratch(DType::Complex128, &[buffer_count, buffer]);
    call.plan(move |memory| {
        let signal = signal.view(memory);
        let ones = ones.map(|scratch| {
            let ones = memory.scratch(&scratch);
            cairn_tensor::kernels::map::fill(memory.parallel, ones, 1f32);
            ones.view()
        });
        let window = window.map(|window| window.view(memory)).or(ones);
        let (Some(tables), Some(buffers)) = (
            Stack::new(memory.scratch_bytes(&tables), 1, table),
            Stack::new(memory.scratch_bytes(&buffers), buffer_count, buffer),
        ) else {
            return Err(Fault("the workspace is not aligned for numbers of 8 bytes".into()));
        };
        sliding(memory.parallel, memory.out(&out), signal, window, slides, &tables, &buffers);
        Ok(())
    })
}

fn output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Windows::read(call)?.output(call.layout(0)?.dtype)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("Stft", stft).with_prefix("acl")];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "STFT",
    &["x", "window?"],
    &["y"],
    Infer::By(output),
    stft,
    &[
        A(0),
        A(1),
        O(0),
        Attr("n_fft", AttrDefault::Required),
        Attr("hop_length", AttrDefault::Int(0)),
        Attr("win_length", AttrDefault::Int(0)),
        Attr("normalized", AttrDefault::Flag(false)),
        Attr("onesided", AttrDefault::Flag(true)),
        Attr("return_complex", AttrDefault::Flag(true)),
        B(true),
    ],
)];
