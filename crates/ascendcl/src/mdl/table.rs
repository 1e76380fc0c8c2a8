//! The loaded models of the process, by id. Ids count from 1 and are not reused.

use super::description::Described;
use super::streams::{self, ModelStreams};
use cairn_graph::offline::{Description, LoadedModel};
use cairn_runtime::Runtime;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::stream::Stream;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A loaded model. Threads that use it keep it alive.
pub struct Model {
    /// The id that the user knows.
    pub id: u32,
    /// The device of its memory.
    pub device: u32,
    /// The model with its memory.
    pub loaded: LoadedModel,
    /// Whether sizes come with each run.
    pub is_dynamic: bool,
    /// Its inputs and outputs, as the user sees them.
    pub described: Arc<Described>,
    /// Its own streams.
    pub streams: ModelStreams,
    priority: AtomicU32,
    /// The gear that was set last, plus one; 0 for none.
    gear: AtomicUsize,
}

impl Model {
    /// A model that was loaded on streams of its own.
    pub fn new(
        id: u32,
        device: u32,
        priority: u32,
        loaded: LoadedModel,
        streams: ModelStreams,
        origin_names: BTreeMap<String, CString>,
    ) -> Model {
        let description = loaded.model.description.clone();
        let is_dynamic = loaded.model.description.gears.count() == 0 && loaded.model.is_dynamic();
        Model {
            id,
            device,
            loaded,
            is_dynamic,
            described: Arc::new(Described::new(id, description, origin_names)),
            streams,
            priority: AtomicU32::new(priority),
            gear: AtomicUsize::new(0),
        }
    }

    /// Its inputs and outputs.
    pub fn description(&self) -> &Description {
        &self.loaded.model.description
    }

    /// The gear that was set last, for any data set.
    pub fn gear(&self) -> Option<usize> {
        self.gear.load(Ordering::Acquire).checked_sub(1)
    }

    /// Stores the gear that was set.
    pub fn set_gear(&self, gear: usize) {
        self.gear.store(gear + 1, Ordering::Release);
    }

    /// The priority of its own stream.
    pub fn priority(&self) -> u32 {
        self.priority.load(Ordering::Acquire)
    }

    /// Sets the priority of later runs on the model's own stream.
    pub fn set_priority(&self, priority: u32) {
        self.priority.store(priority, Ordering::Release);
    }

    /// The stream of runs without a stream of the user.
    pub fn own_stream(&self, runtime: &Runtime) -> Result<Arc<Stream>> {
        self.streams.stream(runtime, self.priority())
    }
}

struct Table {
    next: u32,
    models: BTreeMap<u32, Arc<Model>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { next: 1, models: BTreeMap::new() });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The id of the next model.
pub fn next_id() -> u32 {
    let mut table = table();
    let id = table.next;
    table.next += 1;
    id
}

/// Adds a loaded model.
pub fn insert(model: Model) {
    table().models.insert(model.id, Arc::new(model));
}

/// The model of an id.
pub fn find(id: u32) -> Result<Arc<Model>> {
    table().models.get(&id).cloned().ok_or_else(|| unknown(id))
}

fn unknown(id: u32) -> Error {
    Error::new(Code::ModelId, format!("modelId = {id}: no loaded model has this id"))
}

/// Unloads a model. Queued runs finish.
pub fn unload(id: u32) -> Result<()> {
    let model = table().models.remove(&id).ok_or_else(|| unknown(id))?;
    model.loaded.unload();
    drop(model);
    streams::destroy_idle();
    Ok(())
}

/// Unloads every model.
pub fn unload_all() {
    let models = std::mem::take(&mut table().models);
    models.values().for_each(|model| model.loaded.unload());
    drop(models);
    streams::destroy_idle();
}
