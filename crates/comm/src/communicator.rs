//! One rank of one communicator.

use crate::error::{Error, Result};
use crate::operator::Operator;
use cairn_runtime::handle::HandleObject;
use cairn_runtime::stream::Stream;
use std::sync::Arc;

/// Whether a communicator takes operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It does.
    Ready = 0,
    /// It was suspended.
    Suspending = 1,
    /// It failed or was destroyed.
    Invalid = 254,
}

/// What `npu-smi` shows of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Its name.
    pub name: String,
    /// This rank.
    pub rank: u32,
    /// Ranks.
    pub size: u32,
    /// This process's number of the device.
    pub device: u32,
    /// Operators that have ended.
    pub operators: u64,
    /// Whether it takes operators.
    pub status: Status,
}

/// One rank of a communicator. Shared by the table, the door's handle and queued tasks; any thread may use it.
pub struct Communicator {}

impl HandleObject for Communicator {
    const KIND: &'static str = "communicator";
}

impl Communicator {
    /// Its number in this process, from 1 on; never reused.
    pub fn id(&self) -> u64 {
        todo!()
    }

    /// A number that is equal on all ranks of the communicator, and differs from that of every other one.
    pub fn identity(&self) -> u128 {
        todo!()
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        todo!()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        todo!()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// This process's number of the rank's device.
    pub fn device(&self) -> u32 {
        todo!()
    }

    /// Whether it is a part of another one.
    pub fn is_sub(&self) -> bool {
        todo!()
    }

    /// The handle that the door gave it; 0 before it did.
    pub fn handle(&self) -> usize {
        todo!()
    }

    /// Stores the door's handle, so that a look-up by name gives the same.
    pub fn set_handle(&self, handle: usize) {
        let _ = handle;
        todo!()
    }

    /// Bytes of staging it may use.
    pub fn buffer_bytes(&self) -> u64 {
        todo!()
    }

    /// The failure that ended it, if one did; also notices a peer that is gone while nothing runs. Any thread; never waits.
    pub fn async_error(&self) -> Option<Error> {
        todo!()
    }

    /// Whether it takes operators.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// From now on operators are refused (22) until it is resumed; those in progress go on.
    pub fn suspend(&self) -> Result<()> {
        todo!()
    }

    /// Queues an operator on a stream of the communicator's device: checks it, and submits one task. Returns at once.
    /// An operator without elements is a success and takes no part. Inside a group of the calling thread it is checked,
    /// and queued when the group ends.
    pub fn submit(
        self: &Arc<Communicator>,
        stream: &Arc<Stream>,
        operator: Operator,
    ) -> Result<()> {
        let _ = (stream, operator);
        todo!()
    }
}
