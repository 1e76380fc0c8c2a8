//! The check of addresses that tasks touch, and copies and fills.

use super::Memory;
use super::locate::{AddressBlock, AddressInfo, BlockKind, describe};
use super::raw::{self, Bytes, Use};
use super::vmm::Place;
use crate::error::{Error, Result};
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
    fn is_mapped_for(&self, device: u32, address: usize, block: Option<&AddressBlock>) -> bool {
        block.is_some_and(|block| block.kind == BlockKind::Mapped)
            && self.vmm.access(address, Place::Device(device)) == Some(true)
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
        let info = self.enclosing(span.address);
        let no_access = match (&info, span.location) {
            (AddressInfo::Device(id, block), Location::Device(device)) => self
                .no_peer_access(device, *id)
                .filter(|_| !self.is_mapped_for(device, span.address, block.as_ref())),
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

    /// Checks and runs a copy or fill, on the worker or, for the synchronous calls, on the caller.
    pub fn perform(&self, task: &Task) -> Result<()> {
        let mut spans = task.reads.iter().chain(&task.writes);
        let _copy =
            spans.any(|span| self.vmm.contains(span.address)).then(|| self.vmm.begin_copy());
        for span in &task.reads {
            self.check(task.name, || "source", span, Use::Read)?;
        }
        for span in &task.writes {
            self.check(task.name, || "destination", span, Use::Overwrite)?;
        }
        if let (Body::Copy, [from, ..], [to, ..]) = (&task.body, &task.reads[..], &task.writes[..])
            && let (AddressInfo::Device(a, _), AddressInfo::Device(b, _)) =
                (self.enclosing(from.address), self.enclosing(to.address))
            && let Some(reason) = self.no_peer_access(a, b)
            && ![(a, to), (b, from)].iter().any(|(device, span)| {
                self.vmm.contains(span.address)
                    && self.vmm.access(span.address, Place::Device(*device)) == Some(true)
            })
        {
            return Err(Error::refused(format!("{}: {reason}", task.name)));
        }
        // SAFETY: a range of ours was found mapped and long enough just now, and stays mapped for
        // the process; for a foreign one the user vouches, as in any copy.
        let bytes = |span: &Span| unsafe { Bytes::new(span.address, span.bytes) };
        match task.body {
            Body::Copy => bytes(&task.writes[0]).copy_from(&bytes(&task.reads[0])),
            Body::Fill(value) => bytes(&task.writes[0]).fill(value),
            _ => unreachable!("only copies and fills are performed here"),
        }
        Ok(())
    }
}
