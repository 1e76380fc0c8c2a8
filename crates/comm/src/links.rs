//! The messages of one operator: the first to each peer says what is called, and carries the data if there is little.

use crate::engine::{Incoming, LinkError, Mesh, Outgoing};
use crate::header::{self, Header};
use cairn_tensor::kernels::buffers::copy_bytes;
use cairn_tensor::parallel::SingleThread;
use smallvec::SmallVec;
use std::cell::Cell;
use std::time::Instant;

/// Bytes of a first message. Equal for every operator, so that two ranks that call different ones still understand it.
const FRAME: usize = 256;
/// Data that fits in a first message.
pub(crate) const INLINE: usize = FRAME - header::BYTES;
/// Slots of one operator: bits.
const SLOT_BITS: u32 = 24;
/// Marks the slots of single messages, whose tickets count the messages from one rank to another.
const SINGLE: u64 = 1 << 63;
/// The number of the first later message of an operator.
const LATER: u64 = 2;

/// Why an operator failed on this rank.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// A link did.
    Link(LinkError),
    /// This rank's own part did, without a link: what the others are told.
    OwnPart(String),
    /// Another rank failed, and left the reason.
    Peer(crate::Code, String),
    /// A peer called something else.
    Mismatch {
        /// The peer.
        peer: u32,
        /// What it called.
        called: Header,
        /// What it should have called.
        expected: Header,
    },
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Failure {
        Failure::Link(error)
    }
}

/// What an algorithm has of the other ranks: their links, for one operator.
pub(crate) struct Links<'a> {
    pub mesh: &'a dyn Mesh,
    pub rank: u32,
    pub size: u32,
    /// What this rank calls.
    pub header: Header,
    pub deadline: Option<Instant>,
}

/// The first message between two ranks in one direction, with its data.
pub(crate) struct First<'a> {
    pub peer: u32,
    pub header: Header,
    pub bytes: &'a [Cell<u8>],
}

/// Messages of one exchange that are not first ones.
#[derive(Default)]
pub(crate) struct Later<'a> {
    pub outgoing: SmallVec<[Outgoing<'a>; 8]>,
    pub incoming: SmallVec<[Incoming<'a>; 8]>,
}

impl Header {
    /// The slot of the operator's first messages.
    fn slot(&self) -> u64 {
        let single = if self.kind.is_single() { SINGLE } else { 0 };
        single | self.ticket << SLOT_BITS
    }
}

impl<'a> Links<'a> {
    /// The other ranks, from the next one on.
    pub fn peers(&self) -> impl Iterator<Item = u32> + use<> {
        let (rank, size) = (self.rank, self.size);
        (1..size).map(move |distance| (rank + distance) % size)
    }

    /// A first message of this operator.
    pub fn first(&self, peer: u32, bytes: &'a [Cell<u8>]) -> First<'a> {
        First { peer, header: self.header, bytes }
    }

    /// A later message to send, by its number.
    pub fn outgoing<'b>(&self, peer: u32, number: u64, bytes: &'b [Cell<u8>]) -> Outgoing<'b> {
        Outgoing { peer, slot: self.header.slot() + LATER + number, bytes }
    }

    /// A later message to receive, by its number.
    pub fn incoming<'b>(&self, peer: u32, number: u64, bytes: &'b [Cell<u8>]) -> Incoming<'b> {
        Incoming { peer, slot: self.header.slot() + LATER + number, bytes }
    }

    /// Exchanges later messages.
    pub fn exchange(&self, later: &Later<'_>) -> Result<(), Failure> {
        if later.outgoing.is_empty() && later.incoming.is_empty() {
            return Ok(());
        }
        Ok(self.mesh.exchange(&later.outgoing, &later.incoming, self.deadline)?)
    }

    /// Exchanges first messages, and checks what the peers called.
    pub fn open(&self, sends: &[First<'_>], receives: &[First<'_>]) -> Result<(), Failure> {
        self.open_with(sends, receives, Later::default())
    }

    /// The same, and later messages besides.
    pub fn open_with<'b>(
        &self,
        sends: &[First<'b>],
        receives: &[First<'b>],
        later: Later<'b>,
    ) -> Result<(), Failure> {
        let mut sent_frames = SmallVec::<[u8; 8 * FRAME]>::new();
        sent_frames.resize(sends.len() * FRAME, 0);
        let mut received_frames = SmallVec::<[u8; 8 * FRAME]>::new();
        received_frames.resize(receives.len() * FRAME, 0);
        for (first, frame) in sends.iter().zip(sent_frames.chunks_exact_mut(FRAME)) {
            first.header.encode(frame);
            if first.bytes.len() <= INLINE {
                let into = Cell::from_mut(&mut frame[header::BYTES..]).as_slice_of_cells();
                copy_bytes(&SingleThread, &into[..first.bytes.len()], first.bytes);
            }
        }
        let exchanged = {
            let sent = Cell::from_mut(&mut sent_frames[..]).as_slice_of_cells();
            let received = Cell::from_mut(&mut received_frames[..]).as_slice_of_cells();
            let mut outgoing = SmallVec::<[Outgoing<'_>; 16]>::new();
            for (first, bytes) in sends.iter().zip(sent.chunks_exact(FRAME)) {
                let (peer, slot) = (first.peer, first.header.slot());
                outgoing.push(Outgoing { peer, slot, bytes });
                if first.bytes.len() > INLINE {
                    outgoing.push(Outgoing { peer, slot: slot + 1, bytes: first.bytes });
                }
            }
            let shorter = |message: Outgoing<'b>| Outgoing { ..message };
            outgoing.extend(later.outgoing.into_iter().map(shorter));
            let mut incoming = SmallVec::<[Incoming<'_>; 16]>::new();
            for (first, bytes) in receives.iter().zip(received.chunks_exact(FRAME)) {
                let (peer, slot) = (first.peer, first.header.slot());
                incoming.push(Incoming { peer, slot, bytes });
                if first.bytes.len() > INLINE {
                    incoming.push(Incoming { peer, slot: slot + 1, bytes: first.bytes });
                }
            }
            let shorter = |message: Incoming<'b>| Incoming { ..message };
            incoming.extend(later.incoming.into_iter().map(shorter));
            match outgoing.is_empty() && incoming.is_empty() {
                true => Ok(()),
                false => self.mesh.exchange(&outgoing, &incoming, self.deadline),
            }
        };
        for (first, frame) in receives.iter().zip(received_frames.chunks_exact_mut(FRAME)) {
            match Header::decode(frame) {
                Some(called) if called.matches(&first.header) => {}
                Some(called) => {
                    return Err(Failure::Mismatch {
                        peer: first.peer,
                        called,
                        expected: first.header,
                    });
                }
                None if exchanged.is_err() => continue,
                None => {
                    let text =
                        format!("rank {} sent a message that is none of this version", first.peer);
                    let kind = crate::engine::LinkErrorKind::Other;
                    return Err(LinkError::new(kind, Some(first.peer), text).into());
                }
            }
            if exchanged.is_ok() && first.bytes.len() <= INLINE {
                let from = Cell::from_mut(&mut frame[header::BYTES..]).as_slice_of_cells();
                copy_bytes(&SingleThread, first.bytes, &from[..first.bytes.len()]);
            }
        }
        Ok(exchanged?)
    }
}
