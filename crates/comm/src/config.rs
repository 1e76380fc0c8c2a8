//! What a program configures of one communicator.

use crate::environment::Determinism;
use std::time::Duration;

/// The configuration of a communicator; what is `None` comes from the environment. Equal on all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommConfig {
    /// Bytes of staging; at least 1 MiB.
    pub buffer_bytes: Option<u64>,
    /// How reductions are ordered.
    pub determinism: Option<Determinism>,
    /// Its name, at most [`MAX_NAME`] bytes; unique on its device.
    pub name: Option<String>,
    /// What the user says it is for; only for messages.
    pub description: String,
    /// How long an operator may take.
    pub exec_timeout: Option<ExecTimeout>,
}

/// The most elements of one call.
pub const MAX_COUNT: u64 = 0x7_ffff_ffff;

/// The longest name of a communicator, in bytes.
pub const MAX_NAME: usize = 127;

/// How long an operator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecTimeout {
    /// For ever.
    Never,
    /// So long.
    After(Duration),
}

impl ExecTimeout {
    /// Seconds as HCCL counts them: 0 is for ever.
    pub fn from_seconds(seconds: u32) -> ExecTimeout {
        match seconds {
            0 => ExecTimeout::Never,
            seconds => ExecTimeout::After(Duration::from_secs(u64::from(seconds))),
        }
    }
}
