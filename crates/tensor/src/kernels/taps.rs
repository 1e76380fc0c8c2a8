//! Maps of one dimension to another: which inputs each output is made of, and by what weight.

use super::element::Element;
use super::number::Number;
use super::resize::Resize;
use crate::{DType, ViewMut};

/// Where the outputs of a dimension are among its inputs, for interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Which positions of the two are aligned.
    pub alignment: Alignment,
    /// Outputs for each input, if the caller gives it; otherwise by the sizes.
    pub factor: Option<f64>,
    /// Positions are computed in `f64`; otherwise in `f32`.
    pub is_double: bool,
}

/// Which outputs of a dimension are aligned with its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// The first positions, and the last.
    Corners,
    /// The outer borders: positions are the centres of what is between.
    Centres,
    /// The first positions alone.
    Origins,
}

/// How the outputs of a dimension follow from its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The sum of a window of `kernel` positions, divided by its count: windows begin `stride` apart, the first `before`
    /// positions before the input, which has `after` positions more after its end.
    Windows {
        /// Positions of a window.
        kernel: usize,
        /// From the start of one to the start of the next.
        stride: usize,
        /// Positions in front of the input.
        before: usize,
        /// Positions after the input.
        after: usize,
        /// From one position of a window to the next.
        dilation: usize,
        /// What the sum is divided by.
        divisor: Divisor,
    },
    /// The average of a part of the input; the parts cover it evenly.
    Parts,
    /// The input at the start of the output, rounded down; with aligned corners the nearest.
    Nearest(Scaling),
    /// The input at the centre of the output.
    NearestCentre(Scaling),
    /// Between two inputs.
    Linear(Scaling),
    /// Cubic convolution of four inputs, with this coefficient.
    Cubic(Scaling, f64),
    /// Antialiased: weights of a triangle as wide as an output, at least as an input.
    SmoothLinear(Scaling),
    /// Antialiased: weights of cubic convolution over two outputs on each side, at least two inputs.
    SmoothCubic(Scaling),
    /// The input with borders: `before` positions in front (negative: as many fewer).
    Padding(i64, Edge),
    /// As ONNX resizes.
    Resize(Resize),
}

/// What a sum over a window is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The positions of the window that are in the input.
    Inside,
    /// The positions of the window that are in the input or its borders.
    Padded,
    /// This number.
    Number(i64),
}

/// What a border contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The input mirrored at its outermost element.
    Reflect,
    /// The input mirrored at its outer border.
    Symmetric,
    /// The outermost element.
    Replicate,
    /// The input again, from its other end.
    Circular,
}

/// A map of `input` positions to `output` positions. Both are at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taps {
    /// How outputs follow from inputs.
    pub rule: Rule,
    /// How many inputs there are.
    pub input: usize,
    /// How many outputs.
    pub output: usize,
}

impl Scaling {
    /// Rounds to the type that positions are computed in.
    fn round(&self, value: f64) -> f64 {
        if self.is_double { value } else { f64::from(value as f32) }
    }

    /// Inputs for each output.
    fn step(&self, input: usize, output: usize) -> f64 {
        if self.alignment == Alignment::Corners {
            return match output {
                1 => 0.0,
                _ => self.round((input - 1) as f64 / (output - 1) as f64),
            };
        }
        match self.factor {
            Some(factor) if factor > 0.0 => self.round(1.0 / factor),
            _ => self.round(input as f64 / output as f64),
        }
    }

    /// The position of an output among the inputs.
    fn position(&self, step: f64, output: usize) -> f64 {
        match self.alignment {
            Alignment::Centres => self.round(self.round(step * (output as f64 + 0.5)) - 0.5),
            Alignment::Corners | Alignment::Origins => self.round(step * output as f64),
        }
    }
}

/// The weight of cubic convolution with coefficient `a` at a distance.
pub(super) fn cubic(a: f64, distance: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

/// The weight of linear interpolation at a distance.
fn triangle(distance: f64) -> f64 {
    (1.0 - distance.abs()).max(0.0)
}

impl Taps {
    /// The one input of an output under a rule that has one; `None` under others.
    pub fn source(&self, output: usize) -> Option<usize> {
        let (input, last) = (self.input, self.input as i64 - 1);
        Some(match self.rule {
            Rule::Nearest(scaling) => {
                if self.output == input && scaling.factor.is_none() {
                    return Some(output);
                }
                let position = scaling.round(scaling.step(input, self.output) * output as f64);
                let rounded = match scaling.alignment {
                    Alignment::Corners => position.round(),
                    _ => position.floor(),
                };
                (rounded as usize).min(input - 1)
            }
            Rule::NearestCentre(scaling) => {
                let step = scaling.step(input, self.output);
                let position = scaling.round(step * scaling.round(output as f64 + 0.5));
                (position.floor() as usize).min(input - 1)
            }
            Rule::Padding(before, edge) => {
                let position = output as i64 - before;
                let inside = match edge {
                    Edge::Replicate => position.clamp(0, last),
                    Edge::Circular => position.rem_euclid(last + 1),
                    Edge::Reflect if last == 0 => 0,
                    Edge::Reflect => {
                        let remainder = position.rem_euclid(2 * last);
                        remainder.min(2 * last - remainder)
                    }
                    Edge::Symmetric => {
                        let remainder = position.rem_euclid(2 * (last + 1));
                        remainder.min(2 * last + 1 - remainder)
                    }
                };
                inside as usize
            }
            Rule::Resize(resize) => return resize.source(output, input, self.output),
            _ => return None,
        })
    }

    /// Calls `visit` with the inputs of an output and their weights.
    pub fn each(&self, output: usize, mut visit: impl FnMut(usize, f64)) {
        let input = self.input;
        if let Some(source) = self.source(output) {
            return visit(source, 1.0);
        }
        match self.rule {
            Rule::Windows { kernel, stride, before, dilation, .. } => {
                let start = output as i64 * stride as i64 - before as i64;
                let end = (start + (kernel * dilation) as i64).min(input as i64);
                let first = start + before_input(start, dilation) * dilation as i64;
                let positions = (first..end).step_by(dilation);
                positions.for_each(|position| visit(position as usize, 1.0));
            }
            Rule::Parts => {
                let (start, end) = part(output, input, self.output);
                (start..end).for_each(|position| visit(position, 1.0));
            }
            Rule::Linear(scaling) => {
                if input == self.output {
                    return visit(output, 1.0);
                }
                let position = scaling.position(scaling.step(input, self.output), output).max(0.0);
                let first = (position.floor() as usize).min(input - 1);
                let fraction = scaling.round(position - first as f64).clamp(0.0, 1.0);
                visit(first, scaling.round(1.0 - fraction));
                visit((first + 1).min(input - 1), fraction);
            }
            Rule::Cubic(scaling, coefficient) => {
                let position = scaling.position(scaling.step(input, self.output), output);
                let (first, last) = (position.floor(), input as i64 - 1);
                let fraction = scaling.round(position - first);
                for at in -1..=2 {
                    let source = (first as i64).saturating_add(at).clamp(0, last);
                    visit(source as usize, cubic(coefficient, at as f64 - fraction));
                }
            }
            Rule::SmoothLinear(scaling) => self.smooth(scaling, output, 1.0, triangle, visit),
            Rule::SmoothCubic(scaling) => {
                self.smooth(scaling, output, 2.0, |x| cubic(-0.5, x), visit)
            }
            Rule::Resize(resize) => resize.each(output, input, self.output, visit),
            Rule::Nearest(_) | Rule::NearestCentre(_) | Rule::Padding(..) => {}
        }
    }

    /// Calls `visit` with the inputs within `reach` of an output and their weights by `filter`, which sum to 1.
    fn smooth(
        &self,
        scaling: Scaling,
        output: usize,
        reach: f64,
        filter: impl Fn(f64) -> f64,
        mut visit: impl FnMut(usize, f64),
    ) {
        let step = scaling.step(self.input, self.output);
        let width = step.max(1.0);
        let centre = step * (output as f64 + 0.5);
        let start = (centre - reach * width + 0.5).max(0.0) as usize;
        let end = ((centre + reach * width + 0.5).max(0.0) as usize).min(self.input);
        let weight = |position: usize| filter((position as f64 - centre + 0.5) / width);
        let total: f64 = (start..end).map(weight).sum();
        let total = if total == 0.0 { 1.0 } else { total };
        (start..end).for_each(|position| visit(position, weight(position) / total));
    }

    /// What the weighted sum of an output is divided by; 0 where there is nothing to divide.
    pub fn divisor(&self, output: usize) -> f64 {
        match self.rule {
            Rule::Windows { kernel, stride, before, after, dilation, divisor } => {
                let (input, start) = (self.input as i64, (output * stride) as i64 - before as i64);
                let until = |end: i64| {
                    let reach = (end - start).max(0) as u64;
                    reach.div_ceil(dilation as u64).min(kernel as u64) as i64
                };
                let inside = (until(input) - before_input(start, dilation)).max(0);
                match divisor {
                    _ if inside == 0 => 0.0,
                    Divisor::Inside => inside as f64,
                    Divisor::Padded => until(input + after as i64) as f64,
                    Divisor::Number(number) => number as f64,
                }
            }
            Rule::Parts => {
                let (start, end) = part(output, self.input, self.output);
                (end - start) as f64
            }
            _ => 1.0,
        }
    }

    /// How many pairs of an output and one of its inputs there are.
    pub fn count(&self) -> usize {
        let mut count = 0;
        (0..self.output).for_each(|output| self.each(output, |_, _| count += 1));
        count
    }

    /// Whether every output is the input at its position.
    pub fn is_identity(&self) -> bool {
        self.input == self.output
            && match self.rule {
                Rule::Windows { kernel, stride, before, divisor, .. } => {
                    let divides_by_one = !matches!(divisor, Divisor::Number(number) if number != 1);
                    kernel == 1 && stride == 1 && before == 0 && divides_by_one
                }
                Rule::Parts | Rule::Linear(_) => true,
                Rule::Nearest(scaling) => scaling.factor.is_none(),
                Rule::Padding(before, _) => before == 0,
                Rule::Resize(resize) => resize.is_identity(self.input, self.output),
                _ => false,
            }
    }

    /// The sources of all outputs, written to `positions`, which has that many 64-bit integers in a line.
    ///
    /// # Panics
    /// Under a rule that has more than one input for an output.
    pub fn sources<'a>(&self, positions: ViewMut<'a>) -> &'a [i64] {
        let sources = as_numbers::<i64>(positions, self.output);
        for (output, slot) in sources.iter_mut().enumerate() {
            let source = self.source(output).expect("a rule with one source");
            assert!(source < self.input);
            *slot = source as i64;
        }
        sources
    }
}

/// How many positions of a window that begins at `start` are before the input.
fn before_input(start: i64, dilation: usize) -> i64 {
    match start < 0 {
        true => start.unsigned_abs().div_ceil(dilation as u64) as i64,
        false => 0,
    }
}

/// The part `at` of `input` positions that are cut into `output` parts.
pub fn part(at: usize, input: usize, output: usize) -> (usize, usize) {
    let (at, input, output) = (at as u128, input as u128, output as u128);
    let (start, end) = (at * input / output, ((at + 1) * input).div_ceil(output));
    (start as usize, end as usize)
}

/// Memory as numbers, one after the other. It is scratch of one call: nobody else uses it.
fn as_numbers<'a, T: Element>(memory: ViewMut<'a>, length: usize) -> &'a mut [T] {
    let first = memory.first_mut().cast::<T>();
    assert!(memory.is_contiguous() && memory.count() >= length && memory.dtype() == T::DTYPE);
    assert!(first.is_aligned() && T::DTYPE != DType::Bool);
    // SAFETY: as just checked; scratch of one call has no other reader or writer.
    unsafe { std::slice::from_raw_parts_mut(first, length) }
}

/// The memory that a [`Table`] is written to.
#[derive(Clone, Copy)]
pub struct TableBuffers<'a> {
    /// Two more integers than there are results.
    pub starts: ViewMut<'a>,
    /// As many integers as there are pairs.
    pub sources: ViewMut<'a>,
    /// As many numbers of the type computed in.
    pub weights: ViewMut<'a>,
    /// As many as there are results.
    pub divisors: ViewMut<'a>,
}

/// A map of one dimension to another, written out: for each result its sources and weights, and what the sum is divided
/// by.
#[derive(Clone, Copy)]
pub struct Table<'a, C> {
    starts: &'a [i64],
    sources: &'a [i64],
    weights: &'a [C],
    divisors: &'a [C],
    limit: usize,
}

impl<'a, C: Number> Table<'a, C> {
    /// Outputs from inputs.
    pub fn forward(taps: &Taps, buffers: TableBuffers<'a>) -> Table<'a, C> {
        let count = buffers.weights.count();
        let starts = as_numbers::<i64>(buffers.starts, taps.output + 2);
        let (sources, weights) =
            (as_numbers::<i64>(buffers.sources, count), as_numbers::<C>(buffers.weights, count));
        let divisors = as_numbers::<C>(buffers.divisors, taps.output);
        let mut next = 0;
        for output in 0..taps.output {
            starts[output] = next as i64;
            divisors[output] = C::from_f64(taps.divisor(output));
            taps.each(output, |source, weight| {
                (sources[next], weights[next]) = (source as i64, C::from_f64(weight));
                next += 1;
            });
        }
        starts[taps.output..].fill(next as i64);
        Table { starts, sources, weights, divisors, limit: taps.input }
    }

    /// The gradients of inputs from those of outputs.
    pub fn backward(taps: &Taps, buffers: TableBuffers<'a>) -> Table<'a, C> {
        let count = buffers.weights.count();
        let starts = as_numbers::<i64>(buffers.starts, taps.input + 2);
        let (sources, weights) =
            (as_numbers::<i64>(buffers.sources, count), as_numbers::<C>(buffers.weights, count));
        let divisors = as_numbers::<C>(buffers.divisors, taps.input);
        divisors.fill(C::ONE);
        starts.fill(0);
        for output in 0..taps.output {
            taps.each(output, |source, _| starts[source + 2] += 1);
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        for output in 0..taps.output {
            let divisor = taps.divisor(output);
            taps.each(output, |source, weight| {
                let position = starts[source + 1] as usize;
                let weight_part = if divisor == 0.0 { 0.0 } else { weight / divisor };
                (sources[position], weights[position]) = (output as i64, C::from_f64(weight_part));
                starts[source + 1] += 1;
            });
        }
        Table { starts, sources, weights, divisors, limit: taps.output }
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.divisors.len()
    }

    /// One more than the greatest source there may be.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The sources and weights of a result.
    #[inline(always)]
    pub fn of(&self, result: usize) -> (&'a [i64], &'a [C]) {
        let range = self.starts[result] as usize..self.starts[result + 1] as usize;
        (&self.sources[range.clone()], &self.weights[range])
    }

    /// What the sum of a result is divided by.
    #[inline(always)]
    pub fn divisor(&self, result: usize) -> C {
        self.divisors[result]
    }
}
