//! Where a graph takes memory from.

use crate::executable::{OutputMemory, RunInput};
use cairn_exec::Target;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::allocator::{Allocator, Block};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;
use smallvec::SmallVec;
use std::fmt;

/// Where one load or run of a graph takes its memory: from the allocator of its target, with purpose and owner.
pub struct MemorySource<'a> {
    /// Where it is used, and who gives it.
    pub target: &'a Target<'a>,
    /// The id that the user gave the graph.
    pub graph: u32,
    /// The number of the load.
    pub loaded: u64,
    /// Memory of the caller: no block may overlap it.
    pub callers: CallersMemory,
}

/// A range of the program's own that a load or a run uses: an input, an output, or memory that it set as a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallersRange {
    /// What it is, in the user's words.
    pub what: CallersUse,
    /// First byte.
    pub address: usize,
    /// How many.
    pub bytes: usize,
}

/// What a program uses memory of its own for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallersUse {
    /// The input of this index.
    Input(usize),
    /// The output of this index.
    Output(usize),
    /// Memory of this purpose that the program set itself.
    Base(Purpose),
}

impl fmt::Display for CallersUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallersUse::Input(at) => write!(f, "input {at} of the caller"),
            CallersUse::Output(at) => write!(f, "output {at} of the caller"),
            CallersUse::Base(purpose) => {
                write!(f, "the {} memory that the program set", purpose.name())
            }
        }
    }
}

/// Memory of the caller: no block of an allocator may overlap it.
#[derive(Clone, Debug, Default)]
pub struct CallersMemory(SmallVec<[CallersRange; 8]>);

impl Extend<CallersRange> for CallersMemory {
    fn extend<T: IntoIterator<Item = CallersRange>>(&mut self, ranges: T) {
        self.0.extend(ranges);
    }
}

impl CallersMemory {
    /// The tensors of a run that lie on the device.
    pub fn of_run(inputs: &[RunInput], outputs: &[Option<OutputMemory>]) -> CallersMemory {
        let inputs = inputs.iter().enumerate().filter_map(|(at, input)| {
            let (what, address) = (CallersUse::Input(at), input.device_address()?);
            Some(CallersRange { what, address, bytes: input.bytes() })
        });
        let outputs = outputs.iter().enumerate().filter_map(|(at, output)| {
            let OutputMemory { address, bytes } = (*output)?;
            Some(CallersRange { what: CallersUse::Output(at), address, bytes })
        });
        CallersMemory(inputs.chain(outputs).collect())
    }

    /// Fails if a block that a user's allocator gave overlaps memory of the program: one would overwrite the other.
    pub fn expect_disjoint(
        &self,
        purpose: Purpose,
        allocator: &dyn Allocator,
        block: &Block,
    ) -> Result<()> {
        let (start, end) = (block.address(), block.address() + block.bytes() as usize);
        let overlaps = |one: &&CallersRange| start < one.address + one.bytes && one.address < end;
        match self.0.iter().find(overlaps) {
            None => Ok(()),
            Some(CallersRange { what, address, bytes }) => Err(Error::new(
                Code::GeFailure,
                format!(
                    "{} gave {start:#x}, {} bytes, as {} memory, over {what} ({bytes} bytes at {address:#x}): a pool must not hand out memory that the program still uses; was it freed to the pool too early, or handed out twice?",
                    allocator.name(),
                    block.bytes(),
                    purpose.name()
                ),
            )),
        }
    }
}

impl MemorySource<'_> {
    /// Takes a block, close to an address if possible.
    pub fn take_near(
        &self,
        purpose: Purpose,
        operator: Option<&'static str>,
        bytes: u64,
        near: Option<usize>,
    ) -> Result<Block> {
        let owner = Owner { graph: Some(self.graph), loaded: Some(self.loaded), operator };
        let request = Request::bytes(bytes).on(&self.target.stream).purpose(purpose, owner);
        let block = Block::allocate(self.target.allocator(), &Request { near, ..request })?;
        if self.target.is_external() {
            self.callers.expect_disjoint(purpose, &**self.target.allocator(), &block)?;
        }
        Ok(block)
    }

    /// Takes a block.
    pub fn take(
        &self,
        purpose: Purpose,
        operator: Option<&'static str>,
        bytes: u64,
    ) -> Result<Block> {
        self.take_near(purpose, operator, bytes, None)
    }
}
