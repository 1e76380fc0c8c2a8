//! An allocator under test, whatever its interface.

use anyhow::{Result, ensure};

pub use super::loader::acl::Acl;
use super::{
    loader::{
        acl::{Location, StreamHandle, Taken},
        functions::{FactoryFunction, Heap, PoolFunctions, SystemMalloc, TorchFunctions},
    },
    spec::AllocatorSpec,
};

/// An allocator in this process, and ACL for work on its blocks. Any thread may use it; one that does calls
/// [`Bench::enter`] first.
pub struct Bench {
    acl: Option<Acl>,
    driver: Driver,
}

enum Driver {
    Cairn(PoolFunctions),
    Malloc(SystemMalloc),
    Torch(TorchFunctions),
    Factory(FactoryFunction),
}

/// A stream, with an allocator of its own on it where the interface is one for streams.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its handle.
    pub handle: StreamHandle,
    /// Its device.
    pub device: u32,
}

/// A block of the allocator.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// First byte.
    pub address: usize,
    /// Bytes that were asked for.
    pub bytes: u64,
    kept: usize,
}

/// Why there is no block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The allocator said that it has none.
    Null,
    /// The engine does not take what the allocator gave.
    Rejected(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Null => f.write_str("the pool gave null"),
            Refusal::Rejected(reason) => f.write_str(reason),
        }
    }
}

impl Bench {
    /// Loads the allocator, and ACL if it needs that.
    pub fn open(spec: &AllocatorSpec) -> Result<Bench> {
        let acl = match spec {
            AllocatorSpec::Malloc => None,
            _ => Some(Acl::open()?),
        };
        if let Some(acl) = &acl {
            acl.set_device(0)?;
        }
        let driver = match spec {
            AllocatorSpec::Cairn => Driver::Cairn(PoolFunctions::open()?),
            AllocatorSpec::Malloc => Driver::Malloc(SystemMalloc),
            AllocatorSpec::Torch { library, malloc, free } => {
                Driver::Torch(TorchFunctions::open(library, malloc, free)?)
            }
            AllocatorSpec::Factory { door, library, function } => {
                Driver::Factory(FactoryFunction::open(*door, library, function)?)
            }
        };
        Ok(Bench { acl, driver })
    }

    /// ACL.
    ///
    /// # Panics
    /// For malloc, whose memory is not ACL's.
    pub fn acl(&self) -> &Acl {
        self.acl.as_ref().expect("the memory of malloc is not ACL's")
    }

    /// Makes a device the calling thread's.
    pub fn enter(&self, device: u32) -> Result<()> {
        self.acl.as_ref().map_or(Ok(()), |acl| acl.set_device(device))
    }

    /// A new stream on a device, which becomes the thread's, with an allocator on it.
    pub fn stream(&self, device: u32) -> Result<Stream> {
        let Some(acl) = &self.acl else { return Ok(Stream { handle: StreamHandle(0), device }) };
        acl.set_device(device)?;
        let handle = acl.create_stream()?;
        if let Driver::Factory(factory) = &self.driver {
            factory.register(acl, device, handle)?;
        }
        Ok(Stream { handle, device })
    }

    /// Takes the allocator from a stream.
    pub fn unregister(&self, stream: &Stream) -> Result<()> {
        match (&self.driver, &self.acl) {
            (Driver::Factory(factory), Some(acl)) => factory.unregister(acl, stream.handle),
            _ => Ok(()),
        }
    }

    /// Takes a block for work on a stream.
    pub fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Block, Refusal> {
        self.allocate_near(stream, bytes, 0)
    }

    /// The same, preferably at an address; 0 for any.
    pub fn allocate_near(
        &self,
        stream: &Stream,
        bytes: u64,
        near: usize,
    ) -> Result<Block, Refusal> {
        let Stream { handle, device } = *stream;
        let (address, kept) = match &self.driver {
            Driver::Cairn(pool) => (pool.malloc(bytes, device, handle), 0),
            Driver::Malloc(malloc) => (malloc.malloc(bytes), 0),
            Driver::Torch(torch) => (torch.malloc(bytes, device, handle), 0),
            Driver::Factory(factory) => {
                match self.acl().take(handle, factory.door(), bytes, near) {
                    Ok(Taken { address, kept }) => (address, kept),
                    Err(error) => return Err(refusal(&format!("{error:#}"))),
                }
            }
        };
        match address {
            0 => Err(Refusal::Null),
            _ => Ok(Block { address, bytes, kept }),
        }
    }

    /// Where a block lies, if it is not on the device of its stream. Only functions for PyTorch can give such a block: the
    /// engine refuses it.
    pub fn misplacement(&self, stream: &Stream, block: &Block) -> Result<Option<String>> {
        let Block { address, bytes, .. } = *block;
        if bytes == 0 || !matches!(self.driver, Driver::Torch(_)) {
            return Ok(None);
        }
        let device = stream.device;
        let place = match self.acl().location(address)? {
            Location::Device(own) if own == device => return Ok(None),
            Location::Device(other) => format!("on device {other}"),
            Location::Host => "on no device: it is host memory".into(),
            Location::Nowhere => "on no device: ACL gave out no memory there".into(),
        };
        Ok(Some(format!(
            "the block {address:#x} of {bytes} bytes for device {device} lies {place}"
        )))
    }

    /// Gives a block back that was taken for this stream.
    pub fn free(&self, stream: &Stream, block: Block) -> Result<()> {
        let Stream { handle, device } = *stream;
        let Block { address, bytes, kept } = block;
        match &self.driver {
            Driver::Cairn(pool) => {
                ensure!(pool.free(address, device, handle), "{address:#x} was refused");
            }
            Driver::Malloc(malloc) => malloc.free(address),
            Driver::Torch(torch) => torch.free(address, bytes, device, handle),
            Driver::Factory(_) => self.acl().give_back(Taken { address, kept })?,
        }
        Ok(())
    }

    /// What the heap has, for an allocator that has its memory there.
    pub fn heap(&self) -> Option<Heap> {
        match &self.driver {
            Driver::Malloc(malloc) => Some(malloc.heap()),
            _ => None,
        }
    }
}

/// What the engine's text means.
fn refusal(text: &str) -> Refusal {
    match text.contains(" gave null; ") {
        true => Refusal::Null,
        false => Refusal::Rejected(text.to_owned()),
    }
}
