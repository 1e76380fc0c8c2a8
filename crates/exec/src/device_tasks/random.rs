//! Random numbers that a device draws.

use super::bytes::{read_bytes, work, write_bytes};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::Memory;
use cairn_runtime::task::{Location, Span, Spans, Task};
use cairn_tensor::DType;
use cairn_tensor::kernels::philox::Philox;
use cairn_tensor::kernels::random_bytes::{self, Distribution, Number, draw, draw_kept_bits};
use std::sync::Arc;

/// Numbers that are drawn at a time; a multiple of eight.
const CHUNK: usize = 4096;

/// The name of the tasks.
const NAME: &str = "aclrtRandomNumAsync";

/// A number, or where it is in device memory when the task runs.
#[derive(Clone, Copy)]
pub enum Parameter {
    /// Its bytes, lowest first.
    Value([u8; 8]),
    /// Its address.
    At(usize),
}

impl Parameter {
    /// Its first `bytes`, others 0.
    fn get(self, bytes: usize, memory: &Memory) -> Result<[u8; 8]> {
        let all = match self {
            Parameter::Value(value) => value,
            Parameter::At(address) => match bytes {
                2 => widened(read_bytes::<2>(NAME, memory, address)?),
                4 => widened(read_bytes::<4>(NAME, memory, address)?),
                _ => read_bytes(NAME, memory, address)?,
            },
        };
        Ok(std::array::from_fn(|at| if at < bytes { all[at] } else { 0 }))
    }
}

fn widened<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn unknown(dtype: DType) -> Error {
    Error::invalid(format!(
        "data type {dtype}: expected int32, int64, uint32, uint64, bf16, float16 or float"
    ))
}

/// Bytes of a number of a type. Fails for those that are not drawn.
pub fn element_bytes(dtype: DType) -> Result<usize> {
    random_bytes::element_bytes(dtype).ok_or_else(|| unknown(dtype))
}

/// What is drawn, and where its parameters are.
#[derive(Clone, Copy)]
pub enum RandomKind {
    /// Bits that are 0 with this probability.
    DropoutMask(Parameter),
    /// From a number to below another one.
    Uniform(Parameter, Parameter),
    /// With a mean and a standard deviation.
    Normal(Parameter, Parameter),
    /// The same without those that are more than two standard deviations from the mean.
    Truncated(Parameter, Parameter),
}

/// The same, once its parameters are known.
enum Known {
    Bits { dropped: f64 },
    Numbers(Distribution),
}

/// Random numbers of one task.
#[derive(Clone, Copy)]
pub struct RandomNumbers {
    /// What is drawn.
    pub kind: RandomKind,
    /// The type of the numbers, and of the parameters of their distribution; of a mask only that of its ratio.
    pub dtype: DType,
    /// The seed, of 8 bytes.
    pub seed: Parameter,
    /// How many, of 8 bytes.
    pub count: Parameter,
    /// Where they go.
    pub result: usize,
    /// Where the counter is: 8 bytes, which the task advances. Numbers of one seed and different counters have nothing in common.
    pub counter: usize,
}

impl RandomNumbers {
    fn number(&self, parameter: Parameter, memory: &Memory) -> Result<Number> {
        let bytes = parameter.get(element_bytes(self.dtype)?, memory)?;
        Number::decode(self.dtype, bytes).ok_or_else(|| unknown(self.dtype))
    }

    fn known(&self, memory: &Memory) -> Result<Known> {
        let number = |parameter: Parameter| self.number(parameter, memory);
        let normal = |mean, deviation| -> Result<(f64, f64)> {
            let (mean, deviation) = (number(mean)?.real(), number(deviation)?.real());
            match mean.is_finite() && deviation.is_finite() && deviation >= 0.0 {
                true => Ok((mean, deviation)),
                false => Err(Error::refused(format!(
                    "mean {mean}, stddev {deviation}: expected finite numbers, stddev at least 0"
                ))),
            }
        };
        Ok(match self.kind {
            RandomKind::DropoutMask(ratio) => {
                let dropped = number(ratio)?.real();
                if !(0.0..=1.0).contains(&dropped) {
                    return Err(Error::refused(format!(
                        "dropout ratio {dropped}: expected 0 to 1"
                    )));
                }
                Known::Bits { dropped }
            }
            RandomKind::Uniform(low, high) => {
                let (low, high) = (number(low)?, number(high)?);
                let is_range = match (low, high) {
                    (Number::Whole(low), Number::Whole(high)) => low <= high,
                    _ => (high.real() - low.real()).is_finite() && low.real() <= high.real(),
                };
                if !is_range {
                    let (low, high) = (low.real(), high.real());
                    return Err(Error::refused(format!(
                        "min {low}, max {high}: expected finite numbers, min at most max"
                    )));
                }
                Known::Numbers(Distribution::Uniform(low, high))
            }
            RandomKind::Normal(mean, deviation) => {
                let (mean, deviation) = normal(mean, deviation)?;
                Known::Numbers(Distribution::Normal { mean, deviation })
            }
            RandomKind::Truncated(mean, deviation) => {
                let (mean, deviation) = normal(mean, deviation)?;
                Known::Numbers(Distribution::Truncated { mean, deviation })
            }
        })
    }

    /// Bytes of the result.
    fn bytes(&self, count: u64) -> Result<usize> {
        let bytes = match self.kind {
            RandomKind::DropoutMask(_) => usize::try_from(count.div_ceil(8)).ok(),
            _ => (usize::try_from(count).ok())
                .and_then(|count| count.checked_mul(random_bytes::element_bytes(self.dtype)?)),
        };
        let fits = bytes.filter(|&bytes| self.result.checked_add(bytes).is_some());
        fits.ok_or_else(|| {
            Error::refused(format!("{count} random numbers do not fit the address space"))
        })
    }

    fn run(&self, memory: &Memory) -> Result<()> {
        let counter = u64::from_le_bytes(read_bytes(NAME, memory, self.counter)?);
        let seed = u64::from_le_bytes(self.seed.get(8, memory)?);
        let count = u64::from_le_bytes(self.count.get(8, memory)?);
        let in_task = |error: Error| Error::new(error.code, format!("{NAME}: {}", error.text));
        let known = self.known(memory).map_err(in_task)?;
        self.bytes(count).map_err(in_task)?;
        let philox = Philox::new(seed, counter);
        let element = element_bytes(self.dtype)?;
        let mut bytes = vec![0u8; CHUNK * 8];
        let mut at = self.result;
        for first in (0..count).step_by(CHUNK) {
            let len = CHUNK.min((count - first) as usize);
            let chunk = match known {
                Known::Bits { dropped } => {
                    let chunk = &mut bytes[..len.div_ceil(8)];
                    draw_kept_bits(dropped, philox, first, len, chunk);
                    chunk
                }
                Known::Numbers(distribution) => {
                    let chunk = &mut bytes[..len * element];
                    draw(self.dtype, distribution, philox, first, chunk);
                    chunk
                }
            };
            write_bytes(NAME, memory, (at, Location::AnyDevice), chunk)?;
            at += chunk.len();
        }
        let next = counter.wrapping_add(count);
        write_bytes(NAME, memory, (self.counter, Location::AnyDevice), &next.to_le_bytes())
    }

    /// The task that draws them. Fails for a type that cannot be drawn, and for values that are wrong and known now. Those who
    /// listen see what it writes if the count is known now.
    pub fn task(self, memory: &Arc<Memory>) -> Result<Task> {
        let parameters: &[Parameter] = match &self.kind {
            RandomKind::DropoutMask(ratio) => &[*ratio],
            RandomKind::Uniform(one, other)
            | RandomKind::Normal(one, other)
            | RandomKind::Truncated(one, other) => &[*one, *other],
        };
        let element = element_bytes(self.dtype)?;
        if parameters.iter().all(|parameter| matches!(parameter, Parameter::Value(_))) {
            self.known(memory)?;
        }
        let bytes = match self.count {
            Parameter::Value(count) => self.bytes(u64::from_le_bytes(count))?,
            Parameter::At(_) => 0,
        };
        let span = |address, bytes| Span { address, bytes, location: Location::AnyDevice };
        let mut reads: Spans = [span(self.counter, 8)].into_iter().collect();
        for (parameter, bytes) in [(self.seed, 8), (self.count, 8)]
            .into_iter()
            .chain(parameters.iter().map(|&parameter| (parameter, element)))
        {
            if let Parameter::At(address) = parameter {
                reads.push(span(address, bytes));
            }
        }
        let memory = memory.clone();
        Ok(Task {
            name: NAME,
            reads,
            writes: [span(self.counter, 8), span(self.result, bytes)].into_iter().collect(),
            body: work(move || self.run(&memory)),
        })
    }
}
