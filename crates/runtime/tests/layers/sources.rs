//! The allocators that the tests put layers over.

use crate::support::{MIB, TestRuntime};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::allocator::{Allocator, RawBlock};
use cairn_runtime::memory::external::{CallbackException, Identity, UserAllocator, UserCall};
use cairn_runtime::memory::raw::Extent;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::shared::Shared;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Task};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const SLAB: u64 = 4 * MIB;

/// One block of device memory from which blocks are allocated; freed ones are reused at once.
struct Slab {
    start: usize,
    holes: Vec<(usize, usize)>,
    /// Live blocks: address to bytes.
    live: BTreeMap<usize, usize>,
}

impl Slab {
    fn new(runtime: &TestRuntime) -> Slab {
        let request = Request { align: 2 * MIB, ..Request::bytes(SLAB) };
        let start = runtime.shared.memory.allocate(0, request).unwrap();
        Slab { start, holes: vec![(start, SLAB as usize)], live: BTreeMap::new() }
    }

    fn allocate(&mut self, bytes: u64, align: usize) -> Option<usize> {
        let need = (bytes <= SLAB).then(|| bytes.next_multiple_of(512) as usize)?;
        let fits =
            |&(hole, bytes): &(usize, usize)| hole.next_multiple_of(align) + need <= hole + bytes;
        let index = self.holes.iter().rposition(fits)?;
        let (hole, bytes) = self.holes.remove(index);
        let (start, end) = (hole.next_multiple_of(align), hole + bytes);
        let rest = [(hole, start - hole), (start + need, end - start - need)];
        self.holes.extend(rest.into_iter().filter(|&(_, bytes)| bytes > 0));
        self.live.insert(start, need);
        Some(start)
    }

    fn free(&mut self, start: usize) {
        let bytes = self.live.remove(&start).expect("it is out");
        self.holes.push((start, bytes));
        if self.live.is_empty() {
            self.holes = vec![(self.start, SLAB as usize)];
        }
    }
}

/// A simple stream-ordered allocator: a block must be used in the order of the stream.
pub struct OrderedAllocator {
    shared: Arc<Shared>,
    slab: Mutex<Slab>,
}

impl OrderedAllocator {
    pub fn new(runtime: &TestRuntime) -> OrderedAllocator {
        OrderedAllocator { shared: runtime.shared.clone(), slab: Mutex::new(Slab::new(runtime)) }
    }

    /// How many blocks are live.
    pub fn live_blocks(&self) -> usize {
        self.slab.lock().unwrap().live.len()
    }
}

impl Allocator for OrderedAllocator {
    fn name(&self) -> String {
        "a stream-ordered source".into()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let out_of_memory = || Error::new(Code::MemoryAllocation, "out of memory in the slab");
        let bytes = request.padded_bytes().ok_or_else(out_of_memory)?;
        let mut slab = self.slab.lock().unwrap();
        let start = slab.allocate(bytes, request.align as usize).ok_or_else(out_of_memory)?;
        let address = start + request.front as usize;
        Ok(RawBlock::new(address, request.bytes, start))
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        let span = Span {
            address: block.address,
            bytes: block.bytes as usize,
            location: Location::Device(0),
        };
        if let (Some(value), Some(stream)) = (block.poison, stream) {
            let _ = stream.submit(Task::fill("poison", span, value));
        }
        self.slab.lock().unwrap().free(block.token);
        Ok(())
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.shared.memory.extent(address, bytes)
    }
}

/// A user's allocator over a block of device memory. The handles of its blocks are their addresses.
#[derive(Clone)]
pub struct UserSlab(Arc<Mutex<Slab>>);

/// What stands for the user's object.
pub const USERS_OBJECT: usize = 0x1234;
/// What the addresses of the user's blocks are multiples of.
const USERS_ALIGNMENT: usize = 8192;

impl UserSlab {
    pub fn new(runtime: &TestRuntime) -> UserSlab {
        UserSlab(Arc::new(Mutex::new(Slab::new(runtime))))
    }

    /// Registers it on a stream; without layers, which the tests put over it themselves.
    pub fn register(&self, runtime: &TestRuntime, handle: usize) -> Arc<dyn Allocator> {
        let stream = runtime.handles.get::<Stream>(handle).unwrap();
        let user = Box::new(self.clone());
        runtime.allocators.register(Domain::Acl, handle, &stream, 0, user).unwrap();
        runtime.allocators.registration(Domain::Acl, handle).unwrap().external
    }

    /// How many blocks are live.
    pub fn live_blocks(&self) -> usize {
        self.0.lock().unwrap().live.len()
    }
}

impl UserAllocator for UserSlab {
    fn identity(&self) -> Identity {
        Identity { object: USERS_OBJECT, functions: [[1, 0], [2, 0], [0, 0], [4, 0]] }
    }

    fn takes_advice(&self) -> bool {
        false
    }

    fn call(
        &self,
        request: UserCall,
        _: &dyn Fn(),
    ) -> std::result::Result<usize, CallbackException> {
        let mut slab = self.0.lock().unwrap();
        Ok(match request {
            UserCall::Alloc(bytes) | UserCall::Advise(bytes, _) => {
                slab.allocate(bytes as u64, USERS_ALIGNMENT).unwrap_or(0)
            }
            UserCall::Address(block) => block,
            UserCall::Free(block) => {
                slab.free(block);
                0
            }
        })
    }
}

/// An allocator without memory, which records requests and poison values.
#[derive(Default)]
pub struct MockAllocator {
    pub requests: Mutex<Vec<Request<'static>>>,
    pub poisons: Mutex<Vec<Option<u8>>>,
}

impl Allocator for MockAllocator {
    fn name(&self) -> String {
        "mock".into()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let mut requests = self.requests.lock().unwrap();
        let Request { bytes, front, back, .. } = *request;
        requests.push(Request { front, back, ..Request::bytes(bytes) });
        Ok(RawBlock::new(requests.len() << 20, request.bytes, 0))
    }

    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        self.poisons.lock().unwrap().push(block.poison);
        Ok(())
    }
}
