//! The memory of one dynamic run, by value.

use crate::compile::prepare::ValueId;
use cairn_runtime::memory::allocator::Block;

/// Where each value of a run is, 0 for nowhere yet, and what was taken for it. What is still here when the run ends
/// goes back.
pub struct ValueMemory {
    /// First byte, by root.
    pub addresses: Vec<usize>,
    /// What was taken, by root.
    pub blocks: Vec<Option<Block>>,
}

impl ValueMemory {
    /// For this many values, none of them anywhere.
    pub fn new(values: usize) -> ValueMemory {
        let mut blocks = Vec::new();
        blocks.resize_with(values, || None);
        ValueMemory { addresses: vec![0; values], blocks }
    }

    /// A value is in memory that was taken for it; gives its address.
    pub fn hold(&mut self, value: ValueId, block: Block) -> usize {
        let address = block.address();
        self.addresses[value] = address;
        self.blocks[value] = Some(block);
        address
    }

    /// Takes the block of a value that is not needed any more, if it has one.
    pub fn take_block(&mut self, value: ValueId) -> Option<Block> {
        self.addresses[value] = 0;
        self.blocks[value].take()
    }
}
