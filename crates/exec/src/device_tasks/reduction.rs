//! Reductions of one range into another.

use cairn_ops::saturate_all;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::task::{Body, Kernel, Location, Span, Task};
use cairn_tensor::DType;
use cairn_tensor::kernels::accumulate::{Combine, accumulate, is_accumulated};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// `dst = dst op src`, element by element.
struct Reduction {
    combine: Combine,
    dtype: DType,
}

impl Kernel for Reduction {
    fn argument(&self, purpose: Use, index: usize) -> &str {
        match (purpose, index) {
            (Use::Read, 0) => "src",
            _ => "dst",
        }
    }

    fn run(&self, memory: &TaskMemory<'_>) -> Result<()> {
        let (dst, src) = (memory.write(0), memory.read(0));
        accumulate(self.dtype, self.combine, dst, src);
        if let Some(overflowed) = memory.overflowed()
            && saturate_all(self.dtype, dst)
        {
            overflowed.store(true, Relaxed);
        }
        Ok(())
    }
}

/// The task that combines `bytes` at `src` with those at `dst`, on a device. Fails for a type that cannot be reduced, a part of an
/// element, and ranges that overlap in part.
pub fn reduction(
    name: &'static str,
    (combine, dtype): (Combine, DType),
    (dst, src): (usize, usize),
    bytes: usize,
    location: Location,
) -> Result<Task> {
    let Some(element) = dtype.size_in_bytes().filter(|_| is_accumulated(dtype)) else {
        return Err(Error::invalid(format!(
            "data type {dtype}: expected int8, int16, int32, float16, float or bf16"
        )));
    };
    if !bytes.is_multiple_of(element) {
        return Err(Error::refused(format!(
            "count {bytes} is not a multiple of {element}, the bytes of an element"
        )));
    }
    let span = |address| Span { address, bytes, location };
    let (to, from) = (span(dst), span(src));
    if dst != src && dst.abs_diff(src) < bytes {
        return Err(Error::refused(format!("source {from} and destination {to} overlap in part")));
    }
    Ok(Task {
        name,
        reads: [from, to].into_iter().collect(),
        writes: [to].into_iter().collect(),
        body: Body::Kernel(Arc::new(Reduction { combine, dtype })),
    })
}
