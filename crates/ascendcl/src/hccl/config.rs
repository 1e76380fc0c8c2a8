//! Reads a communicator's configuration, of whatever version the program was compiled with.
//!
//! The caller's header wrote size and version. A field is read if its version is there and the size covers it: programs exist whose
//! size ends before fields of their version.

use super::door::not_null;
use crate::abi::{
    HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET, HCCL_COMM_CONFIG_INFO_BYTES, HCCL_COMM_CONFIG_MAGIC_WORD,
    HCCL_COMM_CONFIG_VERSION, HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET,
    HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET, HcclCommConfig,
};
use cairn_comm::config::ExecTimeout;
use cairn_comm::environment::Determinism;
use cairn_comm::{CommConfig, Error, Result};
use std::mem::{offset_of, size_of};

/// The largest `hcclOpExpansionMode`.
const MAX_EXPANSION_MODE: u32 = 6;

/// The caller's bytes, as many as it says and we know of.
struct Fields {
    bytes: [u8; size_of::<HcclCommConfig>()],
    size: usize,
    version: u32,
}

impl Fields {
    /// The bytes of a field, if version and size both cover it.
    fn bytes(&self, since: u32, offset: usize, length: usize) -> Option<&[u8]> {
        let is_there = self.version >= since && self.size >= offset + length;
        is_there.then(|| &self.bytes[offset..offset + length])
    }

    fn number(&self, since: u32, offset: usize) -> Option<u32> {
        let bytes = self.bytes(since, offset, 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    }

    /// A text of at most 127 bytes; `None` if it is empty or not there.
    fn text(&self, since: u32, offset: usize, name: &str) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(since, offset, 128) else { return Ok(None) };
        let end = bytes.iter().position(|byte| *byte == 0).ok_or_else(|| {
            Error::parameter(format!("config->{name} has no zero in its 128 bytes"))
        })?;
        Ok((end > 0).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned()))
    }
}

/// Reads a configuration; null is code 2, a wrong magic word or value code 1.
///
/// # Safety
/// `config` is null or points to as many bytes as its first field says, at least 24.
pub unsafe fn read(config: *const HcclCommConfig) -> Result<CommConfig> {
    // SAFETY: as the caller says.
    let fields = unsafe { fields(config) }?;
    check_modes(&fields)?;
    Ok(CommConfig {
        buffer_bytes: buffer_bytes(&fields)?,
        determinism: determinism(&fields)?,
        name: fields.text(2, offset_of!(HcclCommConfig, hcclCommName), "hcclCommName")?,
        description: fields
            .text(3, offset_of!(HcclCommConfig, hcclUdi), "hcclUdi")?
            .unwrap_or_default(),
        exec_timeout: exec_timeout(&fields),
    })
}

/// # Safety
/// As for [`read`].
unsafe fn fields(config: *const HcclCommConfig) -> Result<Fields> {
    not_null(config, "config")?;
    const HEAD: usize = HCCL_COMM_CONFIG_INFO_BYTES as usize;
    let mut bytes = [0; size_of::<HcclCommConfig>()];
    // SAFETY: the caller vouches for the first 24 bytes; the array has more.
    unsafe { config.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), HEAD) };
    let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let size = usize::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (magic, version) = (number(8), number(12));
    if magic != HCCL_COMM_CONFIG_MAGIC_WORD {
        return Err(Error::parameter(format!(
            "config has the magic word {magic:#x}, expected {HCCL_COMM_CONFIG_MAGIC_WORD:#x}: call HcclCommConfigInit first"
        )));
    }
    if size < HEAD {
        return Err(Error::parameter(format!(
            "config says that it has {size} bytes: at least {HEAD}"
        )));
    }
    if size > bytes.len() || version > HCCL_COMM_CONFIG_VERSION {
        log::warn!(
            "the configuration of a communicator is of version {version} with {size} bytes; what is beyond version {HCCL_COMM_CONFIG_VERSION} is not read"
        );
    }
    let size = size.min(bytes.len());
    // SAFETY: the caller vouches for as many bytes as its first field says, and the array has no fewer.
    unsafe { config.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), size) };
    Ok(Fields { bytes, size, version })
}

fn buffer_bytes(fields: &Fields) -> Result<Option<u64>> {
    match fields.number(1, offset_of!(HcclCommConfig, hcclBufferSize)) {
        None | Some(HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET) => Ok(None),
        Some(0) => Err(Error::parameter("config->hcclBufferSize is 0: at least 1 (MB)")),
        Some(megabytes) => Ok(Some(u64::from(megabytes) << 20)),
    }
}

fn determinism(fields: &Fields) -> Result<Option<Determinism>> {
    match fields.number(1, offset_of!(HcclCommConfig, hcclDeterministic)) {
        None | Some(HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET) => Ok(None),
        Some(number) => {
            let known = i32::try_from(number).ok().and_then(Determinism::from_number);
            known.map(Some).ok_or_else(|| {
                Error::parameter(format!("config->hcclDeterministic is {number}: expected 0 to 2"))
            })
        }
    }
}

/// A time below -1 is ignored, as HCCL does.
fn exec_timeout(fields: &Fields) -> Option<ExecTimeout> {
    let seconds = fields.number(8, offset_of!(HcclCommConfig, hcclExecTimeOut))?.cast_signed();
    match u32::try_from(seconds) {
        Ok(seconds) => Some(ExecTimeout::from_seconds(seconds)),
        Err(_) => {
            if seconds != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET {
                log::warn!(
                    "config->hcclExecTimeOut is {seconds}: not used, expected 0 or more seconds"
                );
            }
            None
        }
    }
}

/// Fields that have no effect here are checked all the same.
fn check_modes(fields: &Fields) -> Result<()> {
    let mode = fields.number(4, offset_of!(HcclCommConfig, hcclOpExpansionMode)).unwrap_or(0);
    if mode > MAX_EXPANSION_MODE {
        return Err(Error::parameter(format!(
            "config->hcclOpExpansionMode is {mode}: expected 0 to {MAX_EXPANSION_MODE}"
        )));
    }
    let zero_copy = fields.bytes(7, offset_of!(HcclCommConfig, aclGraphZeroCopyEnable), 1);
    match zero_copy {
        Some([enabled]) if *enabled > 1 => Err(Error::parameter(format!(
            "config->aclGraphZeroCopyEnable is {enabled}: expected 0 or 1"
        ))),
        _ => Ok(()),
    }
}
