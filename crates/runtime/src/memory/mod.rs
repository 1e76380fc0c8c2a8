//! Memory of the devices and pinned memory of the host: who may have it, where it is, and when it
//! comes back.

pub mod allocator;
pub mod arena;
pub mod budget;
pub mod callback_lock;
pub mod direct;
pub mod external;
pub mod layer;
mod lent;
mod loan;
mod ordered;
pub mod outstanding;
pub mod pool;
mod pressure;
pub mod purpose;
pub mod quarantine;
pub mod ranges;
pub mod raw;
pub mod registered;
pub mod registry;
pub mod request;
mod shortage;
pub mod source;

pub use cairn_pool::tlsf;

use crate::clock::Progress;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::record::{Event, Kind, Spine};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::task::{Body, Place, Span, Task};
use allocator::Allocator;
use arena::{Arena, Attempt, Usage};
use budget::Budget;
use layer::Layers;
use pool::Pools;
use pressure::{Verdict, Watch};
use raw::{Bytes, Use};
use registered::Registered;
use request::Request;
use shortage::Cause;

/// How far the arenas of devices are shifted against each other, in whole huge pages.
const DEVICE_SKEW: u64 = 10 << 20;
/// How far pinned host memory is shifted against all of them.
const HOST_SKEW: u64 = 340 << 10;

/// All memory of the process that came from ACL.
pub struct Memory {
    devices: Vec<Arc<Arena>>,
    pools: Pools,
    layers: Option<Layers>,
    host: Arena,
    registered: Registered,
    peers: Vec<AtomicU32>,
    progress: Arc<Progress>,
    spine: Arc<Spine>,
}

/// What an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Memory of a device, inside an allocation if there is one.
    Device(u32, Option<Inside>),
    /// Pinned host memory, inside an allocation if there is one.
    Pinned(Option<Inside>),
    /// Host memory that the user registered.
    Registered(Inside),
    /// Anything else: pageable memory, or nothing at all.
    Foreign,
}

/// An allocation that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its first byte.
    pub start: usize,
    /// Its length.
    pub bytes: u64,
    /// False once it was freed.
    pub live: bool,
    /// Made with huge pages in mind.
    pub huge: bool,
}

impl Memory {
    /// Reserves the address ranges. Without any byte in use yet.
    pub fn new(config: &Config, progress: Arc<Progress>, spine: Arc<Spine>) -> Result<Memory> {
        let budget = Arc::new(Budget::new(config.budget));
        let arena = |name: String, capacity: u64, skew: u64| {
            let (progress, budget) = (progress.clone(), budget.clone());
            Arena::new(name, capacity, config.quarantine, skew, progress, budget)
        };
        let devices = (0..config.visible.len())
            .map(|id| {
                let skew = id as u64 * DEVICE_SKEW;
                arena(format!("device {id}"), config.device_memory, skew).map(Arc::new)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Memory {
            layers: Layers::new(&config.memory, devices.len()),
            peers: (0..devices.len()).map(|_| AtomicU32::new(0)).collect(),
            pools: Pools::new(devices.len()),
            devices,
            host: arena("pinned host memory".into(), config.budget, HOST_SKEW)?,
            registered: Registered::default(),
            progress,
            spine,
        })
    }

    /// Tells the figures of a device.
    fn show(&self, device: u32) {
        self.spine.tell(Kind::Usage, || {
            let arena = &self.devices[device as usize];
            let (used, waiting) = arena.held();
            Event::Usage { device, used, waiting, capacity: arena.capacity }
        });
    }

    /// Memory of a device. Waits for freed memory only when there is no other way.
    pub fn allocate(&self, device: u32, request: Request) -> Result<usize> {
        let address = match &self.layers {
            None => self.allocate_in(&self.devices[device as usize], request),
            Some(layers) => {
                let direct = self.direct(device);
                layers
                    .of_device(device)
                    .over(&direct)
                    .allocate(&request, None)
                    .map(|block| block.address)
            }
        }?;
        self.show(device);
        Ok(address)
    }

    /// Pinned memory of the host.
    pub fn allocate_host(&self, bytes: u64) -> Result<usize> {
        self.allocate_in(
            &self.host,
            Request { align: if bytes < 4096 { 512 } else { 4096 }, ..Request::bytes(bytes) },
        )
    }

    fn allocate_in(&self, arena: &Arena, request: Request) -> Result<usize> {
        self.persist(arena, &request, |patient| arena.attempt(&request, patient))
    }

    /// Tries until there is memory, or no hope. What pools have free goes back first; then freed memory
    /// leaves the quarantines, as `pressure` allows.
    fn persist(
        &self,
        arena: &Arena,
        request: &Request,
        mut try_once: impl FnMut(bool) -> Attempt,
    ) -> Result<usize> {
        let whole = request.whole().unwrap_or(u64::MAX);
        let mut watch = None;
        let mut patient = true;
        let mut trimmed = false;
        loop {
            let attempt = try_once(patient);
            if let Attempt::Taken(address) = attempt {
                return Ok(address);
            }
            let full = matches!(attempt, Attempt::QuarantineFull);
            if !full && !std::mem::replace(&mut trimmed, true) && self.trim_pools() {
                continue;
            }
            match attempt {
                Attempt::Exhausted => return Err(self.out_of_memory(arena, request, &Cause::Full)),
                Attempt::Refused(reason) => {
                    return Err(self.out_of_memory(arena, request, &Cause::Refused(reason)));
                }
                Attempt::OverLimit(most) => {
                    return Err(self.out_of_memory(arena, request, &Cause::OverLimit(most)));
                }
                Attempt::Taken(_) | Attempt::QuarantineFull | Attempt::Waiting => {}
            }
            let verdict = watch.get_or_insert_with(|| Watch::new(&self.progress)).verdict();
            let relieved = match verdict {
                Verdict::Quiet | Verdict::Late if full => arena.relieve(0),
                Verdict::Quiet | Verdict::Late => self.relieve_all(|a| a.relieve(whole)),
                Verdict::Blocked => {
                    let held = self.progress.held();
                    let need = if full { 0 } else { whole };
                    self.relieve_all(|a| {
                        // A function of the user may read host memory that it does not declare.
                        let hidden = held.host_function && std::ptr::eq(a, &self.host);
                        (std::ptr::eq(a, arena) || !full)
                            && !hidden
                            && a.relieve_untouched(need, &held)
                    })
                }
                Verdict::Moving | Verdict::Stalled => false,
            };
            let hope = relieved
                || match verdict {
                    Verdict::Moving | Verdict::Late => true,
                    Verdict::Blocked => !full,
                    Verdict::Quiet | Verdict::Stalled => false,
                };
            match (hope, full) {
                (true, _) => {}
                (false, true) => patient = false,
                (false, false) => return Err(self.out_of_memory(arena, request, &Cause::Full)),
            }
        }
    }

    fn relieve_all(&self, relieve: impl Fn(&Arena) -> bool) -> bool {
        let arenas = self.devices.iter().map(|arena| &**arena).chain([&self.host]);
        arenas.filter(|arena| relieve(arena)).count() > 0
    }

    /// Frees memory of a device that begins at `address`.
    pub fn free(&self, address: usize) -> Result<()> {
        match self.locate(address) {
            Located::Device(id, Some(inside)) if inside.live && inside.start == address => {
                let arena = &self.devices[id as usize];
                let offset = arena.offset(address).expect("located there");
                let freed = match &self.layers {
                    None => arena.free(offset).then_some(Ok(())),
                    Some(layers) => arena.leave(offset).map(|inside| self.give(layers, id, inside)),
                };
                self.show(id);
                freed.unwrap_or_else(|| Err(self.wrong_device_free(address)))
            }
            _ => Err(self.wrong_device_free(address)),
        }
    }

    fn wrong_device_free(&self, address: usize) -> Error {
        match self.pool_at(address) {
            Some(pool) if pool.built_in => pool.not_the_users(address),
            Some(pool) => Error::refused(format!(
                "{address:#x} belongs to {}: give it back with aclrtMemPoolFreeAsync",
                pool.name()
            )),
            None => wrong_free(address, self.locate(address), "device memory"),
        }
    }

    /// Frees pinned host memory that begins at `address`.
    pub fn free_host(&self, address: usize) -> Result<()> {
        match self.locate(address) {
            Located::Pinned(Some(inside)) if inside.live && inside.start == address => {
                match self.host.free(self.host.offset(address).expect("located there")) {
                    true => Ok(()),
                    false => Err(wrong_free(address, self.locate(address), "pinned host memory")),
                }
            }
            other => Err(wrong_free(address, other, "pinned host memory")),
        }
    }

    /// What an address belongs to. Takes no lock but for registered ranges.
    pub fn locate(&self, address: usize) -> Located {
        for (id, arena) in self.devices.iter().enumerate() {
            if let Some(offset) = arena.offset(address) {
                return Located::Device(id as u32, arena.find(offset));
            }
        }
        if let Some(offset) = self.host.offset(address) {
            return Located::Pinned(self.host.find(offset));
        }
        match self.registered.find(address) {
            Some((start, bytes)) => {
                Located::Registered(Inside { start, bytes: bytes as u64, live: true, huge: false })
            }
            None => Located::Foreign,
        }
    }

    /// Host ranges that the user registered.
    pub fn registered(&self) -> &Registered {
        &self.registered
    }

    /// Lets `device` reach the memory of `peer`, or not. False if it was so already.
    pub fn set_peer(&self, device: u32, peer: u32, reach: bool) -> bool {
        let bit = 1 << peer;
        let cell = &self.peers[device as usize];
        let before = match reach {
            true => cell.fetch_or(bit, Ordering::AcqRel),
            false => cell.fetch_and(!bit, Ordering::AcqRel),
        };
        (before & bit != 0) != reach
    }

    /// True if `device` may reach the memory of `peer`.
    pub fn is_peer(&self, device: u32, peer: u32) -> bool {
        device == peer || self.peers[device as usize].load(Ordering::Acquire) & (1 << peer) != 0
    }

    /// The figures of a device.
    pub fn usage(&self, device: u32) -> Usage {
        self.devices[device as usize].usage()
    }

    /// Free and total bytes of a device, quarantined bytes counted as free.
    pub fn info(&self, device: u32) -> (u64, u64) {
        let arena = &self.devices[device as usize];
        (arena.free_bytes(), arena.capacity)
    }

    /// Ends every allocation of a device that is being closed.
    pub fn clear(&self, device: u32) {
        let arena = &self.devices[device as usize];
        let mut live = 0;
        if let Some(layers) = &self.layers {
            for block in arena.leave_all() {
                live += 1;
                if let Err(error) = self.give(layers, device, block) {
                    log::error!("the reset of device {device}: {}", error.text);
                }
            }
            for finding in layers.end(&|address| arena.offset(address).is_some()) {
                log::error!("the reset of device {device}: {finding}");
            }
        }
        self.end_pools(device);
        live += arena.clear();
        if live > 0 {
            log::info!("device {device} was reset with {live} allocations, which end with it");
        }
        self.show(device);
    }

    /// Lets all quarantined memory go: nothing can be in flight any more.
    pub fn empty_quarantines(&self) {
        for arena in self.devices.iter().map(|arena| &**arena).chain([&self.host]) {
            arena.empty_quarantine();
        }
    }

    /// Checks that a task may touch a range; the error names task, argument, address and what is
    /// there.
    pub fn check<'a>(
        &self,
        task: &str,
        argument: impl Fn() -> &'a str,
        span: &Span,
        purpose: Use,
    ) -> Result<()> {
        if span.bytes == 0 {
            return Ok(());
        }
        let located = self.locate(span.address);
        let trouble = match (&located, span.place) {
            (Located::Device(id, _), Place::Device(on))
                if !self.is_peer(on, *id) && !self.is_peer(*id, on) =>
            {
                format!(
                    "device {on} has no peer access to device {id}: call aclrtDeviceEnablePeerAccess"
                )
            }
            (Located::Device(..), Place::Host) => {
                "that is device memory, host memory is wanted".into()
            }
            (Located::Pinned(_) | Located::Foreign, Place::Device(_) | Place::AnyDevice) => {
                format!("that is {}, device memory is wanted", describe(span.address, &located))
            }
            (Located::Registered(_), _) if !raw::reachable(span.address, span.bytes, purpose) => {
                "it is registered, but no such memory is there, or it is read-only".into()
            }
            (Located::Foreign, _) if raw::reachable(span.address, span.bytes, purpose) => {
                return Ok(());
            }
            (Located::Foreign, _) => match purpose {
                Use::Read => "no memory is there".into(),
                Use::Overwrite => "no memory is there, or it is read-only".into(),
            },
            (Located::Device(_, None) | Located::Pinned(None), _) => {
                "no allocation is there".into()
            }
            (
                Located::Device(_, Some(inside))
                | Located::Pinned(Some(inside))
                | Located::Registered(inside),
                _,
            ) => {
                let end = inside.start as u64 + inside.bytes;
                if span.bytes as u64 <= end - span.address as u64 {
                    if !inside.live {
                        log::debug!("{task}: {} {span} was freed before it was used", argument());
                    }
                    return Ok(());
                }
                format!("it leaves {}", describe(span.address, &located))
            }
        };
        Err(Error::refused(format!(
            "{task}: the {} range {:#x} of {} bytes cannot be used: {trouble}",
            argument(),
            span.address,
            span.bytes
        )))
    }

    /// Checks and runs a copy or fill, on the worker or, for the synchronous calls, on the caller.
    pub fn perform(&self, task: &Task) -> Result<()> {
        for span in &task.reads {
            self.check(task.name, || "source", span, Use::Read)?;
        }
        for span in &task.writes {
            self.check(task.name, || "destination", span, Use::Overwrite)?;
        }
        if let (Body::Copy, [from, ..], [to, ..]) = (&task.body, &task.reads[..], &task.writes[..])
            && let (Located::Device(a, _), Located::Device(b, _)) =
                (self.locate(from.address), self.locate(to.address))
            && !self.is_peer(a, b)
            && !self.is_peer(b, a)
        {
            return Err(Error::refused(format!(
                "{}: device {a} and device {b} have no access to each other: call aclrtDeviceEnablePeerAccess",
                task.name
            )));
        }
        // SAFETY: a range of ours was found mapped and long enough just now, and stays mapped for
        // the process; a foreign one is the user's word, as in any copy.
        let bytes = |span: &Span| unsafe { Bytes::new(span.address, span.bytes) };
        match task.body {
            Body::Copy => bytes(&task.writes[0]).copy_from(&bytes(&task.reads[0])),
            Body::Fill(value) => bytes(&task.writes[0]).fill(value),
            _ => unreachable!("only copies and fills are performed here"),
        }
        Ok(())
    }
}

/// Says what an address is, for error texts.
pub fn describe(address: usize, located: &Located) -> String {
    let of = |inside: &Inside| {
        let state = if inside.live { "" } else { ", freed" };
        format!(
            "the allocation {:#x} of {} bytes (offset {}{state})",
            inside.start,
            inside.bytes,
            address - inside.start
        )
    };
    match located {
        Located::Device(id, None) => format!("an address of device {id} without an allocation"),
        Located::Device(id, Some(inside)) => format!("{} on device {id}", of(inside)),
        Located::Pinned(None) => "an address of pinned host memory without an allocation".into(),
        Located::Pinned(Some(inside)) => format!("{} in pinned host memory", of(inside)),
        Located::Registered(inside) => {
            format!("the registered host range {:#x} of {} bytes", inside.start, inside.bytes)
        }
        Located::Foreign => "host memory that ACL does not know".into(),
    }
}

fn wrong_free(address: usize, located: Located, wanted: &str) -> Error {
    let reason = match &located {
        Located::Device(_, Some(inside)) | Located::Pinned(Some(inside)) if !inside.live => {
            "it was already freed".to_string()
        }
        _ => format!("it is {}", describe(address, &located)),
    };
    Error::refused(format!("{address:#x} is not the start of live {wanted}: {reason}"))
}
