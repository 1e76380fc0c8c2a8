//! Tasks that a device does without a kernel: fills with numbers, reductions, random numbers.

use crate::abi;
use crate::copy_forms::{Closure, read_bytes};
use crate::door::{self, Handle, entry, runtime};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::memory::{AddressInfo, Memory};
use cairn_runtime::task::{Body, Kernel, Location, Span, Task};
use cairn_tensor::kernels::philox::Philox;
use half::{bf16, f16};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are put into memory at a time.
const CHUNK: usize = 64 << 10;

/// Copies bytes of this process to memory, at once.
pub fn put(name: &'static str, memory: &Memory, address: usize, bytes: &[u8]) -> Result<()> {
    let from =
        Span { address: bytes.as_ptr() as usize, bytes: bytes.len(), location: Location::Any };
    let to = Span { address, bytes: bytes.len(), location: Location::Any };
    memory.perform(&Task::copy(name, from, to))
}

/// Sets numbers of four bytes, at once.
fn fill_numbers(
    name: &'static str,
    memory: &Memory,
    address: usize,
    value: u32,
    count: usize,
) -> Result<()> {
    let pattern: Vec<u8> = value.to_le_bytes().repeat(count.min(CHUNK / 4));
    let (mut at, mut left) = (address, 4 * count);
    while left > 0 {
        let len = left.min(pattern.len());
        put(name, memory, at, &pattern[..len])?;
        (at, left) = (at + len, left - len);
    }
    Ok(())
}

/// Checks a fill with numbers; whether it is on a device, or `None` when there is nothing to do.
fn check_fill(ptr: Handle, bytes: usize, count: usize) -> Result<Option<bool>> {
    if count == 0 {
        return Ok(None);
    }
    door::not_null(ptr, "ptr")?;
    if !(ptr as usize).is_multiple_of(4) {
        return Err(Error::invalid(format!("ptr {ptr:p} is not a multiple of 4")));
    }
    if count.checked_mul(4).is_none_or(|needed| needed > bytes) {
        return Err(Error::invalid(format!("{count} numbers need more than memSize {bytes}")));
    }
    match runtime()?.shared.memory.enclosing(ptr as usize) {
        AddressInfo::Device(..) => Ok(Some(true)),
        AddressInfo::Pinned(Some(_)) | AddressInfo::Registered(_) => Ok(Some(false)),
        _ => Err(Error::invalid(format!("ptr {ptr:p} is no memory of ACL"))),
    }
}

/// `dst = dst op src`, element by element.
struct Reduction {
    kind: u32,
    type_: i32,
}

/// Applies an operation to elements of `N` bytes: destination, source.
fn each<const N: usize>(memory: &TaskMemory<'_>, apply: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (dst, src) in memory.write(0).chunks_exact(N).zip(memory.read(0).chunks_exact(N)) {
        let value =
            apply(std::array::from_fn(|at| dst[at].get()), std::array::from_fn(|at| src[at].get()));
        dst.iter().zip(value).for_each(|(cell, byte)| cell.set(byte));
    }
}

impl Reduction {
    fn integers<const N: usize>(&self, memory: &TaskMemory<'_>, read: impl Fn([u8; N]) -> i64) {
        each(memory, |a: [u8; N], b: [u8; N]| {
            let (x, y) = (read(a), read(b));
            let value = match self.kind {
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM => x.wrapping_add(y),
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX => x.max(y),
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN => x.min(y),
                _ => i64::from(x == y),
            };
            let bytes = value.to_le_bytes();
            std::array::from_fn(|at| bytes[at])
        });
    }

    fn floats<const N: usize>(
        &self,
        memory: &TaskMemory<'_>,
        read: impl Fn([u8; N]) -> f32,
        write: impl Fn(f32) -> [u8; N],
        largest: f32,
    ) {
        let saturate = |value: f32| match memory.overflowed() {
            Some(overflowed) if !read(write(value)).is_finite() => {
                overflowed.store(true, Ordering::Relaxed);
                if value.is_nan() { 0.0 } else { largest.copysign(value) }
            }
            _ => value,
        };
        each(memory, |a: [u8; N], b: [u8; N]| {
            let (x, y) = (read(a), read(b));
            write(saturate(match self.kind {
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM => x + y,
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX => x.max(y),
                abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN => x.min(y),
                _ => f32::from(u8::from(x == y)),
            }))
        });
    }
}

impl Kernel for Reduction {
    fn argument(&self, purpose: Use, _: usize) -> &str {
        if purpose == Use::Read { "src" } else { "dst" }
    }

    fn run(&self, memory: &TaskMemory<'_>) -> Result<()> {
        match self.type_ {
            abi::ACL_INT8 => self.integers(memory, |b| i64::from(i8::from_le_bytes(b))),
            abi::ACL_INT16 => self.integers(memory, |b| i64::from(i16::from_le_bytes(b))),
            abi::ACL_INT32 => self.integers(memory, |b| i64::from(i32::from_le_bytes(b))),
            abi::ACL_FLOAT16 => self.floats(
                memory,
                |b| f16::from_le_bytes(b).to_f32(),
                |v| f16::from_f32(v).to_le_bytes(),
                f16::MAX.to_f32(),
            ),
            abi::ACL_BF16 => self.floats(
                memory,
                |b| bf16::from_le_bytes(b).to_f32(),
                |v| bf16::from_f32(v).to_le_bytes(),
                bf16::MAX.to_f32(),
            ),
            _ => self.floats(memory, f32::from_le_bytes, f32::to_le_bytes, f32::MAX),
        }
        Ok(())
    }
}

/// Bytes of an element that can be reduced.
fn reduced_bytes(type_: i32) -> Option<u64> {
    match type_ {
        abi::ACL_INT8 => Some(1),
        abi::ACL_INT16 | abi::ACL_FLOAT16 | abi::ACL_BF16 => Some(2),
        abi::ACL_INT32 | abi::ACL_FLOAT => Some(4),
        _ => None,
    }
}

/// Bytes of a random element.
fn random_bytes(type_: i32) -> Option<usize> {
    match type_ {
        abi::ACL_FLOAT16 | abi::ACL_BF16 => Some(2),
        abi::ACL_INT32 | abi::ACL_UINT32 | abi::ACL_FLOAT => Some(4),
        abi::ACL_INT64 | abi::ACL_UINT64 => Some(8),
        _ => None,
    }
}

/// A parameter: its bytes, or where they are.
#[derive(Clone, Copy)]
enum Parameter {
    Value([u8; 8]),
    At(usize),
}

impl Parameter {
    fn new(info: &abi::aclrtRandomParaInfo) -> Parameter {
        match info.isAddr {
            0 => Parameter::Value(info.valueOrAddr),
            _ => Parameter::At(u64::from_le_bytes(info.valueOrAddr) as usize),
        }
    }

    /// The first `N` bytes, read from device memory if they are there.
    fn bytes<const N: usize>(self, name: &'static str, memory: &Memory) -> Result<[u8; N]> {
        match self {
            Parameter::Value(bytes) => Ok(std::array::from_fn(|at| bytes[at])),
            Parameter::At(address) => read_bytes(name, memory, address),
        }
    }

    fn number(self, name: &'static str, memory: &Memory) -> Result<u64> {
        self.bytes(name, memory).map(u64::from_le_bytes)
    }

    /// As a number of a type.
    fn real(self, type_: i32, name: &'static str, memory: &Memory) -> Result<f64> {
        Ok(match type_ {
            abi::ACL_FLOAT16 => f16::from_le_bytes(self.bytes(name, memory)?).to_f64(),
            abi::ACL_BF16 => bf16::from_le_bytes(self.bytes(name, memory)?).to_f64(),
            abi::ACL_FLOAT => f64::from(f32::from_le_bytes(self.bytes(name, memory)?)),
            abi::ACL_INT32 => f64::from(i32::from_le_bytes(self.bytes(name, memory)?)),
            abi::ACL_UINT32 => f64::from(u32::from_le_bytes(self.bytes(name, memory)?)),
            abi::ACL_INT64 => i64::from_le_bytes(self.bytes(name, memory)?) as f64,
            _ => u64::from_le_bytes(self.bytes(name, memory)?) as f64,
        })
    }
}

/// Random numbers of one task.
#[derive(Clone, Copy)]
struct RandomNumbers {
    function: u32,
    type_: i32,
    first: Parameter,
    second: Parameter,
    seed: Parameter,
    count: Parameter,
    result: usize,
    counter: usize,
}

/// A number in (0, 1].
fn unit(word: u32) -> f64 {
    (f64::from(word) + 1.0) / 4_294_967_296.0
}

impl RandomNumbers {
    const NAME: &'static str = "aclrtRandomNumAsync";

    /// Words for one number.
    const WORDS: usize = 4;

    fn run(&self, memory: &Memory) -> Result<()> {
        let seed = self.seed.number(Self::NAME, memory)?;
        let count = self.count.number(Self::NAME, memory)? as usize;
        let offset = u64::from_le_bytes(read_bytes(Self::NAME, memory, self.counter)?);
        let philox = Philox::new(seed, offset);
        let first = self.first.real(self.type_, Self::NAME, memory)?;
        let is_mask = self.function == abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK;
        let second =
            if is_mask { 0.0 } else { self.second.real(self.type_, Self::NAME, memory)? };
        let numbers_in_chunk = 4096;
        let mut at = self.result;
        for start in (0..count).step_by(numbers_in_chunk) {
            let len = numbers_in_chunk.min(count - start);
            let mut words = vec![0u32; len * Self::WORDS];
            philox.fill((start * Self::WORDS) as u64, &mut words);
            let draws = words.chunks_exact(Self::WORDS);
            let bytes: Vec<u8> = match is_mask {
                true => {
                    let kept: Vec<bool> = draws.map(|draw| unit(draw[0]) > first).collect();
                    kept.chunks(8)
                        .map(|bits| {
                            bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))
                        })
                        .collect()
                }
                false => draws.flat_map(|draw| self.element(draw, first, second)).collect(),
            };
            put(Self::NAME, memory, at, &bytes)?;
            at += bytes.len();
        }
        let next = offset.wrapping_add(count as u64);
        put(Self::NAME, memory, self.counter, &next.to_le_bytes())
    }

    /// The bytes of one number.
    fn element(&self, draw: &[u32], first: f64, second: f64) -> Vec<u8> {
        let normal =
            |u: u32, v: u32| (-2.0 * unit(u).ln()).sqrt() * (std::f64::consts::TAU * unit(v)).cos();
        let value = match self.function {
            abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS => {
                first + (1.0 - unit(draw[0])) * (second - first)
            }
            abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS => {
                first + second * normal(draw[0], draw[1])
            }
            _ => {
                let tries = [normal(draw[0], draw[1]), normal(draw[2], draw[3])];
                let kept = tries.into_iter().find(|deviation| deviation.abs() <= 2.0);
                first + second * kept.unwrap_or_else(|| tries[0].clamp(-2.0, 2.0))
            }
        };
        match self.type_ {
            abi::ACL_FLOAT16 => f16::from_f64(value).to_le_bytes().to_vec(),
            abi::ACL_BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            abi::ACL_FLOAT => (value as f32).to_le_bytes().to_vec(),
            abi::ACL_INT32 => (value as i32).to_le_bytes().to_vec(),
            abi::ACL_UINT32 => (value as u32).to_le_bytes().to_vec(),
            abi::ACL_INT64 => (value as i64).to_le_bytes().to_vec(),
            _ => (value as u64).to_le_bytes().to_vec(),
        }
    }
}

entry! {
    /// Sets numbers of four bytes, at once.
    fn aclrtMemsetD32(ptr: Handle, bytes: usize, value: u32, count: usize) {
        if check_fill(ptr, bytes, count)?.is_some() {
            let runtime = runtime()?;
            runtime.current_context()?;
            fill_numbers("aclrtMemsetD32", &runtime.shared.memory, ptr as usize, value, count)?;
        }
        Ok(())
    }

    /// The same in stream order; host memory is set at once.
    fn aclrtMemsetD32Async(ptr: Handle, bytes: usize, value: u32, count: usize, stream: Handle) {
        const NAME: &str = "aclrtMemsetD32Async";
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let Some(is_device) = check_fill(ptr, bytes, count)? else { return Ok(()) };
        let (memory, address) = (runtime.shared.memory.clone(), ptr as usize);
        if !is_device {
            return fill_numbers(NAME, &memory, address, value, count);
        }
        let work = move || fill_numbers(NAME, &memory, address, value, count);
        let writes = [Span { address, bytes: 4 * count, location: Location::AnyDevice }].into_iter().collect();
        let task = Task { name: NAME, reads: Default::default(), writes, body: Body::Work(Arc::new(Closure(work))) };
        stream.submit(task).map(drop)
    }

    /// Reduces element by element in stream order.
    fn aclrtReduceAsync(dst: Handle, src: *const c_void, bytes: u64, kind: abi::aclrtReduceKind, type_: abi::aclDataType, stream: Handle, reserve: *mut c_void) {
        door::not_null(dst, "dst")?;
        door::not_null(src, "src")?;
        if bytes == 0 {
            return Err(Error::invalid("count 0: it must be positive"));
        }
        if !(abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM..=abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL).contains(&kind) {
            return Err(Error::invalid(format!("kind {kind}: expected 10 to 13")));
        }
        let Some(element) = reduced_bytes(type_) else {
            return Err(Error::invalid(format!("data type {type_}: expected int8, int16, int32, float16, float or bfloat16")));
        };
        if !bytes.is_multiple_of(element) {
            return Err(Error::refused(format!("count {bytes} is not a multiple of {element}, the bytes of an element")));
        }
        if !reserve.is_null() {
            return Err(Error::refused("reserve must be null"));
        }
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let location = Location::Device(stream.spec.device);
        let span = |address: usize| Span { address, bytes: bytes as usize, location };
        let task = Task {
            name: "aclrtReduceAsync",
            reads: [span(src as usize), span(dst as usize)].into_iter().collect(),
            writes: [span(dst as usize)].into_iter().collect(),
            body: Body::Kernel(Arc::new(Reduction { kind, type_ })),
        };
        stream.submit(task).map(drop)
    }

    /// Random numbers in stream order.
    fn aclrtRandomNumAsync(info: *const abi::aclrtRandomNumTaskInfo, stream: Handle, reserve: *mut c_void) {
        door::not_null(info, "taskInfo")?;
        if !reserve.is_null() {
            return Err(Error::refused("reserve must be null"));
        }
        // SAFETY: not null; the user passes this struct.
        let info = unsafe { info.read_unaligned() };
        let function = info.randomNumFuncParaInfo.funcType;
        if function > abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS {
            return Err(Error::invalid(format!("funcType {function}: expected 0 to 3")));
        }
        if random_bytes(info.dataType).is_none() {
            return Err(Error::invalid(format!("data type {}: expected int32, int64, uint32, uint64, bfloat16, float16 or float", info.dataType)));
        }
        door::not_null(info.randomResultAddr, "randomResultAddr")?;
        door::not_null(info.randomCounterAddr, "randomCounterAddr")?;
        // SAFETY: all members begin with parameters, of which any bytes are values.
        let range = unsafe { info.randomNumFuncParaInfo.paramInfo.uniformDisInfo };
        let numbers = RandomNumbers {
            function,
            type_: info.dataType,
            first: Parameter::new(&range.min),
            second: Parameter::new(&range.max),
            seed: Parameter::new(&info.randomSeed),
            count: Parameter::new(&info.randomNum),
            result: info.randomResultAddr as usize,
            counter: info.randomCounterAddr as usize,
        };
        let runtime = runtime()?;
        let memory = runtime.shared.memory.clone();
        let work = move || numbers.run(&memory);
        let counter = Span { address: numbers.counter, bytes: 8, location: Location::AnyDevice };
        let bytes = match numbers.count {
            Parameter::Value(count) => u64::from_le_bytes(count) as usize * random_bytes(info.dataType).unwrap_or(1),
            Parameter::At(_) => 0,
        };
        let bytes = if function == abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK { bytes.div_ceil(8) } else { bytes };
        let result = Span { address: numbers.result, bytes, location: Location::AnyDevice };
        let task = Task {
            name: RandomNumbers::NAME,
            reads: [counter].into_iter().collect(),
            writes: [counter, result].into_iter().collect(),
            body: Body::Work(Arc::new(Closure(work))),
        };
        runtime.stream(stream as usize)?.submit(task).map(drop)
    }
}
