//! Copies in other forms: rows, batches, described in device memory.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use crate::memory::{checked_copy, copy_async};
use cairn_exec::device_tasks::{
    DESCRIPTION_BYTES, Description, Rows, copy_described, copy_with_offsets,
};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::{AddressInfo, raw};
use cairn_runtime::record::Kind;
use cairn_runtime::task::{Location, Span, Task};
use std::ffi::c_void;

/// The widest row of a task.
const MAX_WIDTH: usize = 5_000_000;
/// The most rows of a task.
const MAX_HEIGHT: usize = 5_242_880;
/// Copies of one batch.
const MAX_BATCH: usize = 1 << 20;

/// Checks the numbers of a copy of rows; `None` when there is nothing to do.
fn rows(
    (dst, dst_pitch): (Handle, usize),
    (src, src_pitch): (*const c_void, usize),
    (width, height): (usize, usize),
    kind: u32,
) -> Result<Option<Rows>> {
    if width == 0 || height == 0 {
        return Ok(None);
    }
    door::not_null(dst, "dst")?;
    door::not_null(src, "src")?;
    if width > dst_pitch || width > src_pitch {
        return Err(Error::invalid(format!(
            "width {width} is more than dpitch {dst_pitch} or spitch {src_pitch}"
        )));
    }
    let locations = match kind {
        abi::ACL_MEMCPY_HOST_TO_DEVICE => (Location::Host, Location::AnyDevice),
        abi::ACL_MEMCPY_DEVICE_TO_HOST => (Location::AnyDevice, Location::Host),
        abi::ACL_MEMCPY_DEVICE_TO_DEVICE => (Location::AnyDevice, Location::AnyDevice),
        abi::ACL_MEMCPY_DEFAULT => (Location::Any, Location::Any),
        _ => return Err(Error::invalid(format!("copy kind {kind}: expected 1, 2, 3 or 4"))),
    };
    let end = |start: usize, pitch: usize| {
        pitch.checked_mul(height - 1)?.checked_add(width)?.checked_add(start)
    };
    if end(dst as usize, dst_pitch).is_none() || end(src as usize, src_pitch).is_none() {
        return Err(Error::invalid(format!("{height} rows do not fit the address space")));
    }
    let (dst, src) = (dst as usize, src as usize);
    let rows = Rows { src, src_pitch, dst, dst_pitch, width, height, locations };
    rows.refuse_overlap().map(|()| Some(rows))
}

/// The arrays of a batch, as the user passes them.
struct BatchArrays {
    dsts: *mut *mut c_void,
    limits: *mut usize,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    attributes: *mut abi::aclrtMemcpyBatchAttr,
    indexes: *mut usize,
    attribute_count: usize,
}

/// A failed batch: the error, and the copy it is about.
type BatchFailure = (Error, usize);

/// One copy of a batch, and which.
struct BatchCopy {
    item: usize,
    dst: usize,
    src: usize,
    size: usize,
    kind: u32,
}

/// The copies of a batch that copy something.
fn batch(arrays: &BatchArrays) -> std::result::Result<Vec<BatchCopy>, BatchFailure> {
    let whole = |error: Error| (error, usize::MAX);
    let BatchArrays { count, attribute_count, .. } = *arrays;
    door::not_null(arrays.sizes, "sizes").map_err(whole)?;
    if count == 0 || count > MAX_BATCH {
        return Err(whole(Error::invalid(format!(
            "numBatches {count}: expected 1 to {MAX_BATCH}"
        ))));
    }
    // SAFETY: the user says that so many numbers are there.
    let sizes = unsafe { raw::copy_array(arrays.sizes, count, "sizes").map_err(whole)? };
    if sizes.iter().all(|&size| size == 0) {
        return Ok(Vec::new());
    }
    door::not_null(arrays.dsts, "dsts").map_err(whole)?;
    door::not_null(arrays.limits, "destMaxs").map_err(whole)?;
    door::not_null(arrays.srcs, "srcs").map_err(whole)?;
    door::not_null(arrays.attributes, "attrs").map_err(whole)?;
    door::not_null(arrays.indexes, "attrsIndexes").map_err(whole)?;
    if attribute_count == 0 || attribute_count > count {
        return Err(whole(Error::invalid(format!(
            "numAttrs {attribute_count}: expected 1 to {count}"
        ))));
    }
    // SAFETY: as above, for each array.
    let (dsts, limits, srcs, attributes, indexes) = unsafe {
        (
            raw::copy_array(arrays.dsts, count, "dsts").map_err(whole)?,
            raw::copy_array(arrays.limits, count, "destMaxs").map_err(whole)?,
            raw::copy_array(arrays.srcs, count, "srcs").map_err(whole)?,
            raw::copy_array(arrays.attributes, attribute_count, "attrs").map_err(whole)?,
            raw::copy_array(arrays.indexes, attribute_count, "attrsIndexes").map_err(whole)?,
        )
    };
    let is_rising = indexes.windows(2).all(|pair| pair[0] < pair[1]);
    if indexes[0] != 0 || !is_rising || indexes[attribute_count - 1] >= count {
        return Err(whole(Error::invalid(format!(
            "attrsIndexes {indexes:?}: they begin with 0, rise, and stay below {count}"
        ))));
    }
    let memory = &runtime().map_err(whole)?.shared.memory;
    let device_of = |address: usize| match memory.enclosing(address) {
        AddressInfo::Device(device, _) => Some(device),
        _ => None,
    };
    let mut copies = Vec::with_capacity(count);
    let mut direction = None;
    for item in 0..count {
        let fail = |text: String| (Error::refused(format!("copy {item}: {text}")), item);
        let attribute = &attributes[indexes.partition_point(|&first| first <= item) - 1];
        let sides = [attribute.srcLoc.type_, attribute.dstLoc.type_];
        let kind = match sides {
            [abi::ACL_MEM_LOCATION_TYPE_HOST, abi::ACL_MEM_LOCATION_TYPE_DEVICE] => {
                abi::ACL_MEMCPY_HOST_TO_DEVICE
            }
            [abi::ACL_MEM_LOCATION_TYPE_DEVICE, abi::ACL_MEM_LOCATION_TYPE_HOST] => {
                abi::ACL_MEMCPY_DEVICE_TO_HOST
            }
            _ => {
                return Err(fail(format!(
                    "locations {sides:?}: expected host to device or device to host"
                )));
            }
        };
        if *direction.get_or_insert(kind) != kind {
            return Err(fail("its direction is not that of the copies before it".into()));
        }
        let (dst, src, size) = (dsts[item] as usize, srcs[item] as usize, sizes[item]);
        if size == 0 {
            continue;
        }
        if dst == 0 || src == 0 {
            return Err(fail("an address is null".into()));
        }
        if size > limits[item] {
            return Err(fail(format!("size {size} is more than destMax {}", limits[item])));
        }
        for (name, address, location) in
            [("src", src, attribute.srcLoc), ("dst", dst, attribute.dstLoc)]
        {
            let expected =
                (location.type_ == abi::ACL_MEM_LOCATION_TYPE_DEVICE).then_some(location.id);
            let device = device_of(address);
            if device.map(i64::from) != expected.map(i64::from) {
                let [is, said] = [device.map(i64::from), expected.map(i64::from)].map(|device| {
                    device.map_or_else(|| "the host".into(), |id| format!("device {id}"))
                });
                return Err(fail(format!(
                    "{name} {address:#x} is on {is}, its attribute says {said}"
                )));
            }
        }
        copies.push(BatchCopy { item, dst, src, size, kind });
    }
    Ok(copies)
}

/// Runs a batch, at once or as tasks of a stream; says which copy failed.
fn run_batch(arrays: &BatchArrays, stream: Option<Handle>, failed: *mut usize) -> Result<()> {
    if !failed.is_null() {
        // SAFETY: not null; valid for writes of the index.
        unsafe { write(failed, "failIndex", usize::MAX)? };
    }
    let run = || -> std::result::Result<(), BatchFailure> {
        let runtime = runtime().map_err(|error| (error, usize::MAX))?;
        for BatchCopy { item, dst, src, size, kind } in batch(arrays)? {
            let done = match stream {
                Some(stream) => {
                    let (dst, src) = (dst as Handle, src as *const c_void);
                    copy_async("aclrtMemcpyBatchAsync", (dst, size), (src, size), kind, stream)
                }
                None => {
                    let span = |address| Span { address, bytes: size, location: Location::Any };
                    runtime.perform(&Task::copy("aclrtMemcpyBatch", span(src), span(dst)))
                }
            };
            done.map_err(|error| (error, item))?;
        }
        Ok(())
    };
    run().map_err(|(error, item)| {
        if !failed.is_null() {
            // SAFETY: not null; valid for writes of the index.
            let _ = unsafe { write(failed, "failIndex", item) };
        }
        error
    })
}

/// The kind of copies that are described in device memory.
fn require_inner(kind: u32) -> Result<()> {
    match kind {
        abi::ACL_MEMCPY_INNER_DEVICE_TO_DEVICE => Ok(()),
        _ => Err(Error::invalid(format!("copy kind {kind}: expected 6 (inside a device)"))),
    }
}

entry! {
    /// Copies rows, at once.
    fn aclrtMemcpy2d(dst: Handle, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: abi::aclrtMemcpyKind) {
        let Some(rows) = rows((dst, dpitch), (src, spitch), (width, height), kind)? else { return Ok(()) };
        let runtime = runtime()?;
        runtime.current_context()?;
        (0..rows.height).try_for_each(|index| {
            let (from, to) = rows.row(index);
            runtime.perform(&Task::copy("aclrtMemcpy2d", from, to))
        })
    }

    /// Copies rows in stream order. With pageable host memory the copy is done on return.
    fn aclrtMemcpy2dAsync(dst: Handle, dpitch: usize, src: *const c_void, spitch: usize, width: usize, height: usize, kind: abi::aclrtMemcpyKind, stream: Handle) {
        let Some(rows) = rows((dst, dpitch), (src, spitch), (width, height), kind)? else { return Ok(()) };
        if width > MAX_WIDTH || height > MAX_HEIGHT {
            return Err(Error::refused(format!("{height} rows of {width} bytes: at most {MAX_HEIGHT} of {MAX_WIDTH}")));
        }
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let memory = &runtime.shared.memory;
        let is_pageable = [rows.dst, rows.src].iter().any(|&address| memory.enclosing(address) == AddressInfo::Foreign);
        let task = rows.task("aclrtMemcpy2dAsync", memory);
        if is_pageable { stream.submit_and_wait(task) } else { stream.submit(task).map(drop) }
    }

    /// Many copies, at once.
    fn aclrtMemcpyBatch(dsts: *mut *mut c_void, limits: *mut usize, srcs: *mut *mut c_void, sizes: *mut usize, count: usize, attributes: *mut abi::aclrtMemcpyBatchAttr, indexes: *mut usize, attribute_count: usize, failed: *mut usize) {
        door::not_null(failed, "failIndex")?;
        run_batch(&BatchArrays { dsts, limits, srcs, sizes, count, attributes, indexes, attribute_count }, None, failed)
    }

    /// The same without the index of the copy that failed.
    fn aclrtMemcpyBatchV2(dsts: *mut *mut c_void, limits: *mut usize, srcs: *mut *mut c_void, sizes: *mut usize, count: usize, attributes: *mut abi::aclrtMemcpyBatchAttr, indexes: *mut usize, attribute_count: usize) {
        run_batch(&BatchArrays { dsts, limits, srcs, sizes, count, attributes, indexes, attribute_count }, None, std::ptr::null_mut())
    }

    /// Many copies in stream order.
    fn aclrtMemcpyBatchAsync(dsts: *mut *mut c_void, limits: *mut usize, srcs: *mut *mut c_void, sizes: *mut usize, count: usize, attributes: *mut abi::aclrtMemcpyBatchAttr, indexes: *mut usize, attribute_count: usize, failed: *mut usize, stream: Handle) {
        door::not_null(failed, "failIndex")?;
        run_batch(&BatchArrays { dsts, limits, srcs, sizes, count, attributes, indexes, attribute_count }, Some(stream), failed)
    }

    /// The same without the index of the copy that failed.
    fn aclrtMemcpyBatchAsyncV2(dsts: *mut *mut c_void, limits: *mut usize, srcs: *mut *mut c_void, sizes: *mut usize, count: usize, attributes: *mut abi::aclrtMemcpyBatchAttr, indexes: *mut usize, attribute_count: usize, stream: Handle) {
        run_batch(&BatchArrays { dsts, limits, srcs, sizes, count, attributes, indexes, attribute_count }, Some(stream), std::ptr::null_mut())
    }

    /// As `aclrtMemcpyAsync`.
    fn aclrtMemcpyAsyncWithCondition(dst: Handle, max: usize, src: *const c_void, count: usize, kind: abi::aclrtMemcpyKind, stream: Handle) {
        copy_async("aclrtMemcpyAsyncWithCondition", (dst, max), (src, count), kind, stream)
    }

    /// Bytes of a copy's description.
    fn aclrtGetMemcpyDescSize(kind: abi::aclrtMemcpyKind, size: *mut usize) {
        door::not_null(size, "descSize")?;
        require_inner(kind)?;
        // SAFETY: not null; valid for writes of the size.
        unsafe { write(size, "descSize", DESCRIPTION_BYTES) }
    }

    /// Describes a copy in device memory.
    fn aclrtSetMemcpyDesc(description: Handle, kind: abi::aclrtMemcpyKind, src: *mut c_void, dst: *mut c_void, count: usize, config: *mut c_void) {
        door::not_null(description, "desc")?;
        door::not_null(src, "srcAddr")?;
        door::not_null(dst, "dstAddr")?;
        require_inner(kind)?;
        if count == 0 {
            return Err(Error::invalid("count 0: it must be positive"));
        }
        if !config.is_null() {
            return Err(Error::invalid("config must be null"));
        }
        let copy = Description { src: src as usize, dst: dst as usize, bytes: count };
        let encoded = copy.encode();
        let from = Span { address: encoded.as_ptr() as usize, bytes: encoded.len(), location: Location::Host };
        let to = Span { address: description as usize, bytes: encoded.len(), location: Location::AnyDevice };
        let runtime = runtime()?;
        runtime.current_context()?;
        runtime.perform(&Task::copy("aclrtSetMemcpyDesc", from, to))
    }

    /// Does a copy that device memory describes when the task runs.
    fn aclrtMemcpyAsyncWithDesc(description: Handle, kind: abi::aclrtMemcpyKind, stream: Handle) {
        const NAME: &str = "aclrtMemcpyAsyncWithDesc";
        door::not_null(description, "desc")?;
        door::not_null(stream, "stream")?;
        require_inner(kind)?;
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let is_watched = runtime.shared.spine.has_listener(Kind::Submit);
        let task = copy_described(NAME, &runtime.shared.memory, description as usize, is_watched);
        stream.submit(task).map(drop)
    }

    /// Copies between addresses that are read from device memory when the task runs.
    fn aclrtMemcpyAsyncWithOffset(dst: *mut *mut c_void, max: usize, dst_offset: usize, src: *mut *const c_void, count: usize, src_offset: usize, kind: abi::aclrtMemcpyKind, stream: Handle) {
        const NAME: &str = "aclrtMemcpyAsyncWithOffset";
        if !checked_copy(dst.cast(), max, src.cast_const().cast(), count, kind, abi::ACL_MEMCPY_INTER_DEVICE_TO_DEVICE)? {
            return Ok(());
        }
        require_inner(kind)?;
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let (from, to) = ((src as usize, src_offset), (dst as usize, dst_offset));
        stream.submit(copy_with_offsets(NAME, &runtime.shared.memory, from, to, count)).map(drop)
    }
}
