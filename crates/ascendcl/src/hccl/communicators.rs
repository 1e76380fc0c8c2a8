//! How communicators are made and ended.

use super::config;
use super::door::{array, communicator, current_device, entry, not_null, string, write};
use super::process::{self, communicators};
use crate::abi::{HcclComm, HcclCommConfig, HcclRootInfo};
use cairn_comm::table::SubSpec;
use cairn_comm::{CommConfig, Communicator, Communicators, Error, Result, RootInfo, group};
use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

/// The most bytes of the path of a rank table, without its zero.
pub const MAX_PATH: usize = 4095;

/// The `subCommId` of a rank that is no member.
const NO_MEMBER: u64 = 0xFFFF_FFFF;

/// Makes a communicator, at once or at the end of the thread's group, and writes its handle. After a failure it is null.
///
/// # Safety
/// `out` is null or points to memory for a handle, which stays there until the thread's group ends.
unsafe fn create(
    out: *mut HcclComm,
    make: impl FnOnce(&Communicators) -> Result<Arc<Communicator>> + Send + 'static,
) -> Result<()> {
    // SAFETY: as the caller says.
    unsafe { write(out, "comm", std::ptr::null_mut()) }?;
    process::refuse_at_end()?;
    let (communicators, out) = (communicators()?, out as usize);
    group::create(move || {
        let handle = process::publish(&make(communicators)?)?;
        // SAFETY: not null, and the user keeps it until the group ends.
        unsafe { write(out as *mut HcclComm, "comm", handle as HcclComm) }
    })
}

/// # Safety
/// `info` is null or points to a root info.
unsafe fn root_info(info: *const HcclRootInfo, name: &str) -> Result<RootInfo> {
    not_null(info, name)?;
    // SAFETY: not null; the user passes that many bytes, of any alignment.
    let bytes: [u8; size_of::<HcclRootInfo>()] =
        unsafe { info.cast::<[u8; size_of::<HcclRootInfo>()]>().read() };
    RootInfo::decode(&bytes).map_err(|error| error.of(name))
}

/// # Safety
/// `info` and `out` are null or point to a root info, and to memory for a handle.
unsafe fn join(
    size: u32,
    info: *const HcclRootInfo,
    rank: u32,
    config: CommConfig,
    out: *mut HcclComm,
) -> Result<()> {
    not_null(out, "comm")?;
    // SAFETY: as the caller says.
    let info = unsafe { root_info(info, "rootInfo") }?;
    check_rank(size, rank)?;
    let device = current_device()?;
    // SAFETY: as the caller says.
    unsafe { create(out, move |table| table.join(device, size, &info, rank, &config)) }
}

fn check_rank(size: u32, rank: u32) -> Result<()> {
    match () {
        _ if size == 0 => Err(Error::parameter("nRanks is 0: at least 1")),
        _ if rank >= size => Err(Error::parameter(format!(
            "rank {rank}: expected 0 to {}, there are {size} ranks",
            size - 1
        ))),
        _ => Ok(()),
    }
}

/// # Safety
/// `path` and `out` are null or a C string and memory for a handle.
unsafe fn join_rank_table(
    path: *const c_char,
    rank: u32,
    config: CommConfig,
    out: *mut HcclComm,
) -> Result<()> {
    not_null(out, "comm")?;
    // SAFETY: as the caller says.
    let path = unsafe { string(path, "clusterInfo", MAX_PATH) }?;
    let device = current_device()?;
    // SAFETY: as the caller says.
    unsafe {
        create(out, move |table| table.join_rank_table(device, Path::new(&path), rank, &config))
    }
}

/// Opens a meeting point.
///
/// # Safety
/// `out` is null or points to memory for a root info.
unsafe fn open_meeting(out: *mut HcclRootInfo) -> Result<()> {
    not_null(out, "rootInfo")?;
    process::refuse_at_end()?;
    current_device()?;
    let bytes = communicators()?.open_meeting()?.encode();
    const _: () = assert!(cairn_comm::meeting::root_info::BYTES == size_of::<HcclRootInfo>());
    // SAFETY: not null; the user has room for that many bytes.
    unsafe { bytes.as_ptr().copy_to_nonoverlapping(out.cast(), bytes.len()) };
    Ok(())
}

entry! {
    /// Opens a meeting point and describes it.
    fn HcclGetRootInfo(info: *mut HcclRootInfo) {
        // SAFETY: null or memory for a root info.
        unsafe { open_meeting(info) }
    }

    /// The same for a communicator with several meeting points.
    fn HcclGetRootInfoScalable(info: *mut HcclRootInfo) {
        // SAFETY: null or memory for a root info.
        unsafe { open_meeting(info) }
    }

    /// A communicator by root info.
    fn HcclCommInitRootInfo(size: u32, info: *const HcclRootInfo, rank: u32, comm: *mut HcclComm) {
        // SAFETY: null or what the header says.
        unsafe { join(size, info, rank, CommConfig::default(), comm) }
    }

    /// The same with a configuration.
    fn HcclCommInitRootInfoConfig(
        size: u32,
        info: *const HcclRootInfo,
        rank: u32,
        config: *const HcclCommConfig,
        comm: *mut HcclComm,
    ) {
        // SAFETY: null or what the header says.
        unsafe { join(size, info, rank, config::read(config)?, comm) }
    }

    /// The same with several root infos, which all ranks pass in the same order.
    fn HcclCommInitRootInfoScalable(
        size: u32,
        roots: u32,
        infos: *const HcclRootInfo,
        rank: u32,
        _external_roots: u32,
        config: *const HcclCommConfig,
        comm: *mut HcclComm,
    ) {
        not_null(comm, "comm")?;
        not_null(infos, "rootInfoList")?;
        // SAFETY: null or a configuration.
        let config = unsafe { config::read(config) }?;
        check_rank(size, rank)?;
        if roots == 0 || roots > size {
            return Err(Error::parameter(format!("nRoot is {roots}: expected 1 to {size}, as many as ranks")));
        }
        // SAFETY: not null; the user passes `nRoot` of them.
        let infos = (0..roots as usize).map(|i| unsafe { root_info(infos.add(i), "rootInfoList") });
        let infos = infos.collect::<Result<Vec<_>>>()?;
        let device = current_device()?;
        // SAFETY: null or memory for a handle.
        unsafe { create(comm, move |table| table.join_scalable(device, size, &infos, rank, &config)) }
    }

    /// A communicator by a rank table file.
    fn HcclCommInitClusterInfo(path: *const c_char, rank: u32, comm: *mut HcclComm) {
        // SAFETY: null or what the header says.
        unsafe { join_rank_table(path, rank, CommConfig::default(), comm) }
    }

    /// The same with a configuration.
    fn HcclCommInitClusterInfoConfig(
        path: *const c_char,
        rank: u32,
        config: *mut HcclCommConfig,
        comm: *mut HcclComm,
    ) {
        // SAFETY: null or what the header says.
        unsafe { join_rank_table(path, rank, config::read(config)?, comm) }
    }

    /// Communicators for devices of this process.
    fn HcclCommInitAll(count: u32, devices: *mut i32, comms: *mut HcclComm) {
        not_null(comms, "comms")?;
        not_null(devices, "devices")?;
        process::refuse_at_end()?;
        if count == 0 {
            return Err(Error::parameter("ndev is 0: at least 1"));
        }
        let known = crate::door::runtime()?.devices().len();
        if count as usize > known {
            return Err(Error::parameter(format!("ndev is {count}: this process has {known} devices")));
        }
        // SAFETY: not null; the user passes `ndev` of them.
        let devices = unsafe { array(devices, count as usize, "devices") }?;
        let devices = devices.into_iter().map(|device| {
            let number = u32::try_from(device).ok().filter(|number| (*number as usize) < known);
            number.ok_or_else(|| Error::parameter(format!("device {device}: expected 0 to {}", known - 1)))
        });
        let devices = devices.collect::<Result<Vec<u32>>>()?;
        let (communicators, comms) = (communicators()?, comms as usize);
        let write_at = move |index: usize, handle: usize| {
            // SAFETY: not null; the user has room for `ndev` handles until the group ends.
            unsafe { write((comms as *mut HcclComm).add(index), "comms", handle as HcclComm) }
        };
        (0..devices.len()).try_for_each(|index| write_at(index, 0))?;
        group::create(move || {
            for (index, communicator) in communicators.join_all(&devices)?.iter().enumerate() {
                write_at(index, process::publish(communicator)?)?;
            }
            Ok(())
        })
    }

    /// A communicator of some ranks of another.
    fn HcclCreateSubCommConfig(
        comm: *mut HcclComm,
        count: u32,
        ranks: *mut u32,
        id: u64,
        rank: u32,
        config: *mut HcclCommConfig,
        sub: *mut HcclComm,
    ) {
        not_null(comm, "comm")?;
        // SAFETY: not null; the user passes a communicator there.
        let parent = communicator(unsafe { comm.read_unaligned() })?;
        not_null(sub, "subComm")?;
        match (ranks.is_null(), id == NO_MEMBER) {
            // SAFETY: not null; memory for a handle.
            (true, true) => return unsafe { write(sub, "subComm", std::ptr::null_mut()) },
            (true, false) => {
                return Err(Error::parameter(format!("rankIds is null, but subCommId is {id}: a rank that is no member passes {NO_MEMBER:#x}")));
            }
            (false, true) => {
                return Err(Error::parameter(format!("subCommId is {id:#x}, which says that this rank is no member, but rankIds is not null")));
            }
            (false, false) => {}
        }
        // SAFETY: null or a configuration.
        let config = unsafe { config::read(config) }?;
        if count == 0 || count > parent.size() {
            return Err(Error::parameter(format!("rankNum is {count}: expected 1 to {}, the ranks of {}", parent.size(), parent.name())));
        }
        // SAFETY: not null; the user passes `rankNum` of them.
        let ranks = unsafe { array(ranks, count as usize, "rankIds") }?;
        let spec = SubSpec { ranks, id, rank };
        // SAFETY: not null; memory for a handle.
        unsafe { create(sub, move |table| table.join_sub(&parent, &spec, &config)) }
    }

    /// Ends a communicator. When the process ends nothing is waited for: the system closes its links.
    fn HcclCommDestroy(comm: HcclComm) {
        if comm.is_null() {
            log::warn!("HcclCommDestroy: comm is null, nothing is destroyed");
            return Ok(());
        }
        if crate::process::is_ending() {
            return Ok(());
        }
        let communicator = communicator(comm)?;
        process::destroy(&communicator)
    }
}
