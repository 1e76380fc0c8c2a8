//! Small buffers of all ranks, brought together in as few steps as possible.

use super::{FLAT_RANKS, PASS_ON_BYTES};
use crate::links::{Failure, First, Links};
use cairn_tensor::kernels::buffers::copy_bytes;
use cairn_tensor::parallel::SingleThread;
use smallvec::SmallVec;
use std::cell::Cell;

/// The buffers of all ranks in one piece of memory.
pub(super) struct Blocks<'a> {
    memory: &'a [Cell<u8>],
    bytes: usize,
    /// The rank whose buffer comes first; the others follow in order, the last before the first.
    first: u32,
}

impl<'a> Blocks<'a> {
    fn of(&self, rank: u32, size: u32) -> &'a [Cell<u8>] {
        let at = ((rank + size - self.first) % size) as usize;
        &self.memory[at * self.bytes..][..self.bytes]
    }
}

/// Whether buffers of so many bytes are passed on from rank to rank.
pub(super) fn passes_on(bytes: usize, size: u32) -> bool {
    size > FLAT_RANKS && bytes <= PASS_ON_BYTES
}

/// The buffers of all ranks in rank order; this rank's own is `own`.
pub(super) fn in_rank_order<'a>(
    links: &Links<'_>,
    blocks: &Blocks<'a>,
    own: &'a [Cell<u8>],
) -> SmallVec<[&'a [Cell<u8>]; 8]> {
    let block = |rank| if rank == links.rank { own } else { blocks.of(rank, links.size) };
    (0..links.size).map(block).collect()
}

/// Brings the buffers of all ranks to all: in one step between few, else each passes on what it has, twice as much in
/// each step. `memory` has room for all.
pub(super) fn gather<'a>(
    links: &Links<'a>,
    own: &'a [Cell<u8>],
    memory: &'a [Cell<u8>],
) -> Result<Blocks<'a>, Failure> {
    let (rank, size, bytes) = (links.rank, links.size, own.len());
    if size <= FLAT_RANKS {
        let blocks = Blocks { memory, bytes, first: 0 };
        let sends: SmallVec<[First<'_>; 8]> =
            links.peers().map(|peer| links.first(peer, own)).collect();
        let receive = |peer| links.first(peer, blocks.of(peer, size));
        let receives: SmallVec<[First<'_>; 8]> = links.peers().map(receive).collect();
        links.open(&sends, &receives)?;
        return Ok(blocks);
    }
    copy_bytes(&SingleThread, &memory[..bytes], own);
    let mut have = 1;
    while have < size {
        let count = have.min(size - have) as usize;
        let send = links.first((rank + size - have) % size, &memory[..count * bytes]);
        let to = &memory[have as usize * bytes..][..count * bytes];
        links.open(&[send], &[links.first((rank + have) % size, to)])?;
        have += count as u32;
    }
    Ok(Blocks { memory, bytes, first: rank })
}

/// Brings the buffers of all ranks to the root; `None` elsewhere.
pub(super) fn gather_at<'a>(
    links: &Links<'a>,
    root: u32,
    own: &'a [Cell<u8>],
    memory: &'a [Cell<u8>],
) -> Result<Option<Blocks<'a>>, Failure> {
    if links.rank != root {
        links.open(&[links.first(root, own)], &[])?;
        return Ok(None);
    }
    let blocks = Blocks { memory, bytes: own.len(), first: 0 };
    let receive = |peer| links.first(peer, blocks.of(peer, links.size));
    let receives: SmallVec<[First<'_>; 8]> = links.peers().map(receive).collect();
    links.open(&[], &receives)?;
    Ok(Some(blocks))
}
