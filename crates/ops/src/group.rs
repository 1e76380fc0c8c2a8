//! Groups of ranks: what an operator that communicates knows of the other processes and devices.

use crate::error::Outcome;
use cairn_tensor::DType;
use smallvec::SmallVec;
use std::cell::Cell;

/// How elements of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

impl Reduction {
    /// By its name in attributes.
    pub fn by_name(name: &str) -> Option<Reduction> {
        Some(match name {
            "sum" => Reduction::Sum,
            "prod" => Reduction::Prod,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            _ => return None,
        })
    }
}

/// Bytes that go to a rank, or come from one.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The other rank.
    pub rank: usize,
    /// The bytes.
    pub bytes: &'a [Cell<u8>],
}

/// The ranks of one communicator, for one run of one kernel. Every rank calls the same functions in the same order. Each call
/// blocks until this rank's part is done; a failure names the ranks.
pub trait Group {
    /// Which rank this is.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Every rank gets the reduction of all buffers, in place.
    fn all_reduce(&self, dtype: DType, reduction: Reduction, buffer: &[Cell<u8>]) -> Outcome;

    /// Every rank gets all buffers, one after the other by rank.
    fn all_gather(&self, send: &[Cell<u8>], receive: &[Cell<u8>]) -> Outcome;

    /// Rank `i` gets the reduction of the parts `i`; `send` has one of the length of `receive` for every rank.
    fn reduce_scatter(
        &self,
        dtype: DType,
        reduction: Reduction,
        send: &[Cell<u8>],
        receive: &[Cell<u8>],
    ) -> Outcome;

    /// Every rank gets the root's buffer.
    fn broadcast(&self, root: usize, buffer: &[Cell<u8>]) -> Outcome;

    /// Messages to and from any ranks, this one included, at most one to and one from each, in which all ranks take part. What
    /// arrives has the length that is expected.
    fn exchange(&self, outgoing: &[Message<'_>], incoming: &[Message<'_>]) -> Outcome;

    /// Messages in which only the ranks take part that they name: those of [`GroupUse::messages`], in any order of directions.
    fn send_receive(&self, outgoing: &[Message<'_>], incoming: &[Message<'_>]) -> Outcome;

    /// Returns when all ranks have called it.
    fn barrier(&self) -> Outcome;
}

/// A group that a plan uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// The communicator's name.
    pub name: Box<str>,
    /// The parameter that named it.
    pub parameter: &'static str,
    /// How many ranks the call takes it to have; `None` where the call does not depend on it.
    pub size: Option<usize>,
    /// Which rank the call takes this to be; `None` where it does not say.
    pub rank: Option<usize>,
    /// Whether all ranks take part.
    pub is_collective: bool,
    /// The messages to and from single ranks, in their order.
    pub messages: SmallVec<[MessageUse; 0]>,
}

/// A message to or from a single rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageUse {
    /// The other rank.
    pub rank: usize,
    /// Whether it is received.
    pub receives: bool,
}
