//! The functions that run a model, and their timeouts.

use super::dataset;
use super::run::{Run, Wait};
use super::table::{self, Model};
use crate::abi::*;
use crate::door::{entry, not_null, runtime, value_entry};
use cairn_exec::Target;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::registry::Domain;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a handle of a configuration of runs names: timeouts in milliseconds.
struct RunConfig(Mutex<Timeouts>);

#[derive(Clone, Copy)]
struct Timeouts {
    stream: i32,
    /// Stored only: no run waits for an event.
    event: i32,
}

/// No timeout.
const NO_TIMEOUT: i32 = -1;

impl HandleObject for RunConfig {
    const KIND: &'static str = "configuration of runs";
}

impl RunConfig {
    fn timeouts(&self) -> Timeouts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a call waits.
    fn wait(&self) -> Wait {
        Wait::For(u64::try_from(self.timeouts().stream).ok().map(Duration::from_millis))
    }
}

fn find_config(handle: *const aclmdlExecConfigHandle) -> Result<Arc<RunConfig>> {
    not_null(handle, "handle")?;
    runtime()?.handles.get(handle as usize)
}

/// The stream and the memory of a run.
enum Place {
    /// The model's own stream.
    Own,
    /// A stream of the user; a dynamic-shape model uses the allocator registered there.
    Registered(usize),
    /// A stream of the user, with the built-in allocator.
    BuiltIn(usize),
}

fn run(
    id: u32,
    input: *const aclmdlDataset,
    output: *mut aclmdlDataset,
    place: impl FnOnce(&Model) -> Place,
    wait: Wait,
) -> Result<()> {
    let (inputs, outputs) = (dataset::find(input, "input")?, dataset::find(output, "output")?);
    let model = table::find(id)?;
    let runtime = runtime()?;
    runtime.current_context()?;
    model.streams.expect_context(runtime)?;
    let target = match place(&model) {
        Place::Own => Target::built_in(runtime, model.own_stream(runtime)?),
        Place::Registered(handle) if model.is_dynamic => {
            Target::registered(runtime, runtime.stream(handle)?, Domain::Acl, handle)
        }
        Place::Registered(handle) | Place::BuiltIn(handle) => {
            Target::built_in(runtime, runtime.stream(handle)?).known_as(handle)
        }
    };
    Run { model: &model, inputs: &inputs, outputs: &outputs }.submit(&target, wait)
}

value_entry! {
    /// A configuration without timeouts.
    fn aclmdlCreateExecConfigHandle() -> *mut aclmdlExecConfigHandle, else null_mut(), {
        let timeouts = Timeouts { stream: NO_TIMEOUT, event: NO_TIMEOUT };
        let handle = runtime()?.handles.insert(Arc::new(RunConfig(Mutex::new(timeouts))))?;
        Ok(handle as *mut aclmdlExecConfigHandle)
    }
}

entry! {
    /// Destroys a configuration of runs.
    fn aclmdlDestroyExecConfigHandle(handle: *const aclmdlExecConfigHandle) {
        not_null(handle, "handle")?;
        runtime()?.handles.remove::<RunConfig>(handle as usize)?;
        Ok(())
    }

    /// Sets a timeout.
    fn aclmdlSetExecConfigOpt(
        handle: *mut aclmdlExecConfigHandle,
        attr: aclmdlExecConfigAttr,
        value: *const c_void,
        bytes: usize,
    ) {
        let config = find_config(handle)?;
        not_null(value, "attrValue")?;
        if !matches!(attr, ACL_MDL_STREAM_SYNC_TIMEOUT | ACL_MDL_EVENT_SYNC_TIMEOUT) {
            return Err(Error::invalid(format!(
                "attr = {attr}: the timeouts of streams (0) and of events (1) can be set"
            )));
        }
        if bytes != size_of::<i32>() {
            return Err(Error::invalid(format!("valueSize = {bytes}: a timeout has 4 bytes")));
        }
        // SAFETY: not null; the caller passes a number of this size.
        let timeout = unsafe { value.cast::<i32>().read_unaligned() };
        if timeout < NO_TIMEOUT {
            return Err(Error::invalid(format!("the timeout {timeout}: it is -1 (for ever) or more")));
        }
        let mut timeouts = config.0.lock().unwrap_or_else(PoisonError::into_inner);
        match attr {
            ACL_MDL_STREAM_SYNC_TIMEOUT => timeouts.stream = timeout,
            _ => timeouts.event = timeout,
        }
        Ok(())
    }

    /// Runs and waits.
    fn aclmdlExecute(id: u32, input: *const aclmdlDataset, output: *mut aclmdlDataset) {
        run(id, input, output, |_| Place::Own, Wait::For(None))
    }

    /// Submits a run.
    fn aclmdlExecuteAsync(
        id: u32,
        input: *const aclmdlDataset,
        output: *mut aclmdlDataset,
        stream: aclrtStream,
    ) {
        run(id, input, output, |_| Place::Registered(stream as usize), Wait::No)
    }

    /// Runs and waits up to the configured time.
    fn aclmdlExecuteV2(
        id: u32,
        input: *const aclmdlDataset,
        output: *mut aclmdlDataset,
        stream: aclrtStream,
        handle: *const aclmdlExecConfigHandle,
    ) {
        let wait = find_config(handle)?.wait();
        let place = |model: &Model| match model.is_dynamic {
            true => Place::Own,
            false => Place::BuiltIn(stream as usize),
        };
        run(id, input, output, place, wait)
    }

    /// Submits a run.
    fn aclmdlExecuteAsyncV2(
        id: u32,
        input: *const aclmdlDataset,
        output: *mut aclmdlDataset,
        stream: aclrtStream,
        handle: *const aclmdlExecConfigHandle,
    ) {
        find_config(handle)?;
        run(id, input, output, |_| Place::BuiltIn(stream as usize), Wait::No)
    }
}
