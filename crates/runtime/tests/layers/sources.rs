//! What the layers are put over in the tests.

use crate::support::{MIB, Rig};
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

/// One block of device memory, carved. What is given back is taken again at once.
struct Slab {
    start: usize,
    holes: Vec<(usize, usize)>,
    out: BTreeMap<usize, usize>,
}

impl Slab {
    fn new(rig: &Rig) -> Slab {
        let request = Request { align: 2 * MIB, ..Request::bytes(SLAB) };
        let start = rig.shared.memory.allocate(0, request).unwrap();
        Slab { start, holes: vec![(start, SLAB as usize)], out: BTreeMap::new() }
    }

    fn take(&mut self, bytes: u64, align: usize) -> Option<usize> {
        let need = (bytes <= SLAB).then(|| bytes.next_multiple_of(512) as usize)?;
        let fit = |&(at, bytes): &(usize, usize)| at.next_multiple_of(align) + need <= at + bytes;
        let index = self.holes.iter().rposition(fit)?;
        let (at, bytes) = self.holes.remove(index);
        let (begin, end) = (at.next_multiple_of(align), at + bytes);
        let rest = [(at, begin - at), (begin + need, end - begin - need)];
        self.holes.extend(rest.into_iter().filter(|&(_, bytes)| bytes > 0));
        self.out.insert(begin, need);
        Some(begin)
    }

    fn give(&mut self, begin: usize) {
        let bytes = self.out.remove(&begin).expect("it is out");
        self.holes.push((begin, bytes));
        if self.out.is_empty() {
            self.holes = vec![(self.start, SLAB as usize)];
        }
    }
}

/// A stream-ordered source, as simple as can be: whoever takes a block must use it in the order of the
/// stream.
pub struct OrderedAllocator {
    shared: Arc<Shared>,
    slab: Mutex<Slab>,
}

impl OrderedAllocator {
    pub fn new(rig: &Rig) -> OrderedAllocator {
        OrderedAllocator { shared: rig.shared.clone(), slab: Mutex::new(Slab::new(rig)) }
    }

    /// Blocks that are out.
    pub fn out(&self) -> usize {
        self.slab.lock().unwrap().out.len()
    }
}

impl Allocator for OrderedAllocator {
    fn name(&self) -> String {
        "a stream-ordered source".into()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let full = || Error::new(Code::MemoryAllocation, "out of memory in the slab");
        let whole = request.whole().ok_or_else(full)?;
        let mut slab = self.slab.lock().unwrap();
        let begin = slab.take(whole, request.align as usize).ok_or_else(full)?;
        let address = begin + request.front as usize;
        Ok(RawBlock::new(address, request.bytes, begin))
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
        self.slab.lock().unwrap().give(block.token);
        Ok(())
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.shared.memory.extent(address, bytes)
    }
}

/// An allocator of a user over a block of device memory. Its blocks are their addresses.
#[derive(Clone)]
pub struct UserSlab(Arc<Mutex<Slab>>);

/// What stands for the user's object.
pub const USERS_OBJECT: usize = 0x1234;
/// What the addresses of the user's blocks are multiples of.
const USERS_ALIGNMENT: usize = 8192;

impl UserSlab {
    pub fn new(rig: &Rig) -> UserSlab {
        UserSlab(Arc::new(Mutex::new(Slab::new(rig))))
    }

    /// Registers it on a stream; without layers, which the tests put over it themselves.
    pub fn register(&self, rig: &Rig, handle: usize) -> Arc<dyn Allocator> {
        let stream = rig.handles.get::<Stream>(handle).unwrap();
        let user = Box::new(self.clone());
        rig.allocators.register(Domain::Acl, handle, &stream, 0, user).unwrap();
        rig.allocators.registration(Domain::Acl, handle).unwrap().external
    }

    /// Blocks that are out.
    pub fn out(&self) -> usize {
        self.0.lock().unwrap().out.len()
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
                slab.take(bytes as u64, USERS_ALIGNMENT).unwrap_or(0)
            }
            UserCall::Address(block) => block,
            UserCall::Free(block) => {
                slab.give(block);
                0
            }
        })
    }
}

/// A source without any memory, which remembers what it was asked.
#[derive(Default)]
pub struct MockAllocator {
    pub asked: Mutex<Vec<Request<'static>>>,
    pub poisons: Mutex<Vec<Option<u8>>>,
}

impl Allocator for MockAllocator {
    fn name(&self) -> String {
        "mock".into()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let mut asked = self.asked.lock().unwrap();
        let Request { bytes, front, back, .. } = *request;
        asked.push(Request { front, back, ..Request::bytes(bytes) });
        Ok(RawBlock::new(asked.len() << 20, request.bytes, 0))
    }

    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        self.poisons.lock().unwrap().push(block.poison);
        Ok(())
    }
}
