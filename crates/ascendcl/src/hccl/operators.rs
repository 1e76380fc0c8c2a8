//! Operators: each becomes one task of its stream.

use super::door::{array, communicator, entry, not_null, stream};
use crate::abi::{
    HCCL_RECV, HCCL_SEND, HcclComm, HcclDataType, HcclReduceOp, HcclSendRecvItem, aclrtStream,
};
use cairn_comm::{BatchItem, Communicator, Error, Operator, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// The most items of one batch.
const MAX_ITEMS: u32 = 1 << 20;

/// An address as operators carry it.
pub fn address<T>(pointer: *const T) -> usize {
    pointer as usize
}

/// A number of an enumeration as operators carry it.
pub fn number(value: u32) -> i32 {
    value.cast_signed()
}

/// Queues an operator. One without elements is a success before anything else is looked at.
fn submit(operator: Operator, comm: HcclComm, on: aclrtStream) -> Result<()> {
    if operator.is_empty() {
        return Ok(());
    }
    submit_to(&communicator(comm)?, operator, on)
}

/// The same on a communicator.
pub fn submit_to(
    communicator: &Arc<Communicator>,
    operator: Operator,
    on: aclrtStream,
) -> Result<()> {
    if operator.is_empty() {
        return Ok(());
    }
    communicator.submit(&stream(on)?, operator)
}

/// Counts or displacements of the user, `per_rank` for each rank.
///
/// # Safety
/// `values` is null or points to so many numbers.
pub unsafe fn counts(
    communicator: &Communicator,
    values: *const c_void,
    per_rank: usize,
    name: &str,
) -> Result<Vec<u64>> {
    // SAFETY: as the caller says.
    unsafe { array(values.cast::<u64>(), communicator.size() as usize * per_rank, name) }
}

entry! {
    /// Combines elements of all ranks, for all of them.
    fn HcclAllReduce(
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        submit(Operator::AllReduce { send, receive, count, data_type, reduction }, comm, stream)
    }

    /// Copies the root's elements to all ranks.
    fn HcclBroadcast(
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        root: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        submit(Operator::Broadcast { buffer, count, data_type, root }, comm, stream)
    }

    /// Combines elements of all ranks, a part for each.
    fn HcclReduceScatter(
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        submit(Operator::ReduceScatter { send, receive, count, data_type, reduction }, comm, stream)
    }

    /// The same with parts of different sizes.
    fn HcclReduceScatterV(
        send: *mut c_void,
        send_counts: *const c_void,
        send_displacements: *const c_void,
        receive: *mut c_void,
        receive_count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let communicator = communicator(comm)?;
        // SAFETY: null or one number for each rank.
        let counts = |values, name| unsafe { counts(&communicator, values, 1, name) };
        let operator = Operator::ReduceScatterV {
            send: address(send),
            counts: counts(send_counts, "sendCounts")?,
            displacements: counts(send_displacements, "sendDispls")?,
            receive: address(receive),
            receive_count,
            data_type: number(data_type),
            reduction: number(op),
        };
        submit_to(&communicator, operator, stream)
    }

    /// Hands out the root's elements.
    fn HcclScatter(
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        root: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive, data_type) = (address(send), address(receive), number(data_type));
        submit(Operator::Scatter { send, receive, count, data_type, root }, comm, stream)
    }

    /// Collects elements of all ranks, for all of them.
    fn HcclAllGather(
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive, data_type) = (address(send), address(receive), number(data_type));
        submit(Operator::AllGather { send, receive, count, data_type }, comm, stream)
    }

    /// The same with different counts.
    fn HcclAllGatherV(
        send: *mut c_void,
        send_count: u64,
        receive: *mut c_void,
        receive_counts: *const c_void,
        receive_displacements: *const c_void,
        data_type: HcclDataType,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let communicator = communicator(comm)?;
        // SAFETY: null or one number for each rank.
        let counts = |values, name| unsafe { counts(&communicator, values, 1, name) };
        let operator = Operator::AllGatherV {
            send: address(send),
            send_count,
            receive: address(receive),
            counts: counts(receive_counts, "recvCounts")?,
            displacements: counts(receive_displacements, "recvDispls")?,
            data_type: number(data_type),
        };
        submit_to(&communicator, operator, stream)
    }

    /// Sends to a rank.
    fn HcclSend(
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        peer: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        submit(Operator::Send { buffer, count, data_type, peer }, comm, stream)
    }

    /// Receives from a rank.
    fn HcclRecv(
        buffer: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        peer: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (buffer, data_type) = (address(buffer), number(data_type));
        submit(Operator::Receive { buffer, count, data_type, peer }, comm, stream)
    }

    /// Every rank sends to every rank, as a matrix of counts says.
    fn HcclAlltoAllVC(
        send: *const c_void,
        matrix: *const c_void,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_type: HcclDataType,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let communicator = communicator(comm)?;
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

    /// Every rank sends to every rank, with counts and places of its own.
    fn HcclAlltoAllV(
        send: *const c_void,
        send_counts: *const c_void,
        send_displacements: *const c_void,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_counts: *const c_void,
        receive_displacements: *const c_void,
        receive_type: HcclDataType,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let communicator = communicator(comm)?;
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

    /// Every rank sends the same number of elements to every rank.
    fn HcclAlltoAll(
        send: *const c_void,
        send_count: u64,
        send_type: HcclDataType,
        receive: *const c_void,
        receive_count: u64,
        receive_type: HcclDataType,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (send_type, receive_type) = (number(send_type), number(receive_type));
        let operator =
            Operator::AllToAll { send, send_count, send_type, receive, receive_count, receive_type };
        submit(operator, comm, stream)
    }

    /// Combines elements of all ranks, for the root.
    fn HcclReduce(
        send: *mut c_void,
        receive: *mut c_void,
        count: u64,
        data_type: HcclDataType,
        op: HcclReduceOp,
        root: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        let (send, receive) = (address(send), address(receive));
        let (data_type, reduction) = (number(data_type), number(op));
        submit(Operator::Reduce { send, receive, count, data_type, reduction, root }, comm, stream)
    }

    /// Sends and receives at the same time.
    fn HcclBatchSendRecv(
        items: *mut HcclSendRecvItem,
        count: u32,
        comm: HcclComm,
        stream: aclrtStream,
    ) {
        if count == 0 {
            return Ok(());
        }
        if count > MAX_ITEMS {
            return Err(Error::parameter(format!("itemNum is {count}: at most {MAX_ITEMS}")));
        }
        // SAFETY: null or `itemNum` items.
        let items = unsafe { array(items, count as usize, "sendRecvInfo") }?;
        let items = items.iter().enumerate().map(|(index, item)| {
            let receives = match item.sendRecvType {
                HCCL_SEND => false,
                HCCL_RECV => true,
                other => {
                    return Err(Error::parameter(format!(
                        "sendRecvInfo[{index}].sendRecvType is {other}: expected 0 (send) or 1 (receive)"
                    )));
                }
            };
            Ok(BatchItem {
                receives,
                buffer: address(item.buf),
                count: item.count,
                data_type: number(item.dataType),
                peer: item.remoteRank,
            })
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        submit(Operator::Batch { items }, comm, stream)
    }

    /// Ends when all ranks are there.
    fn HcclBarrier(comm: HcclComm, stream: aclrtStream) {
        not_null(stream, "stream")?;
        submit(Operator::Barrier, comm, stream)
    }
}
