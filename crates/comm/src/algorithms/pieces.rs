//! Large reductions: every rank reduces one piece, and hands it on where it is wanted.
//!
//! ```text
//!  exchange 0: pieces' chunk 0 ─┐
//!              reduce chunk 0   │ exchange 1: pieces' chunk 1, and chunk 0 reduced
//!              reduce chunk 1   │ exchange 2: pieces' chunk 2, and chunk 1 reduced  ..
//! ```
//!
//! A chunk is reduced only after everybody has it, so all may work in place.

use super::Buffers;
use crate::links::{Failure, First, Later, Links};
use crate::plan::{Piece, Pieces, Reducer};
use cairn_runtime::task::Span;
use cairn_tensor::kernels::buffers::fold_buffers;
use smallvec::SmallVec;
use std::cell::Cell;

/// Pieces begin on multiples of this, so on whole elements and cache lines.
const ALIGN: usize = 64;

/// Who gets reduced pieces besides the rank that reduces them.
pub(super) enum Spread<'a> {
    /// Nobody; this rank's piece goes here.
    Nobody(&'a [Cell<u8>]),
    /// All ranks; all pieces go here.
    All(&'a [Cell<u8>]),
    /// The root; there all pieces go here.
    Root(u32, Option<&'a [Cell<u8>]>),
}

/// Bytes of the largest of a buffer's even pieces.
pub(super) fn even_piece_bytes(reads: &[Span], size: usize) -> usize {
    reads[0].bytes.div_ceil(size).next_multiple_of(ALIGN)
}

/// A buffer in one piece for each rank, of nearly the same length.
pub(super) fn even(bytes: usize, size: u32) -> Pieces {
    let each = bytes.div_ceil(size as usize).next_multiple_of(ALIGN);
    let border = |rank: u32| (rank as usize * each).min(bytes);
    let piece =
        |rank| Piece { span: 0, start: border(rank), bytes: border(rank + 1) - border(rank) };
    Pieces::Listed((0..size).map(piece).collect())
}

/// A chunk of a piece; empty after its end.
fn chunk_of(piece: Piece, chunk: usize, number: usize) -> Piece {
    let start = (number * chunk).min(piece.bytes);
    let bytes = chunk.min(piece.bytes - start);
    Piece { span: piece.span, start: piece.start + start, bytes }
}

/// Reduces the pieces of `reads` in rank order. `scratch` has room for a chunk of each other rank, and for one more where
/// the root alone gets the result.
pub(super) fn reduce(
    links: &Links<'_>,
    buffers: &Buffers<'_>,
    reducer: Reducer,
    pieces: &Pieces,
    spread: Spread<'_>,
    chunk: usize,
) -> Result<(), Failure> {
    let (rank, size) = (links.rank, links.size);
    let own = pieces.of(rank);
    let chunks = (0..size).map(|peer| pieces.of(peer).bytes.div_ceil(chunk)).max().unwrap_or(0);
    let room = chunk.min(own.bytes);
    let slot = |peer: u32, bytes: usize| {
        let at = if peer < rank { peer } else { peer - 1 } as usize;
        &buffers.scratch[at * room..][..bytes]
    };
    let result = |number: usize| {
        let part = chunk_of(own, chunk, number);
        match spread {
            Spread::Nobody(out) => &out[part.start - own.start..][..part.bytes],
            Spread::All(out) | Spread::Root(_, Some(out)) => &out[part.start..][..part.bytes],
            Spread::Root(_, None) => &buffers.scratch[(size - 1) as usize * room..][..part.bytes],
        }
    };
    for number in 0..=chunks {
        let mut later = Later::default();
        if number > 0 {
            hand_on(links, &mut later, pieces, &spread, chunk, number - 1, result(number - 1));
        }
        let own_chunk = chunk_of(own, chunk, number);
        let contribution = |peer| buffers.read(chunk_of(pieces.of(peer), chunk, number));
        if number == 0 {
            let sends: SmallVec<[First<'_>; 8]> =
                links.peers().map(|peer| links.first(peer, contribution(peer))).collect();
            let receives: SmallVec<[First<'_>; 8]> =
                links.peers().map(|peer| links.first(peer, slot(peer, own_chunk.bytes))).collect();
            links.open(&sends, &receives)?;
        } else {
            for peer in links.peers() {
                let message = 2 * number as u64;
                let bytes = contribution(peer);
                if !bytes.is_empty() {
                    later.outgoing.push(links.outgoing(peer, message, bytes));
                }
                if own_chunk.bytes > 0 {
                    let bytes = slot(peer, own_chunk.bytes);
                    later.incoming.push(links.incoming(peer, message, bytes));
                }
            }
            links.exchange(&later)?;
        }
        if own_chunk.bytes > 0 {
            let input = |peer| match peer == rank {
                true => buffers.read(own_chunk),
                false => slot(peer, own_chunk.bytes),
            };
            let inputs: SmallVec<[&[Cell<u8>]; 8]> = (0..size).map(input).collect();
            let out = result(number);
            fold_buffers(buffers.parallel, reducer.fold, reducer.buffer_type, &inputs, out);
        }
    }
    Ok(())
}

/// Adds the messages that hand reduced chunks on.
fn hand_on<'a>(
    links: &Links<'_>,
    later: &mut Later<'a>,
    pieces: &Pieces,
    spread: &Spread<'a>,
    chunk: usize,
    number: usize,
    reduced: &'a [Cell<u8>],
) {
    let message = 2 * number as u64 + 1;
    let (sends_to, gets): (Option<u32>, Option<&'a [Cell<u8>]>) = match spread {
        Spread::Nobody(_) => return,
        Spread::All(out) => (None, Some(out)),
        Spread::Root(root, out) => (Some(*root), *out),
    };
    for peer in links.peers() {
        if !reduced.is_empty() && sends_to.is_none_or(|root| root == peer) {
            later.outgoing.push(links.outgoing(peer, message, reduced));
        }
        if let Some(out) = gets {
            let part = chunk_of(pieces.of(peer), chunk, number);
            if part.bytes > 0 {
                let to = &out[part.start..][..part.bytes];
                later.incoming.push(links.incoming(peer, message, to));
            }
        }
    }
}
