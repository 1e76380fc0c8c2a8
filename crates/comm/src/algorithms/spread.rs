//! From one rank to all.

use super::Buffers;
use crate::links::{Failure, First, Later, Links};
use smallvec::SmallVec;
use std::cell::Cell;

/// More bytes go from rank to rank in chunks, fewer down a tree.
const CHAIN_BYTES: usize = 64 << 10;

/// Brings the root's buffer to all.
pub(super) fn broadcast(
    links: &Links<'_>,
    root: u32,
    buffer: &[Cell<u8>],
    chunk: usize,
) -> Result<(), Failure> {
    match buffer.len() <= CHAIN_BYTES {
        true => down_a_tree(links, root, buffer),
        false => along_a_chain(links, root, buffer, chunk),
    }
}

/// Every rank that has the buffer sends it to ranks twice as far away as in the step before.
fn down_a_tree(links: &Links<'_>, root: u32, buffer: &[Cell<u8>]) -> Result<(), Failure> {
    let size = links.size;
    let distance = (links.rank + size - root) % size;
    let rank_at = |distance: u32| (distance + root) % size;
    let reach = match distance {
        0 => size.next_power_of_two(),
        _ => 1 << distance.trailing_zeros(),
    };
    if distance > 0 {
        links.open(&[], &[links.first(rank_at(distance - reach), buffer)])?;
    }
    let mut sends = SmallVec::<[First<'_>; 8]>::new();
    let mut step = reach / 2;
    while step > 0 {
        if distance + step < size {
            sends.push(links.first(rank_at(distance + step), buffer));
        }
        step /= 2;
    }
    links.open(&sends, &[])
}

/// Every rank passes each chunk on to the next while it receives the one after.
fn along_a_chain(
    links: &Links<'_>,
    root: u32,
    buffer: &[Cell<u8>],
    chunk: usize,
) -> Result<(), Failure> {
    let size = links.size;
    let distance = (links.rank + size - root) % size;
    let (previous, next) = ((links.rank + size - 1) % size, (links.rank + 1) % size);
    let (receives, sends) = (distance > 0, distance + 1 < size);
    let chunks = buffer.len().div_ceil(chunk);
    let part = |number: usize| &buffer[number * chunk..buffer.len().min((number + 1) * chunk)];
    let delay = usize::from(receives);
    for step in 0..chunks + delay {
        let (mut first_sends, mut first_receives) =
            (SmallVec::<[First<'_>; 1]>::new(), SmallVec::<[First<'_>; 1]>::new());
        let mut later = Later::default();
        if receives && step < chunks {
            match step {
                0 => first_receives.push(links.first(previous, part(0))),
                _ => later.incoming.push(links.incoming(previous, step as u64, part(step))),
            }
        }
        if sends && step >= delay {
            let number = step - delay;
            match number {
                0 => first_sends.push(links.first(next, part(0))),
                _ => later.outgoing.push(links.outgoing(next, number as u64, part(number))),
            }
        }
        links.open_with(&first_sends, &first_receives, later)?;
    }
    Ok(())
}

/// Brings each rank its part of the root's buffer.
pub(super) fn scatter(
    links: &Links<'_>,
    buffers: &Buffers<'_>,
    root: u32,
    bytes: usize,
) -> Result<(), Failure> {
    let to = buffers.writes[0];
    if links.rank != root {
        return links.open(&[], &[links.first(root, to)]);
    }
    let part = |rank: u32| &buffers.reads[0][rank as usize * bytes..][..bytes];
    let sends: SmallVec<[First<'_>; 8]> =
        links.peers().map(|peer| links.first(peer, part(peer))).collect();
    links.open(&sends, &[])?;
    buffers.copy(to, part(root));
    Ok(())
}
