//! An engine between threads of one process, for tests: messages lie in queues, and faults can be injected.

use super::{Engine, Incoming, LinkError, LinkErrorKind, Mesh, MeshSpec, Outgoing, Store};
use cairn_sync::lock::{Condvar, Mutex, Rank};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Moves messages through queues in this process. Sends never wait. Its meshes are the communicators of all threads that
/// share it.
pub struct ThreadEngine {
    hubs: Mutex<Vec<Arc<Hub>>>,
}

impl Default for ThreadEngine {
    fn default() -> ThreadEngine {
        ThreadEngine { hubs: Mutex::new(Rank::Link, Vec::new()) }
    }
}

impl ThreadEngine {
    /// How many meshes were made.
    pub fn meshes(&self) -> usize {
        self.hubs.lock().len()
    }

    /// From now on a rank of a mesh is gone, as if its process had ended; meshes are numbered as they were made.
    pub fn drop_rank(&self, mesh: usize, rank: u32) {
        let hub = self.hubs.lock()[mesh].clone();
        hub.leave(rank);
    }

    /// Messages from one rank to another are kept back until they are released.
    pub fn hold(&self, mesh: usize, from: u32, to: u32) {
        let hub = self.hubs.lock()[mesh].clone();
        hub.state.lock().held.insert((from, to));
    }

    /// Delivers what was kept back.
    pub fn release(&self, mesh: usize, from: u32, to: u32) {
        let hub = self.hubs.lock()[mesh].clone();
        hub.state.lock().held.remove(&(from, to));
        hub.changed.notify_all();
    }

    /// Messages that nobody has received.
    pub fn undelivered(&self, mesh: usize) -> usize {
        let hub = self.hubs.lock()[mesh].clone();
        hub.state.lock().messages.len()
    }
}

/// What the ranks of one mesh share.
struct Hub {
    state: Mutex<HubState>,
    changed: Condvar,
}

#[derive(Default)]
struct HubState {
    /// By sender, receiver and slot.
    messages: BTreeMap<(u32, u32, u64), Vec<u8>>,
    gone: BTreeSet<u32>,
    held: BTreeSet<(u32, u32)>,
}

impl Hub {
    fn leave(&self, rank: u32) {
        self.state.lock().gone.insert(rank);
        self.changed.notify_all();
    }
}

impl Engine for ThreadEngine {
    fn connect(&self, spec: &MeshSpec, store: Arc<dyn Store>) -> Result<Arc<dyn Mesh>, LinkError> {
        let number = match spec.rank {
            0 => {
                let hub = Hub {
                    state: Mutex::new(Rank::Link, HubState::default()),
                    changed: Condvar::new(),
                };
                let mut hubs = self.hubs.lock();
                hubs.push(Arc::new(hub));
                let number = hubs.len() as u64 - 1;
                drop(hubs);
                store.set("mesh", &number.to_le_bytes())?;
                number
            }
            _ => {
                let bytes = store.get("mesh", spec.timeout)?;
                let bytes = bytes.try_into().map_err(|_| {
                    LinkError::new(LinkErrorKind::Other, Some(0), "rank 0 left no number of a mesh")
                })?;
                u64::from_le_bytes(bytes)
            }
        };
        store.set(&format!("came/{}", spec.rank), &[])?;
        for peer in 0..spec.size {
            store.get(&format!("came/{peer}"), spec.timeout)?;
        }
        let hub = self.hubs.lock().get(number as usize).cloned().ok_or_else(|| {
            LinkError::new(
                LinkErrorKind::Other,
                Some(0),
                format!("there is no mesh {number} in this process"),
            )
        })?;
        Ok(Arc::new(ThreadMesh { hub, rank: spec.rank, size: spec.size }))
    }
}

/// One rank's links.
struct ThreadMesh {
    hub: Arc<Hub>,
    rank: u32,
    size: u32,
}

impl ThreadMesh {
    fn lost(&self, state: &HubState, peer: u32) -> Option<LinkError> {
        if state.gone.contains(&self.rank) {
            return Some(LinkError::new(LinkErrorKind::Closed, None, "the links were closed"));
        }
        state.gone.contains(&peer).then(|| {
            LinkError::new(LinkErrorKind::PeerGone, Some(peer), format!("rank {peer} is gone"))
        })
    }
}

impl Mesh for ThreadMesh {
    fn exchange(
        &self,
        outgoing: &[Outgoing<'_>],
        incoming: &[Incoming<'_>],
        deadline: Option<Instant>,
    ) -> Result<(), LinkError> {
        let mut state = self.hub.state.lock();
        for message in outgoing {
            if let Some(error) = self.lost(&state, message.peer) {
                return Err(error);
            }
            let bytes: Vec<u8> = message.bytes.iter().map(Cell::get).collect();
            let key = (self.rank, message.peer, message.slot);
            if state.messages.insert(key, bytes).is_some() {
                let text =
                    format!("the slot {:#x} to rank {} is taken", message.slot, message.peer);
                return Err(LinkError::new(LinkErrorKind::Other, Some(message.peer), text));
            }
        }
        self.hub.changed.notify_all();
        for message in incoming {
            let key = (message.peer, self.rank, message.slot);
            let bytes = loop {
                if !state.held.contains(&(message.peer, self.rank))
                    && let Some(bytes) = state.messages.remove(&key)
                {
                    break bytes;
                }
                if let Some(error) = self.lost(&state, message.peer) {
                    return Err(error);
                }
                match deadline {
                    None => self.hub.changed.wait(&mut state),
                    Some(deadline) => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            let text = format!("rank {} did not answer", message.peer);
                            let kind = LinkErrorKind::Timeout;
                            return Err(LinkError::new(kind, Some(message.peer), text));
                        }
                        self.hub.changed.wait_for(&mut state, left);
                    }
                }
            };
            if bytes.len() != message.bytes.len() {
                let (is, expected) = (bytes.len(), message.bytes.len());
                let text =
                    format!("rank {} sent {is} bytes where {expected} were expected", message.peer);
                return Err(LinkError::new(LinkErrorKind::TooLong, Some(message.peer), text));
            }
            message.bytes.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), LinkError> {
        let state = self.hub.state.lock();
        (0..self.size)
            .filter(|peer| *peer != self.rank)
            .try_for_each(|peer| self.lost(&state, peer).map_or(Ok(()), Err))
    }

    fn close(&self) {
        self.hub.leave(self.rank);
    }
}

impl Drop for ThreadMesh {
    fn drop(&mut self) {
        self.close();
    }
}
