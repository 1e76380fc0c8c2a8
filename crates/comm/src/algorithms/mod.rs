//! How operators are made of exchanges: every rank runs the same steps on its own buffers.
//!
//! Reductions of all algorithms are in rank order with one rounding at the end, whatever the number of bytes: results are
//! the same bits on all ranks and in every run.

mod gather;
mod messages;
mod pieces;
mod spread;

use crate::links::{Failure, Links};
use crate::plan::{Action, Piece, Pieces, Plan, Position};
use cairn_tensor::kernels::buffers::{copy_bytes, fold_buffers};
use cairn_tensor::parallel::Parallel;
use smallvec::SmallVec;
use std::cell::Cell;

/// Bytes of all pieces that are in progress at a time: they stay in a cache.
const CHUNK: usize = 512 << 10;
/// Up to so many bytes every rank sends its whole buffer to every other.
pub(crate) const FLAT_BYTES: usize = 8 << 10;
/// Up to so many ranks; more pass buffers on in a logarithmic number of steps.
const FLAT_RANKS: u32 = 8;
/// Up to so many bytes of each rank buffers are passed on.
const PASS_ON_BYTES: usize = 512;
/// Scratch that a task has without asking for it.
pub(crate) const LOCAL_SCRATCH: usize = 2048;

/// The memory of an operator on this rank.
pub(crate) struct Buffers<'a> {
    pub reads: SmallVec<[&'a [Cell<u8>]; 4]>,
    pub writes: SmallVec<[&'a [Cell<u8>]; 4]>,
    pub scratch: &'a [Cell<u8>],
    pub parallel: &'a dyn Parallel,
}

impl<'a> Buffers<'a> {
    fn read(&self, piece: Piece) -> &'a [Cell<u8>] {
        part(&self.reads, piece)
    }

    fn write(&self, piece: Piece) -> &'a [Cell<u8>] {
        part(&self.writes, piece)
    }

    fn copy(&self, to: &[Cell<u8>], from: &[Cell<u8>]) {
        copy_bytes(self.parallel, to, from);
    }
}

fn part<'a>(buffers: &[&'a [Cell<u8>]], piece: Piece) -> &'a [Cell<u8>] {
    match piece.bytes {
        0 => &[],
        bytes => &buffers[piece.span][piece.start..piece.start + bytes],
    }
}

/// How a reduction of so many bytes is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Every rank has the buffers of all.
    Gathered,
    /// Every rank reduces a piece.
    InPieces,
}

fn way(bytes: usize, size: u32) -> Way {
    let most = if size <= FLAT_RANKS { FLAT_BYTES } else { PASS_ON_BYTES };
    if bytes <= most { Way::Gathered } else { Way::InPieces }
}

/// Bytes of a piece that are reduced at a time; a multiple of every element's size.
pub(crate) fn chunk_bytes(size: u32, buffer_bytes: u64) -> usize {
    let most = usize::try_from(buffer_bytes).unwrap_or(usize::MAX).min(CHUNK * 4);
    (most / size.max(1) as usize).clamp(64, CHUNK) & !63
}

/// Bytes of scratch memory that a plan needs; 0 where the task's own suffice.
pub(crate) fn scratch_bytes(plan: &Plan, position: &Position) -> usize {
    let size = position.size as usize;
    let chunk = chunk_bytes(position.size, position.buffer_bytes);
    let bytes = match &plan.action {
        _ if size == 1 => 0,
        Action::AllReduce(_) => match way(plan.reads[0].bytes, position.size) {
            Way::Gathered => size * plan.reads[0].bytes,
            Way::InPieces => (size - 1) * chunk.min(pieces::even_piece_bytes(&plan.reads, size)),
        },
        Action::Reduce { .. } => match way(plan.reads[0].bytes, position.size) {
            Way::Gathered => size * plan.reads[0].bytes,
            Way::InPieces => size * chunk.min(pieces::even_piece_bytes(&plan.reads, size)),
        },
        Action::ReduceScatter { pieces, .. } => {
            (size - 1) * chunk.min(pieces.of(position.rank).bytes)
        }
        Action::AllGather { pieces: Pieces::Equal(bytes) }
            if gather::passes_on(*bytes, position.size) =>
        {
            size * bytes
        }
        _ => 0,
    };
    if bytes <= LOCAL_SCRATCH { 0 } else { bytes }
}

/// Runs an action that involves this rank alone.
pub(crate) fn run_alone(action: &Action, buffers: &Buffers<'_>) {
    match action {
        Action::Broadcast { .. } | Action::Barrier => {}
        Action::Messages(list) => messages::copy_own(list, 0, buffers),
        Action::AllToAll { sends, receives } => {
            buffers.copy(buffers.write(receives.of(0)), buffers.read(sends.of(0)));
        }
        Action::ReduceScatter { pieces, .. } => {
            buffers.copy(buffers.writes[0], buffers.read(pieces.of(0)));
        }
        Action::AllGather { pieces } => {
            buffers.copy(buffers.write(pieces.of(0)), buffers.reads[0]);
        }
        Action::AllReduce(_) | Action::Reduce { .. } | Action::Scatter { .. } => {
            buffers.copy(buffers.writes[0], buffers.reads[0]);
        }
    }
}

/// Runs an action with the other ranks.
pub(crate) fn run(
    action: &Action,
    links: &Links<'_>,
    buffers: &Buffers<'_>,
    buffer_bytes: u64,
) -> Result<(), Failure> {
    let chunk = chunk_bytes(links.size, buffer_bytes);
    let own = |pieces: &Pieces| pieces.of(links.rank);
    match action {
        Action::AllReduce(reducer) => {
            let (send, out) = (buffers.reads[0], buffers.writes[0]);
            match way(send.len(), links.size) {
                Way::Gathered => {
                    let blocks = gather::gather(links, send, buffers.scratch)?;
                    let inputs = gather::in_rank_order(links, &blocks, send);
                    fold_buffers(buffers.parallel, reducer.fold, reducer.buffer_type, &inputs, out);
                    Ok(())
                }
                Way::InPieces => {
                    let pieces = pieces::even(send.len(), links.size);
                    let spread = pieces::Spread::All(out);
                    pieces::reduce(links, buffers, *reducer, &pieces, spread, chunk)
                }
            }
        }
        Action::Reduce { reducer, root } => match way(buffers.reads[0].len(), links.size) {
            Way::Gathered => {
                let send = buffers.reads[0];
                let Some(blocks) = gather::gather_at(links, *root, send, buffers.scratch)? else {
                    return Ok(());
                };
                let inputs = gather::in_rank_order(links, &blocks, send);
                let out = buffers.writes[0];
                fold_buffers(buffers.parallel, reducer.fold, reducer.buffer_type, &inputs, out);
                Ok(())
            }
            Way::InPieces => {
                let pieces = pieces::even(buffers.reads[0].len(), links.size);
                let out = (links.rank == *root).then(|| buffers.writes[0]);
                let spread = pieces::Spread::Root(*root, out);
                pieces::reduce(links, buffers, *reducer, &pieces, spread, chunk)
            }
        },
        Action::ReduceScatter { reducer, pieces } => {
            let spread = pieces::Spread::Nobody(buffers.writes.first().copied().unwrap_or(&[]));
            pieces::reduce(links, buffers, *reducer, pieces, spread, chunk)
        }
        Action::Broadcast { root } => {
            let buffer = match links.rank == *root {
                true => buffers.reads[0],
                false => buffers.writes[0],
            };
            spread::broadcast(links, *root, buffer, chunk)
        }
        Action::Scatter { root, bytes } => spread::scatter(links, buffers, *root, *bytes),
        Action::AllGather { pieces } => {
            let send = buffers.reads.first().copied().unwrap_or(&[]);
            if let Pieces::Equal(bytes) = pieces
                && gather::passes_on(*bytes, links.size)
            {
                let blocks = gather::gather(links, send, buffers.scratch)?;
                let inputs = gather::in_rank_order(links, &blocks, send);
                for (rank, block) in (0..).zip(inputs) {
                    buffers.copy(buffers.write(pieces.of(rank)), block);
                }
                return Ok(());
            }
            let sends: SmallVec<[_; 8]> =
                links.peers().map(|peer| links.first(peer, send)).collect();
            let receive = |peer| links.first(peer, buffers.write(pieces.of(peer)));
            let receives: SmallVec<[_; 8]> = links.peers().map(receive).collect();
            links.open(&sends, &receives)?;
            buffers.copy(buffers.write(own(pieces)), send);
            Ok(())
        }
        Action::AllToAll { sends, receives } => {
            let send = |peer| links.first(peer, buffers.read(sends.of(peer)));
            let receive = |peer| links.first(peer, buffers.write(receives.of(peer)));
            let (own_send, own_receive) = (own(sends), own(receives));
            let sends: SmallVec<[_; 8]> = links.peers().map(send).collect();
            let receives: SmallVec<[_; 8]> = links.peers().map(receive).collect();
            links.open(&sends, &receives)?;
            let (to, from) = (buffers.write(own_receive), buffers.read(own_send));
            let bytes = to.len().min(from.len());
            buffers.copy(&to[..bytes], &from[..bytes]);
            Ok(())
        }
        Action::Messages(list) => messages::run(links, list, buffers),
        Action::Barrier => gather::gather(links, &[], &[]).map(|_| ()),
    }
}
