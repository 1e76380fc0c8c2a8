//! A user's allocator as a maker of blocks. The acl descriptor and `ge::Allocator` are both this one type; a door
//! knows how each is called.
//!
//! ```text
//!  allocate   lock [ alloc ─> get address ─> checks ]    refused: lock [ free ]
//!  free       lock [ free ]
//! ```

use super::allocator::{Allocator, RawBlock};
use super::callback_lock::{CallbackLock, CallbackLocks, Visit};
use super::locate::{AddressInfo, describe};
use super::outstanding::{Outstanding, OutstandingBlock, Overlap};
use super::purpose::{Owner, Purpose};
use super::raw::Extent;
use super::request::Request;
use crate::error::{Code, Error, Result};
use crate::host::{self, HostThread};
use crate::record::event::{BlockFault, Callback, MemoryKind};
use crate::record::{Event, Kind};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::{Arc, now_ns, thread_local};
use crate::task::{Location, Span};
use std::any::Any;
use std::cell::Cell;

pub use cairn_record::entry::UserCall;

/// What the address of a block has to be a multiple of. CANN's documentation asks for 64, but its
/// own requests are multiples of 32: a pool that packs them is taken.
pub const ALIGNMENT: usize = 32;

/// Identifies an allocator of a user: equal ones are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The user's object.
    pub object: usize,
    /// The user's functions, in an order that the door chooses: the address of each and its context, 0 for
    /// none.
    pub functions: [[usize; 2]; 4],
}

/// A callback threw an exception; with its text where it had one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackException(pub String);

/// What a block of a user allocator reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its bytes.
    pub bytes: usize,
    /// Its reference count, the engine's included.
    pub reference_count: usize,
    /// The object that it goes back to.
    pub object: usize,
}

/// How a door calls a user allocator. Dropped, with no lock held, when nothing needs the
/// allocator any more.
pub trait UserAllocator: Any + Send + Sync {
    /// The object and its functions.
    fn identity(&self) -> Identity;

    /// True if it understands [`UserCall::Advise`].
    fn takes_advice(&self) -> bool;

    /// What a block that it gave reports; `None` where blocks report nothing.
    fn block_info(&self, block: usize) -> Option<BlockInfo> {
        let _ = block;
        None
    }

    /// Calls the user on this thread: the block or address, 0 for null. If the callback ends its
    /// thread, `on_exit` is called in its place and this never returns.
    fn call(
        &self,
        request: UserCall,
        on_exit: &dyn Fn(),
    ) -> std::result::Result<usize, CallbackException>;
}

/// A user allocator.
///
/// **Threads.** Callbacks run on the calling thread, under the callback lock of the user's object and
/// no lock; a thread inside a callback may call ACL, also to come here again. **Blocks** must lie in
/// live memory that this process got from ACL on the stream's device; anything else is refused when
/// the block is taken, and what was obtained goes back. **At exit**, once `main` has returned,
/// nothing is called.
pub struct External {
    user: Box<dyn UserAllocator>,
    lock: Arc<CallbackLock>,
    callback_locks: Arc<CallbackLocks>,
    outstanding: Arc<Outstanding>,
    shared: Arc<Shared>,
}

impl External {
    /// The allocator that the user's functions serve.
    pub fn new(
        user: Box<dyn UserAllocator>,
        callback_locks: Arc<CallbackLocks>,
        outstanding: Arc<Outstanding>,
        shared: Arc<Shared>,
    ) -> External {
        let lock = callback_locks.for_object(user.identity().object);
        External { user, lock, callback_locks, outstanding, shared }
    }

    /// The user's object and functions.
    pub fn identity(&self) -> Identity {
        self.user.identity()
    }

    /// The allocator as its door made it.
    pub fn user(&self) -> &dyn UserAllocator {
        &*self.user
    }

    /// Identifies this allocator among makers: [`OutstandingBlock::maker`].
    fn maker(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// A call of the user, as the callback lock sees it.
    fn visit(&self, request: UserCall, stream: Option<&Arc<Stream>>) -> Visit {
        let object = self.user.identity().object;
        Visit { object, request, stream: stream.map(|s| s.index) }
    }

    /// Calls the user under the callback lock.
    fn call(&self, request: UserCall, stream: Option<&Arc<Stream>>) -> Result<usize> {
        self.callback_locks.start_monitor();
        let visit = self.visit(request, stream);
        let on_exit = || {
            log::error!(
                "thread {} ended itself in {visit}; what it was in the middle of is lost, and it stays parked",
                HostThread::current().number()
            );
            self.callback_locks.abandon();
        };
        let result = self.lock.pass(visit, || match self.shared.exiting() {
            false => {
                let spine = &self.shared.spine;
                let began_ns = if spine.has_listener(Kind::Callback) { now_ns() } else { 0 };
                let result = host::in_callback(|| self.user.call(request, &on_exit));
                let Visit { object, stream, .. } = visit;
                let answer = result.as_ref().ok().copied();
                let callback = Callback { object, request, stream, answer, began_ns };
                spine.emit(Kind::Callback, || Event::Callback(&callback));
                Some(result)
            }
            true => None,
        });
        let result = result.ok_or_else(|| self.exiting_error())?;
        result.map_err(|CallbackException(text)| {
            let text = if text.is_empty() { text } else { format!(": {text}") };
            failure(format!("{visit} threw an exception{text}{}", no_device_hint()))
        })
    }

    fn emit_wrong(&self, block: usize, fault: BlockFault) {
        let object = self.user.identity().object;
        let emit = || Event::WrongBlock { object, block, fault };
        self.shared.spine.emit(Kind::WrongBlock, emit);
    }

    fn exiting_error(&self) -> Error {
        let text = format!("{} is not called any more: the process is exiting", self.name());
        Error::new(Code::RtInternal, text)
    }

    /// Gets a block from the user and checks it; runs under the callback lock.
    fn call_alloc(
        &self,
        request: UserCall,
        bytes: usize,
        stream: Option<&Arc<Stream>>,
        reason: Reason,
    ) -> Result<OutstandingBlock> {
        let visit = self.visit(request, stream);
        let block = self.call(request, stream)?;
        if block == 0 {
            return Err(failure(format!(
                "{visit} gave null; no other memory is taken in its place{}",
                no_device_hint()
            )));
        }
        if let Some(outstanding) = self.outstanding.find(self.maker(), block) {
            return Err(already_allocated(&visit, block, &outstanding));
        }
        let mut is_same_block = false;
        let info = self.user.block_info(block);
        if let Some(info) = info.filter(|info| info.object != visit.object) {
            self.emit_wrong(block, BlockFault::OfAnother(info.object));
        }
        let checked = check_block_info(&visit, block, bytes, info)
            .and_then(|()| self.call(UserCall::Address(block), stream))
            .and_then(|address| self.check_block(&visit, block, address, bytes, stream))
            .map(|outstanding| OutstandingBlock { reason, ..outstanding })
            .and_then(|outstanding| match self.outstanding.add(outstanding) {
                Ok(()) => Ok(outstanding),
                Err(Overlap::Block(other) | Overlap::Bytes(other)) => {
                    // The same block of the same object, through other functions: it goes back once.
                    is_same_block =
                        (other.object, other.block) == (outstanding.object, outstanding.block);
                    Err(overlap(&visit, &outstanding, &other))
                }
            });
        if checked.is_err()
            && !is_same_block
            && let Err(error) = self.call(UserCall::Free(block), stream)
        {
            log::error!("{}", error.text);
        }
        checked
    }

    /// Checks that a block lies in live memory of the right device.
    fn check_block(
        &self,
        visit: &Visit,
        block: usize,
        address: usize,
        bytes: usize,
        stream: Option<&Arc<Stream>>,
    ) -> Result<OutstandingBlock> {
        let error = |reason: String| {
            failure(format!("{visit} gave the block {block:#x} at {address:#x}, which {reason}"))
        };
        if address == 0 {
            return Err(failure(format!(
                "{visit} gave the block {block:#x}, whose address is null"
            )));
        }
        let info = self.shared.memory.enclosing(address);
        let (device, allocation) = match info {
            AddressInfo::Device(device, Some(allocation)) => (device, allocation),
            AddressInfo::Device(..) => {
                return Err(error(format!("is {}", describe(address, &info))));
            }
            _ => {
                let what = describe(address, &info);
                return Err(error(format!(
                    "is {what}: blocks have to lie in device memory from aclrtMalloc"
                )));
            }
        };
        if let Some(stream) = stream.filter(|s| s.spec.device != device) {
            return Err(error(format!(
                "is memory of device {device}, and the stream is on device {}",
                stream.spec.device
            )));
        }
        if !allocation.live {
            return Err(error(format!("was freed: it is {}", describe(address, &info))));
        }
        let left = allocation.start as u64 + allocation.bytes - address as u64;
        if bytes as u64 > left {
            return Err(error(format!(
                "is too short: {left} bytes are left of {}",
                describe(address, &info)
            )));
        }
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(error(format!(
                "is not a multiple of {ALIGNMENT}: align blocks to 64 bytes"
            )));
        }
        let (maker, object) = (self.maker(), self.user.identity().object);
        let (stream, reason) = (visit.stream, Reason::default());
        Ok(OutstandingBlock { maker, object, block, address, bytes, device, stream, reason })
    }
}

impl Allocator for External {
    fn name(&self) -> String {
        format!("the user's allocator {:#x}", self.user.identity().object)
    }

    /// The user is not called for 0 bytes: such a block has no address. `request.near` is passed on if the allocator takes
    /// advice; alignment and huge pages cannot be passed on.
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let stream = request.stream;
        let bytes = request.padded_bytes().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| {
            failure(format!("{}: {} bytes are more than there can be", self.name(), request.bytes))
        })?;
        if bytes == 0 {
            return Ok(RawBlock::new(0, 0, 0));
        }
        if self.shared.exiting() {
            return Err(self.exiting_error());
        }
        let near = request.near.filter(|_| self.user.takes_advice());
        let user_call = match near.and_then(|near| near.checked_sub(request.front as usize)) {
            Some(near) if near > 0 => UserCall::Advise(bytes, near),
            _ => UserCall::Alloc(bytes),
        };
        let reason = Reason { purpose: request.purpose, owner: request.owner };
        let outstanding = self.lock.pass(self.visit(user_call, stream), || {
            reason.during(|| self.call_alloc(user_call, bytes, stream, reason))
        })?;
        let address = outstanding.address + request.front as usize;
        Ok(RawBlock::new(address, request.bytes, outstanding.block))
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        if block.token == 0 {
            return Ok(());
        }
        if self.shared.exiting() {
            self.outstanding.remove(self.maker(), block.token);
            return Ok(());
        }
        let outstanding = self.outstanding.find(self.maker(), block.token);
        let reason = outstanding.map_or(Reason::default(), |outstanding| outstanding.reason);
        let request = UserCall::Free(block.token);
        self.lock.pass(self.visit(request, stream), || {
            self.outstanding.remove(self.maker(), block.token);
            if self.user.block_info(block.token).is_some_and(|info| info.reference_count == 0) {
                self.emit_wrong(block.token, BlockFault::FreedBefore);
            }
            reason.during(|| self.call(request, stream).map(drop))
        })
    }

    fn to_poison(&self, block: &RawBlock, _stream: &Stream) -> Option<Span> {
        if self.shared.exiting() {
            return None;
        }
        let outstanding = self.outstanding.find(self.maker(), block.token)?;
        Some(Span {
            address: outstanding.address,
            bytes: outstanding.bytes,
            location: Location::Device(outstanding.device),
        })
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.shared.memory.extent(address, bytes)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        let OutstandingBlock { device, object, block: token, .. } =
            self.outstanding.find(self.maker(), block.token)?;
        Some((MemoryKind::External { device, object, block: token }, block.bytes))
    }
}

/// Why a user allocator is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    /// What the memory is for.
    pub purpose: Purpose,
    /// Who it is for.
    pub owner: Owner,
}

thread_local! {
    static REASON: Cell<Option<Reason>> = const { Cell::new(None) };
}

/// Why a user allocator is being called on this thread; `None` outside such a call.
pub fn reason() -> Option<Reason> {
    REASON.with(Cell::get)
}

impl Reason {
    /// Runs `body` with this as the [`reason`] of the calling thread.
    fn during<T>(self, body: impl FnOnce() -> T) -> T {
        struct Restore(Option<Reason>);
        impl Drop for Restore {
            fn drop(&mut self) {
                REASON.with(|cell| cell.set(self.0));
            }
        }
        let _restore = Restore(REASON.with(|cell| cell.replace(Some(self))));
        body()
    }
}

/// Fails for a block that reports too few bytes, or no reference.
fn check_block_info(
    visit: &Visit,
    block: usize,
    bytes: usize,
    info: Option<BlockInfo>,
) -> Result<()> {
    match info {
        Some(BlockInfo { bytes: reported, .. }) if reported < bytes => Err(failure(format!(
            "{visit} gave the block {block:#x}, whose GetSize() says {reported} bytes; {bytes} were asked for"
        ))),
        Some(BlockInfo { reference_count: 0, .. }) => Err(failure(format!(
            "{visit} gave the block {block:#x}, whose GetCount() says 0: it would never go back. A block begins with a count of 1"
        ))),
        _ => Ok(()),
    }
}

/// What to add to the message when a callback fails on a thread that has no device: functions of ACL fail there.
fn no_device_hint() -> &'static str {
    match host::context() {
        0 => {
            "; this thread has no device, so ACL's functions fail inside the callback: call aclrtSetDevice on the thread that runs, loads or destroys the graph"
        }
        _ => "",
    }
}

fn failure(text: String) -> Error {
    Error::new(Code::GeFailure, text)
}

fn already_allocated(visit: &Visit, block: usize, outstanding: &OutstandingBlock) -> Error {
    failure(format!(
        "{visit} gave the block {block:#x}, which is already allocated ({} bytes at {:#x}); it goes back once, when that use ends",
        outstanding.bytes, outstanding.address
    ))
}

fn overlap(visit: &Visit, outstanding: &OutstandingBlock, other: &OutstandingBlock) -> Error {
    failure(format!(
        "{visit} gave the block {:#x} at {:#x}, which shares bytes with the block {:#x} of the allocator {:#x} ({} bytes at {:#x}) that is still out",
        outstanding.block,
        outstanding.address,
        other.block,
        other.object,
        other.bytes,
        other.address
    ))
}
