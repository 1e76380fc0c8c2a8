//! All communicators of a process: how they are made, found and ended.

use crate::communicator::{Communicator, Figures};
use crate::config::CommConfig;
use crate::engine::OpenEngine;
use crate::environment::{Determinism, Environment};
use crate::error::Result;
use crate::meeting::root_info::RootInfo;
use cairn_runtime::shared::Shared;
use std::path::Path;
use std::sync::Arc;

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
    shared: Arc<Shared>,
    environment: Environment,
    open_engine: OpenEngine,
}

impl Communicators {
    /// None yet. The engine is opened when a communicator of more than one rank is made.
    pub fn new(
        shared: Arc<Shared>,
        environment: Environment,
        open_engine: OpenEngine,
    ) -> Communicators {
        Communicators { shared, environment, open_engine }
    }

    /// The settings.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Opens a meeting point in this process and describes it. It ends with the communicator that meets there, or when
    /// nobody has completed it within `HCCL_CONNECT_TIMEOUT`.
    pub fn open_meeting(&self) -> Result<RootInfo> {
        todo!()
    }

    /// A communicator of `size` ranks that meet by a root info; `device` is this process's number of the rank's device.
    pub fn join(
        &self,
        device: u32,
        size: u32,
        info: &RootInfo,
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        let _ = (device, size, info, rank, config);
        todo!()
    }

    /// The same with several root infos, equal on all ranks: all meet at the first, which serves any number; the others
    /// are closed by the processes that opened them. No info, or more than ranks: code 1.
    pub fn join_scalable(
        &self,
        device: u32,
        size: u32,
        infos: &[RootInfo],
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        let _ = (device, size, infos, rank, config);
        todo!()
    }

    /// The communicator of a rank table file. Its name is that of the world group unless the configuration has one.
    pub fn join_rank_table(
        &self,
        device: u32,
        path: &Path,
        rank: u32,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        let _ = (device, path, rank, config);
        todo!()
    }

    /// A communicator of these devices of this process, one rank each, in the order of ranks.
    pub fn join_all(&self, devices: &[u32]) -> Result<Vec<Arc<Communicator>>> {
        let _ = devices;
        todo!()
    }

    /// A communicator of some ranks of another, called by its members only.
    pub fn join_sub(
        &self,
        parent: &Arc<Communicator>,
        spec: &SubSpec,
        config: &CommConfig,
    ) -> Result<Arc<Communicator>> {
        let _ = (parent, spec, config);
        todo!()
    }

    /// The communicator of this name on a device; an unknown name is code 1.
    pub fn find(&self, device: u32, name: &str) -> Result<Arc<Communicator>> {
        let _ = (device, name);
        todo!()
    }

    /// Ends a communicator: its name is free, its links are closed, operators in progress fail, and it has returned when
    /// none runs any more. Code 20 while another thread launches on it.
    pub fn destroy(&self, communicator: &Arc<Communicator>) -> Result<()> {
        let _ = communicator;
        todo!()
    }

    /// Sets how reductions are ordered where neither the environment nor a configuration says it (`HcclSetConfig`).
    pub fn set_determinism(&self, determinism: Determinism) {
        let _ = determinism;
        todo!()
    }

    /// What `HcclGetConfig` tells: the environment's, else what was set, else off.
    pub fn determinism(&self) -> Determinism {
        todo!()
    }

    /// Registers a callback under a name; the same name again replaces it, `None` removes it.
    pub fn on_state(&self, name: &str, callback: Option<StateCallback>) {
        let _ = (name, callback);
        todo!()
    }

    /// Lets a suspended or failed communicator go on, where its links still hold (`HcclCommResume`).
    pub fn resume(&self, communicator: &Arc<Communicator>) -> Result<()> {
        let _ = communicator;
        todo!()
    }

    /// The live communicators, for `npu-smi`.
    pub fn list(&self) -> Vec<Figures> {
        let _ = (&self.shared, &self.open_engine);
        todo!()
    }
}
