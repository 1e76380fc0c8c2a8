//! Communicators by name, as graphs use them: a group is a communicator of the calling thread's device.

use super::communicators::MAX_PATH;
use super::door::{array, entry, not_null, string, write};
use super::operators::{address, counts, number, submit_to};
use super::process::{self, communicators};
use crate::abi::{self, HcclComm, HcclDataType, HcclReduceOp, aclrtStream};
use cairn_comm::config::MAX_NAME;
use cairn_comm::table::SubSpec;
use cairn_comm::{CommConfig, Communicator, Error, Operator, Result};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the group of all ranks.
const WORLD: &str = "hccl_world_group";

/// Handles of the groups that these functions made, by device.
static GROUPS: Mutex<Vec<(u32, usize)>> = Mutex::new(Vec::new());

fn groups() -> MutexGuard<'static, Vec<(u32, usize)>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a group; null is that of all ranks.
///
/// # Safety
/// `group` is null or a C string.
unsafe fn name(group: *const c_char) -> Result<String> {
    match group.is_null() {
        true => Ok(WORLD.into()),
        // SAFETY: not null, so a C string.
        false => unsafe { string(group, "group", MAX_NAME) },
    }
}

/// # Safety
/// As for [`name`].
unsafe fn find(group: *const c_char) -> Result<Arc<Communicator>> {
    // SAFETY: as the caller says.
    process::find(&unsafe { name(group) }?)
}

fn publish(communicator: &Arc<Communicator>) -> Result<()> {
    let handle = process::publish(communicator)?;
    groups().push((communicator.device(), handle));
    Ok(())
}

fn end(communicator: &Arc<Communicator>) -> Result<()> {
    let handle = communicator.handle();
    process::destroy(communicator)?;
    groups().retain(|(_, known)| *known != handle);
    Ok(())
}

/// A number of a group that all members compute alike from its name.
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Queues an operator on a group.
///
/// # Safety
/// As for [`name`].
unsafe fn submit(operator: Operator, group: *const c_char, stream: aclrtStream) -> Result<()> {
    if operator.is_empty() {
        return Ok(());
    }
    // SAFETY: as the caller says.
    submit_to(&unsafe { find(group) }?, operator, stream)
}

entry! {
    /// The group of all ranks of a rank table.
    fn HcomInitByRankTable(path: *const c_char, rank: u32) {
        // SAFETY: null or a C string.
        let path = unsafe { string(path, "rankTable", MAX_PATH) }?;
        process::refuse_at_end()?;
        let device = super::door::current_device()?;
        let config = CommConfig::default();
        publish(&communicators()?.join_rank_table(device, Path::new(&path), rank, &config)?)
    }

    /// Ends the groups of the calling thread's device.
    fn HcomDestroy() {
        if crate::process::is_ending() {
            return Ok(());
        }
        let device = super::door::current_device()?;
        let of_device: Vec<usize> =
            groups().iter().filter(|(on, _)| *on == device).map(|(_, handle)| *handle).collect();
        // Groups go before the one that they are of.
        for handle in of_device.into_iter().rev() {
            if let Ok(communicator) = super::door::communicator(handle as HcclComm) {
                end(&communicator)?;
            }
        }
        Ok(())
    }

    /// Whether the calling thread's device has a group of all ranks.
    fn HcomGetInitStatus(is_there: *mut bool) {
        not_null(is_there, "initiated")?;
        // SAFETY: not null; valid for writes of a flag.
        unsafe { write(is_there, "initiated", process::find(WORLD).is_ok()) }
    }

    /// A group of some ranks.
    fn HcomCreateGroup(group: *const c_char, count: u32, ranks: *mut u32) {
        // SAFETY: null or a C string.
        let name = unsafe { string(group, "group", MAX_NAME) }?;
        process::refuse_at_end()?;
        let world = process::find(WORLD)?;
        if count == 0 || count > world.size() {
            return Err(Error::parameter(format!("rankNum is {count}: expected 1 to {}", world.size())));
        }
        // SAFETY: null or `rankNum` ranks.
        let ranks = unsafe { array(ranks, count as usize, "rankIds") }?;
        let place = ranks.iter().position(|rank| *rank == world.rank());
        let place = place.ok_or_else(|| {
            Error::parameter(format!("rankIds has no rank {}: only members make a group", world.rank()))
        })?;
        let spec = SubSpec { ranks, id: number_of(&name), rank: place as u32 };
        let config = CommConfig { name: Some(name), ..CommConfig::default() };
        publish(&communicators()?.join_sub(&world, &spec, &config)?)
    }

    /// Ends a group.
    fn HcomDestroyGroup(group: *const c_char) {
        if crate::process::is_ending() {
            return Ok(());
        }
        // SAFETY: null or a C string.
        let name = unsafe { string(group, "group", MAX_NAME) }?;
        end(&process::find(&name)?)
    }

    /// The communicator of a group.
    fn HcomGetCommHandleByGroup(group: *const c_char, comm: *mut HcclComm) {
        not_null(comm, "commHandle")?;
        // SAFETY: null or a C string; not null and valid for writes.
        unsafe { write(comm, "commHandle", find(group)?.handle() as HcclComm) }
    }

    /// How many ranks a group has.
    fn HcomGetRankSize(group: *const c_char, size: *mut u32) {
        not_null(size, "rankSize")?;
        // SAFETY: null or a C string; not null and valid for writes.
        unsafe { write(size, "rankSize", find(group)?.size()) }
    }

    /// Which rank of a group this is.
    fn HcomGetRankId(group: *const c_char, rank: *mut u32) {
        not_null(rank, "rankId")?;
        // SAFETY: null or a C string; not null and valid for writes.
        unsafe { write(rank, "rankId", find(group)?.rank()) }
    }

    /// As `HcclAllGather`.
    fn HcomAllGather(
        _tag: *const c_char,
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (send, receive, data_type) = (address(send), address(receive), number(data_type));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::AllGather { send, receive, count, data_type }, group, stream) }
    }

    /// As `HcclAllGatherV`.
    fn HcomAllGatherV(
        _tag: *const c_char,
        send: *const c_void,
        send_count: u64,
        receive: *const c_void,
        receive_counts: *const c_void,
        receive_displacements: *const c_void,
        data_type: HcclDataType,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        // SAFETY: null or a C string.
        let communicator = unsafe { find(group) }?;
        // SAFETY: null or one number for each rank.
        let counts = |values, name| unsafe { counts(&communicator, values, 1, name) };
        let operator = Operator::AllGatherV {
            send: address(send),
            send_count,
            receive: address(receive),
            counts: counts(receive_counts, "recvCounts")?,
            displacements: counts(receive_displacements, "rdispls")?,
            data_type: number(data_type),
        };
        submit_to(&communicator, operator, stream)
    }

    /// As `HcclAllReduce`.
    fn HcomAllReduce(
        _tag: *const c_char,
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::AllReduce { send, receive, count, data_type, reduction }, group, stream) }
    }

    /// As `HcclReduce`.
    fn HcomReduce(
        _tag: *const c_char,
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        root: u32,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::Reduce { send, receive, count, data_type, reduction, root }, group, stream) }
    }

    /// As `HcclBroadcast`.
    fn HcomBroadcast(
        _tag: *const c_char,
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        root: u32,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::Broadcast { buffer, count, data_type, root }, group, stream) }
    }

    /// As `HcclReduceScatter`.
    fn HcomReduceScatter(
        _tag: *const c_char,
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::ReduceScatter { send, receive, count, data_type, reduction }, group, stream) }
    }

    /// As `HcclReduceScatterV`.
    fn HcomReduceScatterV(
        _tag: *const c_char,
        send: *mut c_void,
        send_counts: *const c_void,
        send_displacements: *const c_void,
        receive: *mut c_void,
        receive_count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        // SAFETY: null or a C string.
        let communicator = unsafe { find(group) }?;
        // SAFETY: null or one number for each rank.
        let counts = |values, name| unsafe { counts(&communicator, values, 1, name) };
        let operator = Operator::ReduceScatterV {
            send: address(send),
            counts: counts(send_counts, "sendCounts")?,
            displacements: counts(send_displacements, "sdispls")?,
            receive: address(receive),
            receive_count,
            data_type: number(data_type),
            reduction: number(op),
        };
        submit_to(&communicator, operator, stream)
    }

    /// As `HcclSend`.
    fn HcomSend(
        _tag: *const c_char,
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        peer: u32,
        _send_tag: u32,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::Send { buffer, count, data_type, peer }, group, stream) }
    }

    /// As `HcclRecv`.
    fn HcomReceive(
        _tag: *const c_char,
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        peer: u32,
        _send_tag: u32,
        group: *const c_char,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        // SAFETY: null or a C string.
        unsafe { submit(Operator::Receive { buffer, count, data_type, peer }, group, stream) }
    }

    /// As `HcclAlltoAllV`.
    fn HcomAlltoAllV(
        send: *const c_void,
        send_counts: *const c_void,
        send_displacements: *const c_void,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_counts: *const c_void,
        receive_displacements: *const c_void,
        receive_type: HcclDataType,
        group: *const c_char,
        stream: aclrtStream,
        _tag: *const c_char,
    ) {
        // SAFETY: null or a C string.
        let communicator = unsafe { find(group) }?;
        // SAFETY: null or one number for each rank.
        let counts = |values, name| unsafe { counts(&communicator, values, 1, name) };
        let operator = Operator::AllToAllV {
            send: address(send),
            send_counts: counts(send_counts, "sendCounts")?,
            send_displacements: counts(send_displacements, "sdispls")?,
            send_type: number(send_type),
            receive: address(receive),
            receive_counts: counts(receive_counts, "recvCounts")?,
            receive_displacements: counts(receive_displacements, "rdispls")?,
            receive_type: number(receive_type),
        };
        submit_to(&communicator, operator, stream)
    }

    /// As `HcclAlltoAllVC`.
    fn HcomAlltoAllVC(
        send: *const c_void,
        matrix: *const c_void,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_type: HcclDataType,
        group: *const c_char,
        stream: aclrtStream,
        _tag: *const c_char,
    ) {
        // SAFETY: null or a C string.
        let communicator = unsafe { find(group) }?;
        let ranks = communicator.size() as usize;
        let operator = Operator::AllToAllVC {
            send: address(send),
            // SAFETY: null or a number for each pair of ranks.
            matrix: unsafe { counts(&communicator, matrix, ranks, "sendCountMatrix") }?,
            send_type: number(send_type),
            receive: address(receive),
            receive_type: number(receive_type),
        };
        submit_to(&communicator, operator, stream)
    }

    /// As `HcclAlltoAll`.
    fn HcomAllToAll(
        send: *const c_void,
        send_count: u64,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_count: u64,
        receive_type: HcclDataType,
        group: *const c_char,
        stream: aclrtStream,
        _tag: *const c_char,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (send_type, receive_type) = (number(send_type), number(receive_type));
        let operator =
            Operator::AllToAll { send, send_count, send_type, receive, receive_count, receive_type };
        // SAFETY: null or a C string.
        unsafe { submit(operator, group, stream) }
    }
}

/// Whether the calling thread's device has such a group.
///
/// # Safety
/// `group` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HcomFindGroup(group: *const c_char) -> bool {
    if crate::process::forked() || crate::process::started().is_none() {
        return false;
    }
    crate::door::count(abi::Entry::HcomFindGroup, 0);
    // SAFETY: null or a C string.
    unsafe { find(group) }.is_ok()
}
const _: abi::signature::HcomFindGroup = HcomFindGroup;
