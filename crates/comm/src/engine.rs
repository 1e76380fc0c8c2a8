//! What moves bytes between the ranks of one communicator. An engine knows nothing of operators, types or streams.

pub mod gloo;
pub mod threads;

use crate::error::Result;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// All are on one host: through shared memory.
    Shared,
    /// Through TCP.
    Tcp {
        /// The address that this rank binds.
        address: IpAddr,
    },
}

/// What a rank brings to a mesh.
#[derive(Clone, Debug)]
pub struct MeshSpec {
    /// Its number.
    pub rank: u32,
    /// How many there are; at least 2.
    pub size: u32,
    /// The communicator's name, equal on all ranks.
    pub name: String,
    /// How ranks reach each other, equal on all ranks but for the address.
    pub transport: Transport,
    /// Bytes of shared buffers that this rank may use.
    pub buffer_bytes: u64,
    /// How long connecting may take.
    pub timeout: Duration,
}

/// Where ranks leave their addresses for each other. A key is written once.
pub trait Store: Send + Sync {
    /// Leaves a value under a key; fails if the key has one.
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), LinkError>;

    /// The value under a key; waits for it.
    fn get(&self, key: &str, timeout: Duration) -> std::result::Result<Vec<u8>, LinkError>;
}

/// What connects ranks. One a process; any thread may call it.
pub trait Engine: Send + Sync {
    /// Connects this rank with all others; returns when that is done. Blocks up to the spec's timeout. The store is this
    /// communicator's alone, so keys need no prefix.
    fn connect(
        &self,
        spec: &MeshSpec,
        store: Arc<dyn Store>,
    ) -> std::result::Result<Arc<dyn Mesh>, LinkError>;
}

/// Opens the engine at its first use; the error says what is missing.
pub type OpenEngine = Box<dyn Fn() -> Result<Arc<dyn Engine>> + Send + Sync>;

/// A message to send. Other threads may change the bytes (a race of the user's); only plain bytes are copied.
pub struct Outgoing<'a> {
    /// To whom; never the rank itself.
    pub peer: u32,
    /// Which message of the two ranks it is.
    pub slot: u64,
    /// The message; may be empty.
    pub bytes: &'a [Cell<u8>],
}

/// A message to receive.
pub struct Incoming<'a> {
    /// From whom; never the rank itself.
    pub peer: u32,
    /// Which message of the two ranks it is.
    pub slot: u64,
    /// Where it goes; as long as the message.
    pub bytes: &'a [Cell<u8>],
}

/// All links of one rank. Any thread may call it; exchanges with different slots may be in progress at the same time.
/// A slot is used once per direction and pair by a message; the length must agree on both sides.
pub trait Mesh: Send + Sync {
    /// Posts every receive, then every send, in the order given, and returns when all are done. When it returns nothing
    /// touches the bytes any more, also after a failure. `deadline` `None`: for ever (but a peer that is gone, or a
    /// close, ends it).
    fn exchange(
        &self,
        outgoing: &[Outgoing<'_>],
        incoming: &[Incoming<'_>],
        deadline: Option<Instant>,
    ) -> std::result::Result<(), LinkError>;

    /// Fails if a peer is gone or the mesh is closed; never waits.
    fn check(&self) -> std::result::Result<(), LinkError>;

    /// Ends every exchange in progress with `Closed`, and lets the peers notice. Any thread, any number of times.
    fn close(&self);
}

/// What kind of failure a link had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkErrorKind {
    /// The peer ended, or closed its mesh.
    PeerGone,
    /// Time ran out.
    Timeout,
    /// This rank closed the mesh.
    Closed,
    /// A message has another length than the receiver expects.
    TooLong,
    /// Anything else.
    Other,
}

/// A failure of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// Its kind.
    pub kind: LinkErrorKind,
    /// The peer it is about, where one is known.
    pub peer: Option<u32>,
    /// A sentence.
    pub text: String,
}

impl LinkError {
    /// An error of this kind.
    pub fn new(kind: LinkErrorKind, peer: Option<u32>, text: impl Into<String>) -> LinkError {
        LinkError { kind, peer, text: text.into() }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LinkError {}
