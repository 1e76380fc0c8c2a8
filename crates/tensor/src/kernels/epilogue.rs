//! What is computed of a kernel's results before they leave the caches: elementwise functions, one after the other.
//!
//! A kernel calls [`Epilogue::apply`] on each block of results that it has stored; where stages only add a tensor and cut off
//! what is beyond bounds, it may compute them in registers instead ([`Epilogue::clipped`]).

use super::strip::{STRIP, vectorised};
use super::vector::Lanes;
use crate::kernels::number::Number;
use crate::{DType, Layout, View, ViewMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Values that exist at a time, at most.
const SLOTS: usize = 4;
/// Inputs of a stage, at most.
pub const MAX_INPUTS: usize = 3;

/// A function of strips of at most [`STRIP`] elements, all of the same length: inputs, results.
pub type StripFunction = dyn Fn(&[&[f32]], &mut [f32]) + Send + Sync;

/// A function of elements at one position.
#[derive(Clone)]
pub enum Function {
    /// The sum of two.
    Add,
    /// Zero where it is less than zero.
    Relu,
    /// See [`Number::greatest`].
    Greatest,
    /// See [`Number::least`].
    Least,
    /// The first, at least the second, then at most the third.
    Clamp,
    /// Any other.
    Strips(Arc<StripFunction>),
}

/// Where a stage finds an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// The kernel's result (0), or that of a stage before (1 is the first one's).
    Value(usize),
    /// A number.
    Number(f32),
    /// A tensor, by its index among the operands.
    Operand(usize, Pattern),
}

/// A tensor of `count` elements that is broadcast to the result's sizes: element `i` of the result sees `i / inner % count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Neighbouring elements of the result that see the same one; at least 1.
    pub inner: usize,
    /// Elements of the tensor; at least 1.
    pub count: usize,
}

impl Pattern {
    /// Of a tensor without gaps, whose layout was broadcast to the sizes of the result; `None` where it is none of this kind.
    pub fn of(broadcast: &Layout) -> Option<Pattern> {
        let mut dims = { broadcast.dims().iter().zip(broadcast.strides()) }
            .rev()
            .filter(|(size, _)| **size != 1)
            .peekable();
        let mut pattern = Pattern { inner: 1, count: 1 };
        while let Some((size, _)) = dims.next_if(|(_, stride)| **stride == 0) {
            pattern.inner *= size;
        }
        while let Some((size, _)) =
            dims.next_if(|(_, stride)| **stride == pattern.count as isize && **stride != 0)
        {
            pattern.count *= size;
        }
        let is_repeated = dims.all(|(_, stride)| *stride == 0);
        (is_repeated && broadcast.count() > 0).then_some(pattern)
    }
}

/// One function with its inputs.
#[derive(Clone)]
pub struct Stage {
    /// What it computes.
    pub function: Function,
    /// Of what; at most [`MAX_INPUTS`].
    pub inputs: Vec<Source>,
}

/// Functions that are computed one after the other. The last one's result is stored.
#[derive(Clone)]
pub struct Stages {
    stages: Vec<Stage>,
    /// The buffer of each value.
    slots: Vec<usize>,
}

impl Stages {
    /// These; `None` where too many values would exist at a time.
    pub fn new(stages: Vec<Stage>) -> Option<Stages> {
        let mut last_uses = vec![0; stages.len() + 1];
        for (at, stage) in stages.iter().enumerate() {
            assert!((1..=MAX_INPUTS).contains(&stage.inputs.len()), "one to three inputs");
            for input in &stage.inputs {
                if let Source::Value(value) = input {
                    assert!(*value <= at, "a value that exists before");
                    last_uses[*value] = at;
                }
            }
        }
        let mut slots = vec![0];
        for at in 0..stages.len() {
            let is_free = |slot: &usize| {
                slots.iter().zip(&last_uses).all(|(used, last)| used != slot || *last < at)
            };
            let slot = (0..SLOTS).find(is_free)?;
            slots.push(slot);
        }
        Some(Stages { stages, slots })
    }

    /// The same, and one more.
    pub fn followed_by(&self, stage: Stage) -> Option<Stages> {
        Stages::new(self.stages.iter().cloned().chain([stage]).collect())
    }
}

impl Default for Stages {
    /// None at all.
    fn default() -> Stages {
        Stages { stages: Vec::new(), slots: vec![0] }
    }
}

/// Results of a kernel that it has stored: `rows` runs of `length` elements, `pitch` apart, from the output's element `first` on.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The first element's place in memory, counted in elements from the output's first.
    pub first: usize,
    /// How many runs.
    pub rows: usize,
    /// From the start of one to that of the next.
    pub pitch: usize,
    /// Elements of each.
    pub length: usize,
}

/// Stages with their operands. The output that they are computed of is `f32` without gaps; patterns count its elements as
/// they lie in memory.
pub struct Epilogue<'a> {
    stages: &'a Stages,
    operands: &'a [View<'a>],
}

/// A buffer for a strip.
#[repr(align(64))]
struct Buffer(MaybeUninit<[f32; STRIP]>);

impl Buffer {
    const fn new() -> Buffer {
        Buffer(MaybeUninit::uninit())
    }

    fn first(&mut self) -> *mut f32 {
        self.0.as_mut_ptr().cast()
    }
}

impl<'a> Epilogue<'a> {
    /// These stages, of operands that are `f32` and contiguous and overlap no output.
    ///
    /// # Panics
    /// If an operand has fewer elements than a stage reads.
    pub fn new(stages: &'a Stages, operands: &'a [View<'a>]) -> Epilogue<'a> {
        for stage in &stages.stages {
            for input in &stage.inputs {
                if let Source::Operand(at, pattern) = input {
                    let operand = &operands[*at];
                    let is_plain = operand.dtype() == DType::Float && operand.is_contiguous();
                    assert!(
                        is_plain && pattern.count <= operand.count(),
                        "{pattern:?} of {}",
                        operand.layout()
                    );
                }
            }
        }
        Epilogue { stages, operands }
    }

    /// Computes the stages of all elements of an output.
    pub fn apply_to_all(&self, out: &ViewMut<'_>) {
        // SAFETY: all elements of the output, which is the caller's.
        unsafe { self.apply(out, Block { first: 0, rows: 1, pitch: 0, length: out.count() }) };
    }

    /// Computes the stages of a block of the results, where it is.
    ///
    /// # Safety
    /// The block is inside the output, and its elements are of this thread alone.
    pub unsafe fn apply(&self, out: &ViewMut<'_>, block: Block) {
        assert!(out.dtype() == DType::Float, "results of f32");
        let first = out.first_mut().cast::<f32>();
        let columns = block.length.min(STRIP);
        if columns == 0 {
            return;
        }
        let rows = if block.length > STRIP { 1 } else { (STRIP / columns).min(block.rows).max(1) };
        let mut buffers = [const { Buffer::new() }; SLOTS + MAX_INPUTS];
        for row in (0..block.rows).step_by(rows) {
            for column in (0..block.length).step_by(STRIP) {
                let part = Block {
                    first: block.first + row * block.pitch + column,
                    rows: rows.min(block.rows - row),
                    pitch: block.pitch,
                    length: columns.min(block.length - column),
                };
                // SAFETY: a part of the block, no longer than a strip.
                unsafe { self.apply_to_strip(first, part, &mut buffers) };
            }
        }
    }

    /// As [`Epilogue::apply`], of a block of at most [`STRIP`] elements of the output at `out`.
    ///
    /// # Safety
    /// As of [`Epilogue::apply`].
    unsafe fn apply_to_strip(
        &self,
        out: *mut f32,
        block: Block,
        buffers: &mut [Buffer; SLOTS + MAX_INPUTS],
    ) {
        let (slots, operand_buffers) = buffers.split_at_mut(SLOTS);
        let count = block.rows * block.length;
        debug_assert!(count <= STRIP);
        // SAFETY: the rows are of this thread alone, and the buffers have room for them; elements need not be aligned.
        unsafe {
            for row in 0..block.rows {
                let from = out.add(block.first + row * block.pitch).cast::<u8>();
                let to = slots[0].first().add(row * block.length).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, to, block.length * size_of::<f32>());
            }
        }
        for (at, stage) in self.stages.stages.iter().enumerate() {
            let mut inputs: [&[f32]; MAX_INPUTS] = [&[]; MAX_INPUTS];
            for ((input, source), buffer) in
                inputs.iter_mut().zip(&stage.inputs).zip(operand_buffers.iter_mut())
            {
                let first = match source {
                    Source::Value(value) => slots[self.stages.slots[*value]].first().cast_const(),
                    Source::Number(number) => {
                        // SAFETY: a buffer has as many elements.
                        unsafe { fill(buffer.first(), *number, count) };
                        buffer.first()
                    }
                    Source::Operand(operand, pattern) => {
                        gather(&self.operands[*operand], *pattern, &block, buffer)
                    }
                };
                // SAFETY: so many elements were written there, by a stage before, the loads above, or just now.
                *input = unsafe { std::slice::from_raw_parts(first, count) };
            }
            let to = slots[self.stages.slots[at + 1]].first();
            // SAFETY: the buffer of the result is that of no input, and has as many elements.
            let to = unsafe { std::slice::from_raw_parts_mut(to, count) };
            stage.function.compute(&inputs[..stage.inputs.len()], to);
        }
        let last = slots[self.stages.slots[self.stages.stages.len()]].first();
        // SAFETY: as above.
        unsafe {
            for row in 0..block.rows {
                let from = last.add(row * block.length).cast::<u8>();
                let to = out.add(block.first + row * block.pitch).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, to, block.length * size_of::<f32>());
            }
        }
    }

    /// The stages as additions and bounds for an output of `count` elements, if that is all they are.
    pub fn clipped(&self, count: usize) -> Option<Clipped<'a>> {
        let whole = Pattern { inner: 1, count };
        let mut clipped = Clipped::default();
        for (at, stage) in self.stages.stages.iter().enumerate() {
            let value = Source::Value(at);
            let has_bounds = clipped.low.is_some() || clipped.high.is_some();
            match (&stage.function, &stage.inputs[..]) {
                (Function::Add, [one, other] | [other, one])
                    if at == 0
                        && *one == value
                        && matches!(other, Source::Operand(_, pattern) if *pattern == whole) =>
                {
                    let Source::Operand(operand, _) = other else { return None };
                    clipped.added = Some(self.operands[*operand]);
                }
                (Function::Relu, [x]) if *x == value && !has_bounds && !clipped.relu => {
                    clipped.relu = true;
                }
                (Function::Greatest, [x, low] | [low, x]) if *x == value && !has_bounds => {
                    clipped.low = Some(self.number(low)?);
                }
                (Function::Least, [x, high] | [high, x])
                    if *x == value && clipped.high.is_none() =>
                {
                    clipped.high = Some(self.number(high)?);
                }
                (Function::Clamp, [x, low, high]) if *x == value && !has_bounds => {
                    clipped.low = Some(self.number(low)?);
                    clipped.high = Some(self.number(high)?);
                }
                _ => return None,
            }
        }
        Some(clipped)
    }

    /// The number that an input is at every position, if it is one.
    fn number(&self, source: &Source) -> Option<f32> {
        match source {
            Source::Number(number) => Some(*number),
            Source::Operand(operand, Pattern { count: 1, .. }) => {
                let first = self.operands[*operand].first().cast::<f32>();
                // SAFETY: a tensor of at least one element, which need not be aligned.
                Some(unsafe { first.read_unaligned() })
            }
            _ => None,
        }
    }
}

impl Function {
    /// Computes a strip.
    fn compute(&self, inputs: &[&[f32]], to: &mut [f32]) {
        match (self, inputs) {
            (Function::Add, [x, y]) => vectorised(|| {
                for ((to, x), y) in to.iter_mut().zip(*x).zip(*y) {
                    *to = x + y;
                }
            }),
            (Function::Relu, [x]) => vectorised(|| {
                for (to, x) in to.iter_mut().zip(*x) {
                    *to = if *x < 0.0 { 0.0 } else { *x };
                }
            }),
            (Function::Greatest, [x, y]) => vectorised(|| {
                for ((to, x), y) in to.iter_mut().zip(*x).zip(*y) {
                    *to = Number::greatest(*x, *y);
                }
            }),
            (Function::Least, [x, y]) => vectorised(|| {
                for ((to, x), y) in to.iter_mut().zip(*x).zip(*y) {
                    *to = Number::least(*x, *y);
                }
            }),
            (Function::Clamp, [x, low, high]) => vectorised(|| {
                for (((to, x), low), high) in to.iter_mut().zip(*x).zip(*low).zip(*high) {
                    *to = Number::least(Number::greatest(*x, *low), *high);
                }
            }),
            (Function::Strips(function), inputs) => function(inputs, to),
            _ => unreachable!("as many inputs as the function has"),
        }
    }
}

/// Writes a number `count` times.
///
/// # Safety
/// There is room.
unsafe fn fill(to: *mut f32, number: f32, count: usize) {
    // SAFETY: as the caller guarantees; a number may be written anywhere.
    unsafe { (0..count).for_each(|at| to.add(at).write(number)) };
}

/// What a block sees of an operand: in the operand itself where that is possible, else in the buffer.
fn gather(operand: &View<'_>, pattern: Pattern, block: &Block, buffer: &mut Buffer) -> *const f32 {
    let (from, to) = (operand.first().cast::<f32>(), buffer.first());
    let Pattern { inner, count } = pattern;
    let first = block.first / inner % count;
    let is_one_run = block.rows == 1 && inner == 1 && first + block.length <= count;
    if is_one_run && from.is_aligned() {
        return from.wrapping_add(first);
    }
    for row in 0..block.rows {
        let start = block.first + row * block.pitch;
        let mut at = 0;
        while at < block.length {
            let place = start + at;
            let element = place / inner % count;
            // SAFETY: `element`, and as many after it as are copied, are elements of the operand; the buffer has room for a block.
            unsafe {
                let to = to.add(row * block.length + at);
                at += match inner {
                    1 => {
                        let length = (block.length - at).min(count - element);
                        let (from, bytes) = (from.add(element), length * size_of::<f32>());
                        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes);
                        length
                    }
                    _ => {
                        let length = (block.length - at).min(inner - place % inner);
                        fill(to, from.add(element).read_unaligned(), length);
                        length
                    }
                };
            }
        }
    }
    to
}

/// A tensor that is added, and bounds that what is beyond them is set to: what a kernel can compute in registers, in this order.
#[derive(Clone, Copy, Default)]
pub struct Clipped<'a> {
    /// What is added: the element at the place of each result.
    added: Option<View<'a>>,
    relu: bool,
    low: Option<f32>,
    high: Option<f32>,
}

impl Clipped<'_> {
    /// The address of what is added to the element at this place of the output.
    #[inline(always)]
    pub fn added(&self, place: isize) -> Option<*const f32> {
        Some(self.added.as_ref()?.first().cast::<f32>().wrapping_offset(place))
    }

    /// Keeps a vector of results between the bounds.
    ///
    /// # Safety
    /// The processor has these vectors.
    #[inline(always)]
    pub unsafe fn keep<V: Lanes>(&self, mut vector: V) -> V {
        // SAFETY: as the caller guarantees.
        unsafe {
            if self.relu {
                vector = V::repeated(0.0).or_if_greater(vector);
            }
            if let Some(low) = self.low {
                vector = vector.greatest(V::repeated(low));
            }
            if let Some(high) = self.high {
                vector = vector.least(V::repeated(high));
            }
            vector
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn cells(values: &mut [f32]) -> &[Cell<u8>] {
        let length = values.len() * 4;
        // SAFETY: the same memory as bytes, borrowed as long.
        unsafe { std::slice::from_raw_parts(values.as_mut_ptr().cast::<Cell<u8>>(), length) }
    }

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 31 + seed * 7) % 23) as f32 - 11.0).collect()
    }

    fn stage(function: Function, inputs: &[Source]) -> Stage {
        Stage { function, inputs: inputs.to_vec() }
    }

    fn with_epilogue<R>(
        stages: Vec<Stage>,
        operands: &mut [Vec<f32>],
        body: impl FnOnce(&Epilogue<'_>) -> R,
    ) -> R {
        let views: Vec<View<'_>> = (operands.iter_mut())
            .map(|one| {
                let layout = Layout::contiguous(DType::Float, &[one.len()]);
                View::over(cells(one), layout).expect("it fits")
            })
            .collect();
        let stages = Stages::new(stages).expect("few values");
        body(&Epilogue::new(&stages, &views))
    }

    #[test]
    fn patterns_are_those_of_broadcast_layouts() {
        let pattern = |dims: &[usize], to: &[usize]| {
            Pattern::of(&Layout::contiguous(DType::Float, dims).broadcast_to(to).unwrap())
        };
        let to = [2, 3, 4, 5];
        assert_eq!(pattern(&to, &to), Some(Pattern { inner: 1, count: 120 }));
        assert_eq!(pattern(&[5], &to), Some(Pattern { inner: 1, count: 5 }));
        assert_eq!(pattern(&[4, 5], &to), Some(Pattern { inner: 1, count: 20 }));
        assert_eq!(pattern(&[3, 1, 1], &to), Some(Pattern { inner: 20, count: 3 }));
        assert_eq!(pattern(&[2, 3, 1, 1], &to), Some(Pattern { inner: 20, count: 6 }));
        assert_eq!(pattern(&[1], &to), Some(Pattern { inner: 120, count: 1 }));
        assert_eq!(pattern(&[3, 1, 5], &to), None, "the same numbers again and again in between");
        let permuted = Layout::contiguous(DType::Float, &[4, 3]).permuted(&[1, 0]);
        assert_eq!(Pattern::of(&permuted), None);
    }

    #[test]
    fn blocks_of_any_shape_are_computed_once() {
        let (height, width) = (9, 700);
        for length in [1, 3, 16, 100, 511, 512, 513, 600] {
            for (rows, start) in [(1, 0), (4, 7), (9, 100)] {
                let (inner, count) = (13, 5);
                let mut operands = [numbers(count, 1), numbers(height * width, 2), vec![3.0]];
                let copies = operands.clone();
                let stages = vec![
                    stage(
                        Function::Add,
                        &[Source::Value(0), Source::Operand(0, Pattern { inner, count })],
                    ),
                    stage(Function::Relu, &[Source::Value(1)]),
                    stage(
                        Function::Strips(Arc::new(|inputs, out| {
                            for at in 0..out.len() {
                                out[at] = inputs[0][at] * inputs[1][at] - inputs[2][at];
                            }
                        })),
                        &[
                            Source::Value(2),
                            Source::Operand(1, Pattern { inner: 1, count: height * width }),
                            Source::Value(0),
                        ],
                    ),
                    stage(Function::Least, &[Source::Value(3), Source::Number(40.0)]),
                    stage(
                        Function::Greatest,
                        &[Source::Operand(2, Pattern { inner: 1, count: 1 }), Source::Value(4)],
                    ),
                ];
                let before = numbers(height * width, 3);
                let mut out = before.clone();
                with_epilogue(stages, &mut operands, |epilogue| {
                    let layout = Layout::contiguous(DType::Float, &[height, width]);
                    let view = ViewMut::over(cells(&mut out), layout).unwrap();
                    let block = Block { first: start, rows, pitch: width, length };
                    // SAFETY: inside the output, on this thread.
                    unsafe { epilogue.apply(&view, block) };
                    assert!(epilogue.clipped(height * width).is_none());
                });
                for at in 0..height * width {
                    let place = at.wrapping_sub(start);
                    let is_inside = at >= start && place / width < rows && place % width < length;
                    let x = before[at];
                    let sum = x + copies[0][at / inner % count];
                    let want = (sum.max(0.0) * copies[1][at] - x).clamp(3.0, 40.0);
                    assert_eq!(out[at], if is_inside { want } else { x }, "{at} of {length}");
                }
            }
        }
    }

    #[test]
    fn bounds_are_recognised_in_their_order_alone() {
        let (x, y, z) = (Source::Value(0), Source::Value(1), Source::Value(2));
        let whole = Source::Operand(0, Pattern { inner: 1, count: 8 });
        let row = Source::Operand(0, Pattern { inner: 1, count: 4 });
        let is_clipped = |stages: Vec<Stage>| {
            with_epilogue(stages, &mut [numbers(8, 1)], |epilogue| epilogue.clipped(8).is_some())
        };
        let six = Source::Number(6.0);
        assert!(is_clipped(vec![stage(Function::Relu, &[x])]));
        assert!(is_clipped(vec![stage(Function::Add, &[whole, x]), stage(Function::Relu, &[y])]));
        assert!(is_clipped(vec![
            stage(Function::Greatest, &[x, Source::Number(0.0)]),
            stage(Function::Least, &[six, y]),
        ]));
        assert!(is_clipped(vec![stage(Function::Clamp, &[x, Source::Number(0.0), six])]));
        assert!(!is_clipped(vec![
            stage(Function::Least, &[x, six]),
            stage(Function::Greatest, &[y, Source::Number(0.0)]),
        ]));
        assert!(!is_clipped(vec![stage(Function::Relu, &[x]), stage(Function::Add, &[y, whole])]));
        assert!(!is_clipped(vec![stage(Function::Add, &[x, row])]), "a row for all");
        assert!(!is_clipped(vec![stage(Function::Relu, &[x]), stage(Function::Add, &[x, y])]));
        assert!(!is_clipped(vec![stage(Function::Add, &[x, x]), stage(Function::Relu, &[y])]));
        let chain = vec![stage(Function::Relu, &[x]), stage(Function::Relu, &[y])];
        assert!(!is_clipped([chain, vec![stage(Function::Least, &[z, six])]].concat()));
    }

    #[test]
    fn too_many_values_at_a_time_are_refused() {
        let sum = |a, b| stage(Function::Add, &[Source::Value(a), Source::Value(b)]);
        let first = || (0..SLOTS).map(|_| stage(Function::Relu, &[Source::Value(0)]));
        let stages: Vec<Stage> = first().chain((0..SLOTS).map(|at| sum(at, at + 1))).collect();
        assert!(Stages::new(stages).is_none());
        let chain = (0..40).map(|at| stage(Function::Relu, &[Source::Value(at)]));
        assert!(Stages::new(chain.collect()).is_some());
    }
}
