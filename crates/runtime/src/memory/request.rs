//! A request for memory, as makers get it.

use super::purpose::{Owner, Purpose};
use super::tlsf::GRANULE;
use crate::stream::Stream;
use crate::sync::Arc;

/// A request for a block: how much, where, on which stream, for what and for whom. The kind of memory is the
/// maker's that it is given to; the site is the call that the thread is inside of (`record::site`).
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Bytes the user may touch.
    pub bytes: u64,
    /// A power of two, at least 512.
    pub align: u64,
    /// Whether huge pages back it.
    pub huge: HugePageRequest,
    /// Bytes kept in front of the user's, a multiple of `align`: the padding of a layer.
    pub front: u64,
    /// Bytes kept after the user's.
    pub back: u64,
    /// An address near which the memory should preferably lie.
    pub near: Option<usize>,
    /// What it is for.
    pub purpose: Purpose,
    /// Whom it is for.
    pub owner: Owner,
    /// The stream it is used on; `None`: on any, by whoever holds it.
    pub stream: Option<&'a Arc<Stream>>,
}

impl<'a> Request<'a> {
    /// Plain bytes for the program itself.
    pub fn bytes(bytes: u64) -> Request<'a> {
        Request {
            bytes,
            align: GRANULE,
            huge: HugePageRequest::No,
            front: 0,
            back: 0,
            near: None,
            purpose: Purpose::User,
            owner: Owner::default(),
            stream: None,
        }
    }

    /// The same for use on a stream.
    pub fn on(self, stream: &'a Arc<Stream>) -> Request<'a> {
        Request { stream: Some(stream), ..self }
    }

    /// The same for a purpose.
    pub fn purpose(self, purpose: Purpose, owner: Owner) -> Request<'a> {
        Request { purpose, owner, ..self }
    }

    /// All bytes that are needed: the user's and the padding around them.
    pub fn padded_bytes(&self) -> Option<u64> {
        self.bytes.checked_add(self.front)?.checked_add(self.back)
    }
}

/// Whether huge pages are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePageRequest {
    /// Ordinary pages.
    No,
    /// Huge pages if there are any.
    Preferred,
    /// Huge pages, or the allocation fails.
    Required,
}
