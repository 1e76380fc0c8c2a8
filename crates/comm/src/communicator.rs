//! One rank of one communicator.

mod failure;
mod submit;
mod turn;

pub use turn::{SingleMessage, Step, Turn};

use crate::config::ExecTimeout;
use crate::engine::Mesh;
use crate::environment::Determinism;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::meeting::client::Client;
use crate::meeting::server::Server;
use crate::meeting::wire::Member;
use crate::plan::Position;
use crate::{Code, operator::OperatorKind};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::Allocator;
use cairn_runtime::record::event::{Change, Communicator as Entry};
use cairn_runtime::record::{Event, Kind};
use cairn_runtime::shared::Shared;
use cairn_sync::lock::{Condvar, Mutex, Rank};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Whether a communicator takes operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It does.
    Ready = 0,
    /// It was suspended.
    Suspending = 1,
    /// It failed or was destroyed.
    Invalid = 254,
}

/// What `npu-smi` shows of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its name.
    pub name: String,
    /// This rank.
    pub rank: u32,
    /// Ranks.
    pub size: u32,
    /// This process's number of the device.
    pub device: u32,
    /// Operators that have ended.
    pub operators: u64,
    /// Whether it takes operators.
    pub status: Status,
}

/// What a communicator is made of.
pub(crate) struct Parts {
    pub shared: Arc<Shared>,
    pub rank: u32,
    pub size: u32,
    pub device: u32,
    pub name: String,
    pub description: String,
    pub identity: u128,
    pub is_sub: bool,
    /// Bytes of staging, equal on all ranks.
    pub buffer_bytes: u64,
    pub determinism: Determinism,
    pub exec_timeout: ExecTimeout,
    pub entry_log: bool,
    /// The links, and where the ranks met; `None` for a single rank.
    pub connection: Option<(Arc<dyn Mesh>, Arc<Client>)>,
    pub members: Vec<Member>,
    /// The meeting point, where this process has it.
    pub server: Option<Arc<Server>>,
}

/// One rank of a communicator. Shared by the table, the door's handle and queued tasks; any thread may use it.
pub struct Communicator {
    parts: Parts,
    id: u64,
    allocator: Arc<dyn Allocator>,
    handle: AtomicUsize,
    determinism: AtomicU8,
    launch: Mutex<Launch>,
    state: Mutex<State>,
    /// No operator is in progress any more.
    idle: Condvar,
    operators: AtomicU64,
    /// How often each sub-communicator was made of these ranks.
    subs: Mutex<BTreeMap<(u64, u64), u64>>,
}

/// The order of operators; held while one is launched.
struct Launch {
    /// The number of the last collective operator.
    ticket: u64,
    /// Made of all collective operators so far.
    history: u64,
    /// Messages so far to each rank, and from each.
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// What is in progress, and what ended it.
#[derive(Default)]
struct State {
    running: u32,
    failure: Option<Error>,
    suspended: bool,
    destroyed: bool,
}

impl HandleObject for Communicator {
    const KIND: &'static str = "communicator";
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Communicator {
    pub(crate) fn new(parts: Parts) -> Arc<Communicator> {
        let peers = parts.size as usize;
        let communicator = Communicator {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            allocator: PoolMaker::built_in(&parts.shared, parts.device),
            handle: AtomicUsize::new(0),
            determinism: AtomicU8::new(parts.determinism as u8),
            launch: Mutex::new(
                Rank::Launch,
                Launch { ticket: 0, history: 0, sent: vec![0; peers], received: vec![0; peers] },
            ),
            state: Mutex::new(Rank::Running, State::default()),
            idle: Condvar::new(),
            operators: AtomicU64::new(0),
            subs: Mutex::new(Rank::Running, BTreeMap::new()),
            parts,
        };
        communicator.emit(Change::Created);
        Arc::new(communicator)
    }

    fn emit(&self, change: Change) {
        let spine = &self.parts.shared.spine;
        if spine.has_listener(Kind::Communicator) {
            let entry = Entry {
                id: self.id,
                name: self.parts.name.clone(),
                identity: self.parts.identity,
                rank: self.parts.rank,
                size: self.parts.size,
                device: self.parts.device,
            };
            spine.emit(Kind::Communicator, || Event::Communicator(&entry, change));
        }
    }

    /// Its number in this process, from 1 on; never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A number that is equal on all ranks of the communicator, and differs from that of every other one.
    pub fn identity(&self) -> u128 {
        self.parts.identity
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.parts.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.parts.size
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// What the user says it is for.
    pub fn description(&self) -> &str {
        &self.parts.description
    }

    /// This process's number of the rank's device.
    pub fn device(&self) -> u32 {
        self.parts.device
    }

    /// Whether it is a part of another one.
    pub fn is_sub(&self) -> bool {
        self.parts.is_sub
    }

    /// All ranks, as they said when they met; empty for a single rank.
    pub fn members(&self) -> &[Member] {
        &self.parts.members
    }

    /// The handle that the door gave it; 0 before it did.
    pub fn handle(&self) -> usize {
        self.handle.load(Ordering::Acquire)
    }

    /// Stores the door's handle, so that a look-up by name gives the same.
    pub fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Release);
    }

    /// Bytes of staging it may use: the least that a rank asked for.
    pub fn buffer_bytes(&self) -> u64 {
        self.parts.buffer_bytes
    }

    /// How reductions are ordered. Every mode gives the results of [`Determinism::Strict`].
    pub fn determinism(&self) -> Determinism {
        let number = i32::from(self.determinism.load(Ordering::Relaxed));
        Determinism::from_number(number).unwrap_or(self.parts.determinism)
    }

    /// Sets how reductions are ordered (`HcclSetCommConfig`).
    pub fn set_determinism(&self, determinism: Determinism) {
        self.determinism.store(determinism as u8, Ordering::Relaxed);
    }

    /// How long an operator may take.
    pub fn exec_timeout(&self) -> ExecTimeout {
        self.parts.exec_timeout
    }

    /// Whether it takes operators.
    pub fn status(&self) -> Status {
        let state = self.state.lock();
        match (state.destroyed || state.failure.is_some(), state.suspended) {
            (true, _) => Status::Invalid,
            (false, true) => Status::Suspending,
            (false, false) => Status::Ready,
        }
    }

    /// From now on operators are refused (22) until it is resumed; those in progress go on.
    pub fn suspend(&self) -> Result<()> {
        self.check_usable()?;
        self.state.lock().suspended = true;
        Ok(())
    }

    /// Takes operators again; a communicator that has failed stays so.
    pub(crate) fn resume(&self) -> Result<()> {
        self.check_usable()?;
        self.state.lock().suspended = false;
        Ok(())
    }

    /// What `npu-smi` shows.
    pub fn figures(&self) -> Figures {
        Figures {
            name: self.parts.name.clone(),
            rank: self.parts.rank,
            size: self.parts.size,
            device: self.parts.device,
            operators: self.operators.load(Ordering::Relaxed),
            status: self.status(),
        }
    }

    /// Ends it: closes its links and waits for the operators in progress, which fail. Code 20 while another thread launches.
    pub(crate) fn close(&self) -> Result<()> {
        let Some(launch) = self.launch.try_lock() else {
            return Err(Error::new(
                Code::Again,
                format!("the communicator \"{}\" is in use by another thread", self.name()),
            ));
        };
        let was_destroyed = std::mem::replace(&mut self.state.lock().destroyed, true);
        drop(launch);
        if was_destroyed {
            return Err(self.destroyed_error());
        }
        if let Some((mesh, client)) = &self.parts.connection {
            self.leave(client);
            mesh.close();
        }
        let mut state = self.state.lock();
        while state.running > 0 {
            self.idle.wait(&mut state);
        }
        drop(state);
        self.emit(Change::Destroyed);
        Ok(())
    }

    fn destroyed_error(&self) -> Error {
        Error::parameter(format!("the communicator \"{}\" was destroyed", self.name()))
    }

    fn check_usable(&self) -> Result<()> {
        let state = self.state.lock();
        match &state.failure {
            _ if state.destroyed => Err(self.destroyed_error()),
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    pub(crate) fn position(&self) -> Position {
        let Parts { rank, size, device, buffer_bytes, .. } = self.parts;
        Position { rank, size, device, buffer_bytes }
    }

    /// Where its ranks met, and whether this process has the meeting point.
    pub(crate) fn meeting(&self) -> (Option<&Arc<Client>>, Option<&Arc<Server>>) {
        let client = self.parts.connection.as_ref().map(|(_, client)| client);
        (client, self.parts.server.as_ref())
    }

    /// How often a sub-communicator with this number was made of these ranks.
    pub(crate) fn sub_generation(&self, key: (u64, u64)) -> u64 {
        self.subs.lock().get(&key).copied().unwrap_or(0)
    }

    /// Counts one that was made.
    pub(crate) fn count_sub(&self, key: (u64, u64)) {
        *self.subs.lock().entry(key).or_default() += 1;
    }
}

impl Launch {
    /// Gives a collective operator its number.
    fn take_ticket(&mut self, header: Header) -> Header {
        debug_assert!(!matches!(header.kind, OperatorKind::Send | OperatorKind::Receive));
        self.ticket += 1;
        let header = Header { ticket: self.ticket, history: self.history, ..header };
        self.history = header.extend_history(self.history);
        header
    }

    /// Gives a single message its number among those from this rank to another, or the other way round.
    fn take_message(&mut self, peer: u32, receives: bool) -> u64 {
        let counts = if receives { &mut self.received } else { &mut self.sent };
        let count = &mut counts[peer as usize];
        *count += 1;
        *count
    }
}
