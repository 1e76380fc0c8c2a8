//! The probe: an executor for tests of allocators (`cairn/probe.h`). It takes memory by the rules
//! that operators follow and does as little as possible with it.

use crate::abi::{self, CairnProbe, CairnProbeBlock};
use crate::door::{Handle, entry, not_null, runtime, write};
use cairn_exec::Target;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::soc;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Task};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The blocks that a probe keeps, behind a handle.
struct ProbeBlocks(Mutex<Vec<Block>>);

impl HandleObject for ProbeBlocks {
    const KIND: &'static str = "set of a probe's blocks";
}

/// How many bytes are requested for a block, 0 for none.
fn requested_bytes(block: &CairnProbeBlock, soc: &str) -> Result<u64> {
    let bytes = block.bytes as u64;
    match block.isWorkspace {
        0 => soc::padded_tensor_bytes(soc, bytes).ok_or_else(|| {
            Error::invalid(format!("a tensor of {bytes} bytes: there is no such memory"))
        }),
        _ => Ok(bytes),
    }
}

/// Takes every block; after a failure those that were taken go back.
fn take(target: &Target<'_>, blocks: &mut [CairnProbeBlock]) -> Result<Vec<Block>> {
    let mut blocks_out = Vec::new();
    for block in blocks {
        let bytes = requested_bytes(block, &target.runtime.shared.config.soc)?;
        if bytes == 0 {
            continue;
        }
        let near = Some(block.near as usize).filter(|&near| near != 0);
        let purpose = if block.isWorkspace == 0 { Purpose::Output } else { Purpose::Workspace };
        let request = Request::bytes(bytes).on(&target.stream).purpose(purpose, Owner::default());
        let taken = Block::allocate(target.allocator(), &Request { near, ..request })?;
        block.address = taken.address() as *mut c_void;
        block.asked = bytes as usize;
        blocks_out.push(taken);
    }
    Ok(blocks_out)
}

/// Queues the tasks that write a block and copy it on.
fn submit(stream: &Arc<Stream>, block: &CairnProbeBlock) -> Result<()> {
    if block.asked == 0 {
        return Ok(());
    }
    let location = Location::Device(stream.spec.device);
    let span = Span { address: block.address as usize, bytes: block.asked, location };
    stream.submit(Task::fill("cairnProbeExecute", span, block.value as u8))?;
    if !block.copyTo.is_null() {
        let from = Span { bytes: block.bytes, ..span };
        let to = Span {
            address: block.copyTo as usize,
            bytes: block.bytes,
            location: Location::AnyDevice,
        };
        stream.submit(Task::copy("cairnProbeExecute", from, to))?;
    }
    Ok(())
}

/// Gives every block back, also after one whose free callback failed; the first failure is reported.
fn give_back(blocks_out: impl IntoIterator<Item = Block>) -> Result<()> {
    blocks_out.into_iter().map(Block::free).fold(Ok(()), Result::and)
}

entry! {
    /// Takes blocks, queues tasks that write them, gives the blocks back.
    fn cairnProbeExecute(stream: Handle, probe: *mut abi::CairnProbe) {
        not_null(probe, "probe")?;
        // SAFETY: not null; the user passes a probe that nobody else uses during the call.
        let probe: &mut CairnProbe = unsafe { &mut *probe };
        probe.kept = null_mut();
        let blocks: &mut [CairnProbeBlock] = match probe.count {
            0 => &mut [],
            _ => {
                not_null(probe.blocks, "probe->blocks")?;
                // SAFETY: not null; the user says that there are this many.
                unsafe { std::slice::from_raw_parts_mut(probe.blocks, probe.count) }
            }
        };
        for block in &mut *blocks {
            (block.address, block.asked) = (null_mut(), 0);
        }
        let runtime = runtime()?;
        let found = runtime.stream(stream as usize)?;
        let target = Target::registered(runtime, found, Domain::Acl, stream as usize);
        let blocks_out = take(&target, blocks)?;
        let submitted = blocks.iter().try_for_each(|block| submit(&target.stream, block));
        if probe.keep != 0 && submitted.is_ok() {
            probe.kept = runtime.handles.insert(Arc::new(ProbeBlocks(Mutex::new(blocks_out))))? as Handle;
            return Ok(());
        }
        submitted.and(give_back(blocks_out))
    }

    /// Takes one block from the allocator that the user registered.
    fn cairnProbeTake(
        stream: Handle,
        domain: abi::CairnProbeDomain,
        bytes: usize,
        near: Handle,
        address: *mut Handle,
        kept: *mut Handle,
    ) {
        // SAFETY: the user passes pointers to variables of its own.
        unsafe {
            write(address, "address", null_mut())?;
            write(kept, "kept", null_mut())?;
        }
        let domain = match domain {
            abi::CAIRN_PROBE_ACL => Domain::Acl,
            abi::CAIRN_PROBE_GE => Domain::Ge,
            other => return Err(Error::invalid(format!("the argument domain is {other}: it is 0 or 1"))),
        };
        let runtime = runtime()?;
        let found = runtime.stream(stream as usize)?;
        let target = Target::registered(runtime, found, domain, stream as usize);
        if !target.is_external() {
            return Err(Error::invalid("no allocator is registered on the stream"));
        }
        let near = Some(near as usize).filter(|&near| near != 0);
        let request = Request::bytes(bytes as u64).on(&target.stream);
        let request = request.purpose(Purpose::Workspace, Owner::default());
        let block = Block::allocate(target.allocator(), &Request { near, ..request })?;
        let at = block.address();
        let blocks = Arc::new(ProbeBlocks(Mutex::new(vec![block])));
        let handle = runtime.handles.insert(blocks)? as Handle;
        // SAFETY: as above.
        unsafe {
            write(kept, "kept", handle)?;
            write(address, "address", at as Handle)
        }
    }

    /// Gives back what a probe kept.
    fn cairnProbeGiveBack(kept: Handle) {
        not_null(kept, "kept")?;
        let kept = runtime()?.handles.remove::<ProbeBlocks>(kept as usize)?;
        let blocks_out = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        give_back(blocks_out)
    }
}
