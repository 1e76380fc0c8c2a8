//! Where constants lie in const memory.

use super::program::ALIGN;
use std::collections::HashMap;
use std::sync::Arc;

/// Constants and where they go in const memory.
pub type Constants = Vec<(u64, Arc<[u8]>)>;

/// The constants of one or several graphs that share const memory. Equal bytes lie there once.
#[derive(Default)]
pub struct ConstantLayout {
    offsets: HashMap<Arc<[u8]>, u64>,
    end: u64,
}

impl ConstantLayout {
    /// Where these bytes begin; those that were not there before are added to `placed`.
    pub fn place(&mut self, bytes: &Arc<[u8]>, placed: &mut Constants) -> u64 {
        *self.offsets.entry(bytes.clone()).or_insert_with(|| {
            let start = self.end;
            self.end = (start + bytes.len() as u64).next_multiple_of(ALIGN);
            placed.push((start, bytes.clone()));
            start
        })
    }

    /// How many bytes of const memory there are.
    pub fn bytes(&self) -> u64 {
        self.end
    }
}
