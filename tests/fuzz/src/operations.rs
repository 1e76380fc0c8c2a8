//! Bytes as operations on a stream-ordered pool.

use crate::model::{Op, PoolModel, STREAMS};
use cairn_pool::GRANULE;

/// The most operations of one input: more only makes it slow.
const MAX_OPERATIONS: usize = 1500;
const MIB: u64 = 1 << 20;

/// Applies the operations in the bytes to a pool of eight streams, and compares it with the naive model after every
/// step. The first byte is the budget.
///
/// # Panics
/// When pool and model differ.
pub fn pool(data: &[u8]) {
    let Some((&budget, rest)) = data.split_first() else { return };
    let budget = match budget {
        0 => u64::MAX,
        quarters => u64::from(quarters) * MIB / 4,
    };
    let mut model = PoolModel::new(budget);
    Operations(rest).take(MAX_OPERATIONS).for_each(|op| model.step_and_check(op));
    model.end();
}

/// Operations read from bytes, until too few bytes are left.
///
/// ```text
/// first byte      more bytes     operation
/// ee sss 000|001  log hi lo      allocate on stream s, log and fraction of the size; ee = 3: aligned
/// ee sss 010      block stream   free
/// ee sss 011      block          use on stream s
/// ee sss 100                     submit to stream s
/// ee sss 101      quarters       finish so many quarters (0 to 4) of the work of stream s
/// ee sss 110      other          order stream s after another
/// ee sss 111      -, or hi lo    ee < 2: finish all; else trim
/// ```
pub struct Operations<'a>(pub &'a [u8]);

impl Operations<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn word(&mut self) -> Option<u64> {
        Some(u64::from(self.byte()?) << 8 | u64::from(self.byte()?))
    }
}

impl Iterator for Operations<'_> {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        let first = self.byte()?;
        let (stream, extra) = (usize::from(first >> 3) % STREAMS, first >> 6);
        Some(match first % 8 {
            0 | 1 => {
                let log = self.byte()?;
                let size = 1u64 << (log % 21);
                let align = match extra {
                    3 => GRANULE << (log / 21 % 8),
                    _ => GRANULE,
                };
                Op::Allocate(size + ((size * self.word()?) >> 16), align, stream)
            }
            2 => Op::Free(usize::from(self.byte()?), usize::from(self.byte()?)),
            3 => Op::Use(usize::from(self.byte()?), stream),
            4 => Op::Submit(stream),
            5 => Op::Finish(stream, u64::from(self.byte()?) % 5),
            6 => Op::Order(stream, usize::from(self.byte()?) % STREAMS),
            _ if extra < 2 => Op::FinishAll,
            _ => Op::Trim(self.word()? * GRANULE),
        })
    }
}
