//! The variables of a session: tensors by name that outlive runs and graphs.

use super::engine::Session;
use super::output::{OutputBlock, SessionOutput};
use super::queue;
use crate::executable::{RunInput, order_after};
use crate::failure::{Failure, Result};
use crate::ir::Desc;
use cairn_runtime::Runtime;
use cairn_runtime::lock::{Condvar, Mutex, Rank};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::Mode;
use cairn_runtime::stream::Stream;
use cairn_tensor::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A variable with its memory, taken from the device; freed when nobody refers to the variable any more.
pub struct Variable {
    /// Its elements, one after the other.
    pub layout: Layout,
    /// Where it is.
    pub address: usize,
    runtime: &'static Runtime,
    device: u32,
    /// The default context of the device when the memory was taken: a reset ends both.
    context: u64,
}

impl Variable {
    /// Takes memory, and fills it with zeros.
    fn new(runtime: &'static Runtime, device: u32, context: u64, layout: Layout) -> Result<Self> {
        let memory = &runtime.shared.memory;
        let bytes = layout.bytes().max(1);
        let address = memory.allocate(
            device,
            Request::bytes(bytes as u64).purpose(Purpose::Variable, Owner::default()),
        )?;
        let variable = Variable { layout, address, runtime, device, context };
        match memory.extent(address, bytes) {
            Some(extent) => {
                extent.fill(0);
                runtime.emit_host_access("graph variable", address, bytes, Mode::Write);
            }
            None => return Err(Failure::failed(format!("no device memory at {address:#x}"))),
        }
        Ok(variable)
    }

    /// As it comes into a run, after the inputs.
    pub(super) fn input(&self) -> RunInput {
        RunInput { layout: self.layout, address: self.address, host: None }
    }

    /// Its bytes now.
    fn read(&self) -> Result<Vec<u8>> {
        let copy = self.runtime.read("graph variable", self.address, self.layout.bytes());
        copy.ok_or_else(|| Failure::failed(format!("no device memory at {:#x}", self.address)))
    }

    /// Whether its memory is there: a reset of the device frees it.
    fn is_alive(&self) -> bool {
        default_context(self.runtime, self.device) == Some(self.context)
    }
}

impl Drop for Variable {
    fn drop(&mut self) {
        if self.is_alive()
            && let Err(error) = self.runtime.shared.memory.free(self.address)
        {
            log::error!("a variable at {:#x}: {}", self.address, error.text);
        }
    }
}

fn default_context(runtime: &Runtime, device: u32) -> Option<u64> {
    let device = runtime.device(i64::from(device)).ok()?;
    device.primary().map(|primary| primary.handle() as u64)
}

/// The variables of a session, and the streams that may be writing them.
pub struct Variables {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    named: BTreeMap<String, Arc<Variable>>,
    /// Streams of the user on which runs were submitted that use variables.
    streams: BTreeSet<usize>,
    /// The one on which such a run was submitted last.
    last: Option<Arc<Stream>>,
    /// Runs that were asked for and are yet to be submitted by another thread.
    pending: usize,
}

impl Default for Variables {
    fn default() -> Variables {
        Variables { state: Mutex::new(Rank::Session, State::default()), changed: Condvar::new() }
    }
}

impl Variables {
    /// The variables that a graph names, made where there are none yet.
    pub fn get_or_create(
        &self,
        runtime: &'static Runtime,
        stream: &Stream,
        requested: &[(String, Desc)],
    ) -> Result<Vec<Arc<Variable>>> {
        requested
            .iter()
            .map(|(name, desc)| self.get_or_create_one(runtime, stream, name, desc))
            .collect()
    }

    fn get_or_create_one(
        &self,
        runtime: &'static Runtime,
        stream: &Stream,
        name: &str,
        desc: &Desc,
    ) -> Result<Arc<Variable>> {
        let layout = desc.layout().expect("a variable's sizes are known");
        if let Some(known) = self.find(name, &layout)? {
            return Ok(known);
        }
        let (device, context) = (stream.spec.device, stream.spec.context);
        let created = Arc::new(Variable::new(runtime, device, context, layout)?);
        self.state.lock().named.entry(name.to_owned()).or_insert_with(|| created.clone());
        Ok(self.find(name, &layout)?.unwrap_or(created))
    }

    /// A variable that is there; fails if it is another than the one that is requested.
    fn find(&self, name: &str, layout: &Layout) -> Result<Option<Arc<Variable>>> {
        let known = self.state.lock().named.get(name).cloned();
        let Some(known) = known else { return Ok(None) };
        if !known.is_alive() {
            log::warn!("the variable {name} was lost with the reset of its device: it begins anew");
            self.state.lock().named.remove(name);
            return Ok(None);
        }
        match known.layout == *layout {
            true => Ok(Some(known)),
            false => Err(Failure::failed(format!(
                "the variable {name} is {} in this session since it was first used, and is {layout} here",
                known.layout
            ))),
        }
    }

    /// Orders a stream after the last one on which a run used variables.
    pub fn order(&self, stream: &Arc<Stream>) -> Result<()> {
        let last = self.state.lock().last.replace(stream.clone());
        last.map_or(Ok(()), |last| order_after(&last, stream))
    }

    /// A run that uses variables was submitted to a stream of the user.
    pub fn used_on(&self, stream: usize) {
        self.state.lock().streams.insert(stream);
    }

    /// Drops all variables.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        let dropped = (std::mem::take(&mut state.named), state.last.take());
        drop(state);
        drop(dropped);
    }
}

/// A run that was asked for and is yet to be submitted by another thread; ends when it is dropped.
pub struct PendingRun(Arc<Session>);

impl PendingRun {
    /// One more run of this session.
    pub fn new(session: &Arc<Session>) -> PendingRun {
        session.variables.state.lock().pending += 1;
        PendingRun(session.clone())
    }
}

impl Drop for PendingRun {
    fn drop(&mut self) {
        self.0.variables.state.lock().pending -= 1;
        self.0.variables.changed.notify_all();
    }
}

impl Session {
    /// The values of variables, on the host, when all that this session submitted before is done; without names
    /// all of them, in the order of their names. Also gives the names. Runs that the engine's own thread is yet to
    /// submit count as submitted, but for that thread itself.
    pub fn values(&self, names: &[String]) -> Result<(Vec<String>, Vec<SessionOutput>)> {
        let waits_for_pending = !queue::is_queue_thread();
        let (found, streams) = {
            let mut state = self.variables.state.lock();
            while waits_for_pending && state.pending > 0 {
                self.variables.changed.wait(&mut state);
            }
            let names = match names.is_empty() {
                true => state.named.keys().cloned().collect(),
                false => names.to_vec(),
            };
            let found: Vec<(String, Option<Arc<Variable>>)> = (names.into_iter())
                .map(|name| {
                    let variable = state.named.get(&name).cloned();
                    (name, variable)
                })
                .collect();
            state.streams.retain(|handle| self.runtime.handles.get::<Stream>(*handle).is_ok());
            (found, state.streams.clone())
        };
        for handle in streams {
            if let Ok(stream) = self.runtime.handles.get::<Stream>(handle)
                && !stream.synchronize(None)?
            {
                return Err(Failure::failed(format!("stream {} was not done", stream.index)));
            }
        }
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, variable) in found {
            let Some(variable) = variable.filter(|one| one.is_alive()) else {
                return Err(Failure::failed(format!(
                    "session {} has no variable {name}: one is made when a graph that names it is loaded or first run",
                    self.id
                )));
            };
            let block = OutputBlock::Host(variable.read()?.into_boxed_slice());
            values.push(SessionOutput {
                address: block.address(),
                bytes: block.bytes(),
                dtype: variable.layout.dtype,
                dims: variable.layout.dims().iter().map(|dim| *dim as i64).collect(),
                block: Some(block),
            });
            names.push(name);
        }
        Ok((names, values))
    }
}
