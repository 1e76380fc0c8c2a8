//! Tasks that a device does without an operator: fills with numbers, reductions, random numbers.

use crate::abi;
use crate::door::{self, Handle, entry, runtime};
use cairn_exec::device_tasks::{
    Fill, Parameter, RandomKind, RandomNumbers, element_bytes, reduction, set_numbers,
};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::AddressInfo;
use cairn_runtime::task::Location;
use cairn_tensor::DType;
use cairn_tensor::kernels::accumulate::Combine;
use std::ffi::c_void;

/// Checks a fill with numbers; `None` when there is nothing to do.
fn fill(ptr: Handle, bytes: usize, value: u32, count: usize) -> Result<Option<Fill>> {
    if count == 0 {
        return Ok(None);
    }
    door::not_null(ptr, "ptr")?;
    let address = ptr as usize;
    if !address.is_multiple_of(4) {
        return Err(Error::invalid(format!("ptr {ptr:p} is not a multiple of 4")));
    }
    if count.checked_mul(4).is_none_or(|needed| needed > bytes) {
        return Err(Error::invalid(format!("{count} numbers need more than memSize {bytes}")));
    }
    let location = match runtime()?.shared.memory.enclosing(address) {
        AddressInfo::Device(..) => Location::AnyDevice,
        AddressInfo::Pinned(Some(_)) | AddressInfo::Registered(_) => Location::Host,
        _ => return Err(Error::invalid(format!("ptr {ptr:p} is no memory of ACL"))),
    };
    Ok(Some(Fill { address, value, count, location }))
}

/// A data type that such tasks may know.
fn data_type(type_: abi::aclDataType) -> Result<DType> {
    DType::from_number(type_).ok_or_else(|| Error::invalid(format!("data type {type_} is unknown")))
}

/// Fails unless the argument for later versions is null.
fn require_no_reserve(reserve: *mut c_void) -> Result<()> {
    match reserve.is_null() {
        true => Ok(()),
        false => Err(Error::refused("reserve must be null")),
    }
}

/// A parameter of `bytes` bytes, or its address.
fn parameter(info: &abi::aclrtRandomParaInfo, name: &str, bytes: usize) -> Result<Parameter> {
    let most = match info.isAddr {
        0 => bytes,
        1 => size_of::<usize>(),
        other => {
            return Err(Error::refused(format!(
                "{name}: isAddr {other}: expected 0 (a value) or 1 (an address)"
            )));
        }
    };
    let size = usize::from(info.size);
    if size == 0 || size > most {
        return Err(Error::refused(format!("{name}: size {size}: expected 1 to {most}")));
    }
    let mut value = [0u8; 8];
    value[..size].copy_from_slice(&info.valueOrAddr[..size]);
    Ok(match info.isAddr {
        0 => Parameter::Value(value),
        _ => Parameter::At(usize::from_le_bytes(value)),
    })
}

/// What the numbers are, with their parameters.
fn kind(info: &abi::aclrtRandomNumFuncParaInfo, dtype: DType) -> Result<RandomKind> {
    let bytes = element_bytes(dtype)?;
    // SAFETY: all members consist of parameters, of which any bytes are values.
    let (mask, uniform, normal) = unsafe {
        let members = &info.paramInfo;
        (members.dropoutBitmaskInfo, members.uniformDisInfo, members.normalDisInfo)
    };
    let mean = || parameter(&normal.mean, "mean", bytes);
    let deviation = || parameter(&normal.stddev, "stddev", bytes);
    match info.funcType {
        abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK => {
            parameter(&mask.dropoutRation, "dropoutRation", bytes).map(RandomKind::DropoutMask)
        }
        abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS => Ok(RandomKind::Uniform(
            parameter(&uniform.min, "min", bytes)?,
            parameter(&uniform.max, "max", bytes)?,
        )),
        abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS => {
            Ok(RandomKind::Normal(mean()?, deviation()?))
        }
        abi::ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS => {
            Ok(RandomKind::Truncated(mean()?, deviation()?))
        }
        other => Err(Error::invalid(format!("funcType {other}: expected 0 to 3"))),
    }
}

entry! {
    /// Sets numbers of four bytes, at once.
    fn aclrtMemsetD32(ptr: Handle, bytes: usize, value: u32, count: usize) {
        if let Some(fill) = fill(ptr, bytes, value, count)? {
            let runtime = runtime()?;
            runtime.current_context()?;
            set_numbers("aclrtMemsetD32", &runtime.shared.memory, fill)?;
        }
        Ok(())
    }

    /// The same in stream order; host memory is set at once.
    fn aclrtMemsetD32Async(ptr: Handle, bytes: usize, value: u32, count: usize, stream: Handle) {
        const NAME: &str = "aclrtMemsetD32Async";
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let memory = &runtime.shared.memory;
        match fill(ptr, bytes, value, count)? {
            None => Ok(()),
            Some(fill) if fill.location == Location::Host => set_numbers(NAME, memory, fill),
            Some(fill) => stream.submit(fill.task(NAME, memory)).map(drop),
        }
    }

    /// Reduces element by element in stream order.
    fn aclrtReduceAsync(dst: Handle, src: *const c_void, bytes: u64, kind: abi::aclrtReduceKind, type_: abi::aclDataType, stream: Handle, reserve: *mut c_void) {
        door::not_null(dst, "dst")?;
        door::not_null(src, "src")?;
        if bytes == 0 {
            return Err(Error::invalid("count 0: it must be positive"));
        }
        let combine = match kind {
            abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM => Combine::Sum,
            abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX => Combine::Max,
            abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN => Combine::Min,
            abi::ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL => Combine::Equal,
            _ => return Err(Error::invalid(format!("kind {kind}: expected 10 to 13"))),
        };
        require_no_reserve(reserve)?;
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let location = Location::Device(stream.spec.device);
        let what = (combine, data_type(type_)?);
        let task = reduction("aclrtReduceAsync", what, (dst as usize, src as usize), bytes as usize, location)?;
        stream.submit(task).map(drop)
    }

    /// Random numbers in stream order.
    fn aclrtRandomNumAsync(info: *const abi::aclrtRandomNumTaskInfo, stream: Handle, reserve: *mut c_void) {
        door::not_null(info, "taskInfo")?;
        require_no_reserve(reserve)?;
        // SAFETY: not null; the user passes this struct.
        let info = unsafe { info.read_unaligned() };
        let dtype = data_type(info.dataType)?;
        let kind = kind(&info.randomNumFuncParaInfo, dtype)?;
        door::not_null(info.randomResultAddr, "randomResultAddr")?;
        door::not_null(info.randomCounterAddr, "randomCounterAddr")?;
        let numbers = RandomNumbers {
            kind,
            dtype,
            seed: parameter(&info.randomSeed, "randomSeed", 8)?,
            count: parameter(&info.randomNum, "randomNum", 8)?,
            result: info.randomResultAddr as usize,
            counter: info.randomCounterAddr as usize,
        };
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        stream.submit(numbers.task(&runtime.shared.memory)?).map(drop)
    }
}
