//! Who a graph takes memory from.

use crate::executable::{OutputMemory, RunInput};
use cairn_exec::Target;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::allocator::{Allocator, Block};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;

/// Where one load or run of a graph takes its memory: from the allocator of its target, with purpose and owner.
pub struct MemorySource<'a> {
    /// Where it is used, and who gives it.
    pub target: &'a Target<'a>,
    /// The id that the user gave the graph.
    pub graph: u32,
    /// The number of the load.
    pub loaded: u64,
    /// What the caller brought for this run: no block may lie over it.
    pub callers: CallersMemory<'a>,
}

/// Memory that the caller of a run brought.
#[derive(Clone, Copy, Default)]
pub struct CallersMemory<'a> {
    /// The inputs.
    pub inputs: &'a [RunInput],
    /// The outputs, where it brought memory for them.
    pub outputs: &'a [Option<OutputMemory>],
}

impl CallersMemory<'_> {
    /// Fails if a block that a user's allocator gave lies over memory of the caller: one would overwrite the other.
    pub fn refuse_over(
        &self,
        purpose: Purpose,
        allocator: &dyn Allocator,
        block: &Block,
    ) -> Result<()> {
        let (start, end) = (block.address(), block.address() + block.bytes() as usize);
        let inputs = self.inputs.iter().enumerate().filter_map(|(at, input)| {
            let address = input.device_address()?;
            Some(("input", at, address, input.bytes()))
        });
        let outputs = self.outputs.iter().enumerate().filter_map(|(at, output)| {
            let OutputMemory { address, bytes } = (*output)?;
            Some(("output", at, address, bytes))
        });
        let mut all = inputs.chain(outputs);
        match all.find(|(.., address, bytes)| start < address + bytes && *address < end) {
            None => Ok(()),
            Some((what, at, address, bytes)) => Err(Error::new(
                Code::GeFailure,
                format!(
                    "{} gave {start:#x}, {} bytes, as {} memory, over {what} {at} of the caller ({bytes} bytes at {address:#x}): a pool must not hand out memory that the program still uses; was it freed to the pool too early, or handed out twice?",
                    allocator.name(),
                    block.bytes(),
                    purpose.name()
                ),
            )),
        }
    }
}

impl MemorySource<'_> {
    /// Takes a block, at an address if that can be.
    pub fn near(
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
            self.callers.refuse_over(purpose, &**self.target.allocator(), &block)?;
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
        self.near(purpose, operator, bytes, None)
    }
}
