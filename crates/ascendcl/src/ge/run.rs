//! Runs, and what they give.

use super::abi::*;
use super::door::{engine, fail, list, object, owned, plain, release, runtime, show, status, text};
use super::names;
use super::value::{dtype, number};
use bytes::Bytes;
use cairn_graph::session::{OutputBlock, RunMode, RunTensor, SessionOutput};
use cairn_graph::{Failure, Result};
use cairn_runtime::memory::AddressInfo;
use cairn_tensor::Format;
use std::ffi::c_void;

/// What a handle of outputs names.
struct Outputs(Vec<SessionOutput>);

/// What a handle of a block names.
struct BlockObject(OutputBlock);

/// A tensor of the caller; bytes on the host are copied.
///
/// # Safety
/// What it points to lives for the call; host memory has as many bytes as it says.
unsafe fn tensor(from: &CairnRunTensor, is_input: bool) -> Result<RunTensor> {
    let address = from.data as usize;
    let info = runtime()?.shared.memory.enclosing(address);
    let is_device = matches!(info, AddressInfo::Device(..));
    let host: Option<Bytes> = match address != 0 && !is_device {
        false => None,
        true if is_input => {
            Some(runtime()?.copy_from_host("an input", address, from.bytes)?.into())
        }
        true => Some(Bytes::new()),
    };
    let is_described = from.is_described;
    if let Some(text) = Format(from.format).refusal("a tensor").filter(|_| is_described) {
        return Err(Failure::invalid(text));
    }
    Ok(RunTensor {
        address,
        bytes: from.bytes,
        dtype: if is_described { Some(dtype(from.dtype)?) } else { None },
        // SAFETY: as the caller vouches.
        dims: is_described.then(|| unsafe { list(from.dims, from.rank) }.to_vec()),
        host,
        says_host: from.is_on_host,
    })
}

/// # Safety
/// As [`tensor`], for each of them.
unsafe fn tensors(
    from: *const CairnRunTensor,
    count: usize,
    is_input: bool,
) -> Result<Vec<RunTensor>> {
    // SAFETY: as the caller vouches.
    unsafe { list(from, count).iter().map(|one| tensor(one, is_input)).collect() }
}

fn run_mode(number: CairnRun) -> Result<RunMode> {
    Ok(match number {
        CAIRN_RUN_HOST => RunMode::Host,
        CAIRN_RUN_STREAM => RunMode::Stream,
        CAIRN_RUN_LOADED => RunMode::Loaded,
        CAIRN_RUN_STREAM_V2 => RunMode::StreamV2,
        CAIRN_RUN_HOST_V2 => RunMode::HostV2,
        other => return Err(Failure::invalid(format!("{other} is no way to run"))),
    })
}

/// Where a finished run is reported, with the caller's context.
struct RunCallback {
    call: unsafe extern "C" fn(*mut c_void, CairnStatus, *mut CairnOutputs),
    context: usize,
}

status! {
    /// Runs a graph.
    fn CairnSessionRun(
        session: u64,
        id: u32,
        mode: CairnRun,
        stream: *mut c_void,
        inputs: *const CairnRunTensor,
        input_count: usize,
        outputs: *const CairnRunTensor,
        output_count: usize,
        result: *mut *mut CairnOutputs,
    ) called(names::of_run(mode)) {
        let session = engine().session(session)?;
        let mode = run_mode(mode)?;
        // SAFETY: the caller's tensors live for the call.
        let (inputs, outputs) = unsafe {
            (tensors(inputs, input_count, true)?, tensors(outputs, output_count, false)?)
        };
        let results = session.run(id, mode, stream as usize, &inputs, &outputs)?;
        if !result.is_null() {
            // SAFETY: the caller passes a pointer to a handle.
            unsafe { result.write(owned(Outputs(results))) };
        }
        Ok(())
    }

    /// Runs a graph on a thread of the engine.
    fn CairnSessionRunAsync(
        session: u64,
        id: u32,
        is_v2: bool,
        inputs: *const CairnRunTensor,
        input_count: usize,
        context: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void, CairnStatus, *mut CairnOutputs)>,
    ) called(names::of_async_run(is_v2)) {
        let session = engine().session(session)?;
        session.graph(id)?;
        let Some(call) = callback else { return Err(Failure::invalid("the callback is null")) };
        // SAFETY: the caller's tensors live for the call.
        let inputs = unsafe { tensors(inputs, input_count, true) }?;
        let callback = RunCallback { call, context: context as usize };
        let mode = if is_v2 { RunMode::HostV2 } else { RunMode::Host };
        let finish = move |results: Result<Vec<SessionOutput>>| {
            let callback = callback;
            let (status, result) = match results {
                Ok(results) => (0, owned(Outputs(results))),
                Err(failure) => {
                    fail(&failure);
                    (failure.status.number(), std::ptr::null_mut())
                }
            };
            // SAFETY: the caller vouched for its function and context until it is called, once.
            unsafe { (callback.call)(callback.context as *mut c_void, status, result) };
        };
        engine().run_async(&session, id, mode, inputs, finish)
    }
}

status! {
    /// The values of variables.
    fn CairnSessionVariables(
        session: u64,
        names: *const CairnText,
        count: usize,
        context: *mut c_void,
        callback: CairnTextCallback,
        result: *mut *mut CairnOutputs,
    ) {
        // SAFETY: the caller's texts live for the call.
        let names: Vec<String> = unsafe { list(names, count).iter().map(|one| text(*one)).collect() };
        let (names, values) = engine().session(session)?.values(&names)?;
        for name in names {
            // SAFETY: the caller's function takes the context.
            unsafe { show(callback, context, name.as_bytes()) };
        }
        // SAFETY: the caller passes a pointer to a handle.
        let out = unsafe { result.as_mut() }.ok_or_else(|| Failure::invalid("the result is null"))?;
        *out = owned(Outputs(values));
        Ok(())
    }
}

plain! {
    /// A callback ended its thread.
    fn CairnSessionThreadExited() {
        engine().replace_queue_thread();
        Ok(())
    }

    /// The number of outputs.
    fn CairnOutputsCount(outputs: *const CairnOutputs) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<Outputs, _>(outputs, "result") }?.0.len())
    }

    /// What an output is; its block passes to the caller.
    fn CairnOutputsGet(outputs: *mut CairnOutputs, index: usize, output: *mut CairnOutput) {
        // SAFETY: the caller's handle is live and used by one thread.
        let outputs = unsafe { outputs.cast::<Outputs>().as_mut() };
        let one = outputs.and_then(|all| all.0.get_mut(index));
        let one = one.ok_or_else(|| Failure::invalid(format!("the result has no output {index}")))?;
        let reported = CairnOutput {
            data: one.address as *mut c_void,
            bytes: one.bytes,
            dtype: number(one.dtype),
            format: Format::ND.0,
            is_on_host: matches!(one.block, Some(OutputBlock::Host(_))),
            dims: one.dims.as_ptr(),
            rank: one.dims.len(),
            block: one.block.take().map_or(std::ptr::null_mut(), |block| owned(BlockObject(block))),
        };
        // SAFETY: the caller passes a pointer to an output.
        unsafe { output.write(reported) };
        Ok(())
    }

    /// Destroys the handle, and what nobody took.
    fn CairnOutputsRelease(outputs: *mut CairnOutputs) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<Outputs, _>(outputs) };
        Ok(())
    }

    /// The first byte of a block.
    fn CairnBlockAddress(block: *const CairnBlock) -> *mut c_void, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<BlockObject, _>(block, "block") }?.0.address() as *mut c_void)
    }

    /// The bytes of a block.
    fn CairnBlockBytes(block: *const CairnBlock) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<BlockObject, _>(block, "block") }?.0.bytes())
    }

    /// Gives a block back to its allocator.
    fn CairnBlockFree(block: *mut CairnBlock) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<BlockObject, _>(block) };
        Ok(())
    }
}
