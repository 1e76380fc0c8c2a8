//! What the layers are put over in the tests.

use crate::support::{MIB, Rig};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::arena::Ask;
use cairn_runtime::memory::raw::Extent;
use cairn_runtime::memory::supply::{Block, Supply};
use cairn_runtime::shared::Shared;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Place, Span, Task};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A stream-ordered source: what is given back is taken again at once, so whoever takes it must do so
/// in the order of the stream. Carves one block of device memory.
pub struct Ordered {
    shared: Arc<Shared>,
    start: usize,
    room: Mutex<Room>,
}

struct Room {
    holes: Vec<(usize, usize)>,
    out: BTreeMap<usize, (usize, usize)>,
}

const SLAB: u64 = 4 * MIB;

impl Ordered {
    pub fn new(rig: &Rig) -> Ordered {
        let ask = Ask { align: 2 * MIB, ..Ask::bytes(SLAB) };
        let start = rig.shared.memory.allocate(0, ask).unwrap();
        let room = Room { holes: vec![(start, SLAB as usize)], out: BTreeMap::new() };
        Ordered { shared: rig.shared.clone(), start, room: Mutex::new(room) }
    }

    /// Blocks that are out.
    pub fn out(&self) -> usize {
        self.room.lock().unwrap().out.len()
    }
}

impl Supply for Ordered {
    fn name(&self) -> String {
        "a stream-ordered source".into()
    }

    fn take(&self, ask: &Ask, _: Option<&Arc<Stream>>) -> Result<Block> {
        let full = || Error::new(Code::MemoryAllocation, "out of memory in the slab");
        let whole = ask.whole().filter(|&whole| whole <= SLAB).ok_or_else(full)?;
        let need = whole.next_multiple_of(512) as usize;
        let align = ask.align as usize;
        let mut room = self.room.lock().unwrap();
        let fit = |&(at, bytes): &(usize, usize)| at.next_multiple_of(align) + need <= at + bytes;
        let index = room.holes.iter().rposition(fit).ok_or_else(full)?;
        let (at, bytes) = room.holes.remove(index);
        let (begin, end) = (at.next_multiple_of(align), at + bytes);
        let rest = [(at, begin - at), (begin + need, end - begin - need)];
        room.holes.extend(rest.into_iter().filter(|&(_, bytes)| bytes > 0));
        let address = begin + ask.front as usize;
        room.out.insert(address, (begin, need));
        Ok(Block { address, bytes: ask.bytes, token: begin, poison: None })
    }

    fn give(&self, block: Block, stream: Option<&Arc<Stream>>) -> Result<()> {
        let span =
            Span { address: block.address, bytes: block.bytes as usize, place: Place::Device(0) };
        let poison = block.poison.map(|value| Task::fill("poison", span, value));
        match (poison, stream) {
            (Some(task), Some(stream)) => stream.submit(task).map(drop),
            (Some(task), None) => self.shared.memory.perform(&task),
            (None, _) => Ok(()),
        }?;
        let mut room = self.room.lock().unwrap();
        let (begin, bytes) = room.out.remove(&block.address).expect("it is out");
        assert_eq!(block.token, begin, "layers hand the token on");
        room.holes.push((begin, bytes));
        if room.out.is_empty() {
            room.holes = vec![(self.start, SLAB as usize)];
        }
        Ok(())
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.shared.memory.extent(address, bytes)
    }
}

/// A source without any memory, which remembers what it was asked.
#[derive(Default)]
pub struct Paper {
    pub asked: Mutex<Vec<Ask>>,
    pub poisons: Mutex<Vec<Option<u8>>>,
}

impl Supply for Paper {
    fn name(&self) -> String {
        "paper".into()
    }

    fn take(&self, ask: &Ask, _: Option<&Arc<Stream>>) -> Result<Block> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(*ask);
        Ok(Block { address: asked.len() << 20, bytes: ask.bytes, token: 0, poison: None })
    }

    fn give(&self, block: Block, _: Option<&Arc<Stream>>) -> Result<()> {
        self.poisons.lock().unwrap().push(block.poison);
        Ok(())
    }
}
