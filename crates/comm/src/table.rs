//! All communicators of a process: how they are made, found and ended.

mod join;

use crate::communicator::{Communicator, Figures};
use crate::engine::{Engine, OpenEngine};
use crate::environment::{Determinism, Environment};
use crate::error::{Error, Result};
use crate::meeting::address;
use crate::meeting::root_info::{self, RootInfo};
use crate::meeting::server::{Server, ServerSpec};
use cairn_runtime::shared::Shared;
use cairn_sync::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// When a state callback is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum StatePhase {
    /// Before a communicator is destroyed.
    BeforeDestroy = 0,
    /// After that.
    AfterDestroy = 1,
    /// Before it is resumed.
    BeforeResume = 2,
    /// After that.
    AfterResume = 3,
}

/// Called when a communicator changes its state, with no lock held, on the thread that changes it.
pub type StateCallback = Arc<dyn Fn(&Communicator, StatePhase) + Send + Sync>;

/// What a sub-communicator is made of, seen from one of its members.
#[derive(Clone, Debug)]
pub struct SubSpec {
    /// Ranks of the parent, in the order of the new ranks.
    pub ranks: Vec<u32>,
    /// The number that the program gives it, equal on all members.
    pub id: u64,
    /// The calling rank's new number.
    pub rank: u32,
}

/// The communicators of one process. Any thread may call it. Creating blocks until all ranks have come, or
/// `HCCL_CONNECT_TIMEOUT` has passed; nothing else does.
pub struct Communicators {
    pub(crate) shared: Arc<Shared>,
    pub(crate) environment: Environment,
    open_engine: OpenEngine,
    engine: Mutex<Option<Arc<dyn Engine>>>,
    determinism: AtomicU8,
    table: Mutex<Table>,
    callbacks: Mutex<BTreeMap<String, StateCallback>>,
}

#[derive(Default)]
struct Table {
    /// By device and name; `None` for one that is being made.
    names: BTreeMap<(u32, String), Option<Arc<Communicator>>>,
    /// Meeting points that this process opened and no communicator has yet, by key.
    meetings: Vec<(u128, Arc<Server>)>,
}

/// A name that is taken for a communicator that is being made; free again if it is not.
pub(crate) struct ReservedName<'a> {
    owner: &'a Communicators,
    key: (u32, String),
    is_used: bool,
}

impl ReservedName<'_> {
    /// Gives the name to the communicator.
    pub fn set(mut self, communicator: &Arc<Communicator>) {
        self.is_used = true;
        self.owner.table.lock().names.insert(self.key.clone(), Some(communicator.clone()));
    }
}

impl Drop for ReservedName<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.owner.table.lock().names.remove(&self.key);
        }
    }
}

impl Communicators {
    /// None yet. The engine is opened when a communicator of more than one rank is made.
    pub fn new(
        shared: Arc<Shared>,
        environment: Environment,
        open_engine: OpenEngine,
    ) -> Communicators {
        let determinism = environment.determinism.unwrap_or(Determinism::Off);
        Communicators {
            shared,
            environment,
            open_engine,
            engine: Mutex::new(Rank::Communicators, None),
            determinism: AtomicU8::new(determinism as u8),
            table: Mutex::new(Rank::Communicators, Table::default()),
            callbacks: Mutex::new(Rank::Communicators, BTreeMap::new()),
        }
    }

    /// The settings.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The engine, opened at its first use.
    pub(crate) fn engine(&self) -> Result<Arc<dyn Engine>> {
        if let Some(engine) = &*self.engine.lock() {
            return Ok(engine.clone());
        }
        let opened = (self.open_engine)()?;
        Ok(self.engine.lock().get_or_insert(opened).clone())
    }

    /// Takes a name on a device; one that is taken is code 1.
    pub(crate) fn reserve_name(&self, device: u32, name: &str) -> Result<ReservedName<'_>> {
        let key = (device, name.to_string());
        match self.table.lock().names.entry(key.clone()) {
            Entry::Occupied(_) => Err(Error::parameter(format!(
                "device {device} has a communicator with the name \"{name}\" already"
            ))),
            Entry::Vacant(vacant) => {
                vacant.insert(None);
                Ok(ReservedName { owner: self, key, is_used: false })
            }
        }
    }

    /// Opens a meeting point in this process and describes it. It ends with the communicator that meets there, or when
    /// nobody has completed it within `HCCL_CONNECT_TIMEOUT`.
    pub fn open_meeting(&self) -> Result<RootInfo> {
        let (key, identity) = (root_info::random()?, root_info::random()?);
        let address = address::choose(&self.environment)?;
        let server = Server::open(ServerSpec::of(&self.environment, address, key))?;
        let address = server.address();
        let ended: Vec<_> = {
            let mut table = self.table.lock();
            table.meetings.push((key, Arc::new(server)));
            table.meetings.extract_if(.., |(_, server)| !server.is_open()).collect()
        };
        drop(ended);
        Ok(RootInfo { address, key, identity })
    }

    /// The meeting point with this key, if this process opened it.
    pub(crate) fn meeting(&self, key: u128) -> Option<Arc<Server>> {
        let table = self.table.lock();
        table.meetings.iter().find(|(known, _)| *known == key).map(|(_, server)| server.clone())
    }

    /// From now on a meeting point belongs to the communicators that have it.
    pub(crate) fn release_meeting(&self, key: u128) {
        let is_it = |meeting: &mut (u128, Arc<Server>)| meeting.0 == key;
        let released: Vec<_> = self.table.lock().meetings.extract_if(.., is_it).collect();
        drop(released);
    }

    /// The communicator of this name on a device; an unknown name is code 1.
    pub fn find(&self, device: u32, name: &str) -> Result<Arc<Communicator>> {
        let found = self.table.lock().names.get(&(device, name.to_string())).cloned().flatten();
        found.ok_or_else(|| {
            Error::parameter(format!(
                "device {device} has no communicator with the name \"{name}\""
            ))
        })
    }

    /// The communicator of this name on any device, the lowest first: what `HcclCommGetStatus` asks for.
    pub fn find_anywhere(&self, name: &str) -> Result<Arc<Communicator>> {
        let table = self.table.lock();
        let found = table.names.iter().find(|((_, known), _)| known == name);
        found.and_then(|(_, communicator)| communicator.clone()).ok_or_else(|| {
            Error::parameter(format!("this process has no communicator with the name \"{name}\""))
        })
    }

    /// Ends a communicator: its name is free, its links are closed, operators in progress fail, and it has returned when
    /// none runs any more. Code 20 while another thread launches on it.
    pub fn destroy(&self, communicator: &Arc<Communicator>) -> Result<()> {
        self.call_back(communicator, StatePhase::BeforeDestroy);
        communicator.close()?;
        let key = (communicator.device(), communicator.name().to_string());
        let removed = self.table.lock().names.remove(&key);
        drop(removed);
        self.call_back(communicator, StatePhase::AfterDestroy);
        Ok(())
    }

    /// Sets how reductions are ordered where neither the environment nor a configuration says it (`HcclSetConfig`).
    pub fn set_determinism(&self, determinism: Determinism) {
        if self.environment.determinism.is_none() {
            self.determinism.store(determinism as u8, Ordering::Release);
        }
    }

    /// What `HcclGetConfig` tells: the environment's, else what was set, else off.
    pub fn determinism(&self) -> Determinism {
        let number = i32::from(self.determinism.load(Ordering::Acquire));
        Determinism::from_number(number).unwrap_or(Determinism::Off)
    }

    /// Registers a callback under a name; the same name again replaces it, `None` removes it.
    pub fn on_state(&self, name: &str, callback: Option<StateCallback>) {
        let mut callbacks = self.callbacks.lock();
        let before = match callback {
            Some(callback) => callbacks.insert(name.into(), callback),
            None => callbacks.remove(name),
        };
        drop(callbacks);
        drop(before);
    }

    fn call_back(&self, communicator: &Communicator, phase: StatePhase) {
        let callbacks: Vec<StateCallback> = self.callbacks.lock().values().cloned().collect();
        callbacks.iter().for_each(|callback| callback(communicator, phase));
    }

    /// Lets a suspended communicator go on (`HcclCommResume`). One that has failed cannot: the error says why.
    pub fn resume(&self, communicator: &Arc<Communicator>) -> Result<()> {
        self.call_back(communicator, StatePhase::BeforeResume);
        communicator.resume()?;
        self.call_back(communicator, StatePhase::AfterResume);
        Ok(())
    }

    /// The live communicators, for `npu-smi`.
    pub fn list(&self) -> Vec<Figures> {
        let live: Vec<_> = self.table.lock().names.values().flatten().cloned().collect();
        live.iter().map(|communicator| communicator.figures()).collect()
    }
}
