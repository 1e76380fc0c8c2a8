//! The check of addresses that tasks touch, and copies and fills.

use super::Memory;
use super::locate::{AddressBlock, AddressInfo, BlockKind, describe};
use super::raw::{self, Bytes, Use};
use super::vmm::{Place, View};
use crate::clock::Epoch;
use crate::error::{Error, Result};
use crate::host;
use crate::sync::atomic::Ordering;
use crate::task::{Body, Location, Span, Task};

impl Memory {
    /// Gives `device` access to the memory of `peer`, or takes it away. False if it was so already.
    pub fn set_peer(&self, device: u32, peer: u32, has_access: bool) -> bool {
        let bit = 1 << peer;
        let cell = &self.peers[device as usize];
        let before = match has_access {
            true => cell.fetch_or(bit, Ordering::AcqRel),
            false => cell.fetch_and(!bit, Ordering::AcqRel),
        };
        (before & bit != 0) != has_access
    }

    /// True if `device` has access to the memory of `peer`.
    pub fn is_peer(&self, device: u32, peer: u32) -> bool {
        device == peer || self.peers[device as usize].load(Ordering::Acquire) & (1 << peer) != 0
    }

    /// Why one task cannot touch memory of both devices; `None` if one has access to the other.
    fn no_peer_access(&self, device: u32, other: u32) -> Option<String> {
        (!self.is_peer(device, other) && !self.is_peer(other, device)).then(|| {
            format!(
                "device {device} has no peer access to device {other}: call aclrtDeviceEnablePeerAccess"
            )
        })
    }

    /// True if `aclrtMemSetAccess` gave a device access to mapped memory of another.
    fn is_mapped_for(
        view: &View<'_>,
        device: u32,
        address: usize,
        block: Option<&AddressBlock>,
    ) -> bool {
        block.is_some_and(|block| block.kind == BlockKind::Mapped)
            && view.access(address, Place::Device(device)) == Some(true)
    }

    /// What a task finds at the start of a range.
    fn seen(&self, view: &View<'_>, span: &Span) -> AddressInfo {
        match view.old_run(span) {
            Some((Place::Device(device), block)) => AddressInfo::Device(device, Some(block)),
            Some((Place::Host, block)) => AddressInfo::Pinned(Some(block)),
            None => self.enclosing(span.address),
        }
    }

    /// Checks that a task, or without an epoch a thread of the program, may touch its ranges; the error names task, argument,
    /// address and what is there. They stay as they are while the view lives. `argument` names the range at an index of
    /// the reads or writes.
    pub fn view<'a>(
        &self,
        task: &Task,
        epoch: Option<Epoch>,
        argument: impl Fn(Use, usize) -> &'a str,
    ) -> Result<View<'_>> {
        let mut view = self.vmm.view(epoch, &task.reads, &task.writes)?;
        let check_all = |view: &View<'_>| {
            for (purpose, spans) in [(Use::Read, &task.reads), (Use::Overwrite, &task.writes)] {
                for (index, span) in spans.iter().enumerate() {
                    self.check(view, task.name, || argument(purpose, index), span, purpose)?;
                }
            }
            Ok(())
        };
        let mut checked = check_all(&view);
        if checked.is_err() && view.may_be_late() {
            view.look_back(&task.reads, &task.writes)?;
            checked = check_all(&view);
        }
        checked.map(|()| view)
    }

    fn check<'a>(
        &self,
        view: &View<'_>,
        task: &str,
        argument: impl Fn() -> &'a str,
        span: &Span,
        purpose: Use,
    ) -> Result<()> {
        if span.bytes == 0 {
            return Ok(());
        }
        let info = self.seen(view, span);
        let no_access = match (&info, span.location) {
            (AddressInfo::Device(id, block), Location::Device(device)) => self
                .no_peer_access(device, *id)
                .filter(|_| !Memory::is_mapped_for(view, device, span.address, block.as_ref())),
            _ => None,
        };
        let refusal = match (&info, span.location) {
            _ if no_access.is_some() => no_access.unwrap_or_default(),
            (AddressInfo::Device(..), Location::Host) => {
                "that is device memory: expected host memory".into()
            }
            (
                AddressInfo::Pinned(_) | AddressInfo::Foreign,
                Location::Device(_) | Location::AnyDevice,
            ) => {
                format!("that is {}: expected device memory", describe(span.address, &info))
            }
            (AddressInfo::Registered(_), _)
                if !raw::is_accessible(span.address, span.bytes, purpose) =>
            {
                "it is registered, but no such memory is there, or it is read-only".into()
            }
            (AddressInfo::Foreign, _) if raw::is_accessible(span.address, span.bytes, purpose) => {
                return Ok(());
            }
            (AddressInfo::Foreign, _) => match purpose {
                Use::Read => "no memory is there".into(),
                Use::Overwrite => "no memory is there, or it is read-only".into(),
            },
            (AddressInfo::Device(_, None) | AddressInfo::Pinned(None), _) => {
                "no allocation is there".into()
            }
            (AddressInfo::Unmapped, _) => {
                "nothing is mapped there, or no device has access to it".into()
            }
            (
                AddressInfo::Device(_, Some(block))
                | AddressInfo::Pinned(Some(block))
                | AddressInfo::Registered(block),
                _,
            ) => {
                let end = block.start as u64 + block.bytes;
                if span.bytes as u64 <= end - span.address as u64 {
                    if !block.live {
                        log::debug!("{task}: {} {span} was freed before it was used", argument());
                    }
                    return Ok(());
                }
                format!("it leaves {}", describe(span.address, &self.locate(span.address)))
            }
        };
        Err(Error::refused(format!(
            "{task}: the {} range {:#x} of {} bytes cannot be used: {refusal}",
            argument(),
            span.address,
            span.bytes
        )))
    }

    /// What a thread of the program is about to write, or to share, is not replaced by pages that a stream has yet to move there.
    pub(super) fn overtake_moves(&self, address: usize, bytes: u64) {
        if self.devices.iter().all(|arena| arena.moves.load(Ordering::SeqCst) == 0) {
            return;
        }
        if let Some(pool) = self.pool_at(address)
            && let Some(start) = pool.arena().offset(address)
        {
            pool.segments().moves().overtake(&(start..start.saturating_add(bytes)));
        }
    }

    /// Checks and runs a copy or fill on this thread: one of the program, or one that runs a task of which this is a part.
    pub fn perform(&self, task: &Task) -> Result<()> {
        self.perform_as(task, host::task())
    }

    /// The same for the task with this epoch.
    pub fn perform_as(&self, task: &Task, epoch: Option<Epoch>) -> Result<()> {
        let argument = |purpose, _| match purpose {
            Use::Read => "source",
            Use::Overwrite => "destination",
        };
        if epoch.is_none() {
            for span in &task.writes {
                self.overtake_moves(span.address, span.bytes as u64);
            }
        }
        let view = self.view(task, epoch, argument)?;
        if let (Body::Copy, [from, ..], [to, ..]) = (&task.body, &task.reads[..], &task.writes[..])
            && let (AddressInfo::Device(a, _), AddressInfo::Device(b, _)) =
                (self.seen(&view, from), self.seen(&view, to))
            && let Some(reason) = self.no_peer_access(a, b)
            && ![(a, to), (b, from)].iter().any(|(device, span)| {
                self.vmm.contains(span.address)
                    && view.access(span.address, Place::Device(*device)) == Some(true)
            })
        {
            return Err(Error::refused(format!("{}: {reason}", task.name)));
        }
        let (reads, writes) = (view.places(&task.reads), view.places(&task.writes));
        let (reads, writes) =
            (reads.as_ref().unwrap_or(&task.reads), writes.as_ref().unwrap_or(&task.writes));
        // SAFETY: a range of ours was found mapped and long enough just now, and stays mapped while the
        // view lives; for a foreign one the user vouches, as in any copy.
        let bytes = |span: &Span| unsafe { Bytes::new(span.address, span.bytes) };
        match task.body {
            Body::Copy => bytes(&writes[0]).copy_from(&bytes(&reads[0])),
            Body::Fill(value) => bytes(&writes[0]).fill(value),
            _ => unreachable!("only copies and fills are performed here"),
        }
        Ok(())
    }
}
