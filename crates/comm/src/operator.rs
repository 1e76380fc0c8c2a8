//! Every operator, as the program calls it.

mod kind;

pub use kind::OperatorKind;

/// One call of an operator. Addresses are numbers, 0 is null; counts are elements; data types and reductions are the numbers
/// of the C interface, so that all checks are made here, in HCCL's order: null pointers (2), counts (1), types and reductions
/// (5), ranks (1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    /// `HcclAllReduce`.
    AllReduce { send: usize, receive: usize, count: u64, data_type: i32, reduction: i32 },
    /// `HcclBroadcast`.
    Broadcast { buffer: usize, count: u64, data_type: i32, root: u32 },
    /// `HcclAllGather`.
    AllGather { send: usize, receive: usize, count: u64, data_type: i32 },
    /// `HcclAllGatherV`; one count and displacement a rank.
    AllGatherV {
        send: usize,
        send_count: u64,
        receive: usize,
        counts: Vec<u64>,
        displacements: Vec<u64>,
        data_type: i32,
    },
    /// `HcclReduceScatter`; `count` is that of the result.
    ReduceScatter { send: usize, receive: usize, count: u64, data_type: i32, reduction: i32 },
    /// `HcclReduceScatterV`.
    ReduceScatterV {
        send: usize,
        counts: Vec<u64>,
        displacements: Vec<u64>,
        receive: usize,
        receive_count: u64,
        data_type: i32,
        reduction: i32,
    },
    /// `HcclReduce`.
    Reduce { send: usize, receive: usize, count: u64, data_type: i32, reduction: i32, root: u32 },
    /// `HcclScatter`; `count` is that of the result.
    Scatter { send: usize, receive: usize, count: u64, data_type: i32, root: u32 },
    /// `HcclAlltoAll`.
    AllToAll {
        send: usize,
        send_count: u64,
        send_type: i32,
        receive: usize,
        receive_count: u64,
        receive_type: i32,
    },
    /// `HcclAlltoAllV`.
    AllToAllV {
        send: usize,
        send_counts: Vec<u64>,
        send_displacements: Vec<u64>,
        send_type: i32,
        receive: usize,
        receive_counts: Vec<u64>,
        receive_displacements: Vec<u64>,
        receive_type: i32,
    },
    /// `HcclAlltoAllVC`; the matrix has a row for each sender.
    AllToAllVC { send: usize, matrix: Vec<u64>, send_type: i32, receive: usize, receive_type: i32 },
    /// `HcclSend`.
    Send { buffer: usize, count: u64, data_type: i32, peer: u32 },
    /// `HcclRecv`.
    Receive { buffer: usize, count: u64, data_type: i32, peer: u32 },
    /// `HcclBatchSendRecv`.
    Batch { items: Vec<BatchItem> },
    /// `HcclBarrier`.
    Barrier,
}

/// One send or receive of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// Whether it is received.
    pub receives: bool,
    /// The first byte.
    pub buffer: usize,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub data_type: i32,
    /// The other rank.
    pub peer: u32,
}

impl Operator {
    /// Which operator it is.
    pub fn kind(&self) -> OperatorKind {
        match self {
            Operator::AllReduce { .. } => OperatorKind::AllReduce,
            Operator::Broadcast { .. } => OperatorKind::Broadcast,
            Operator::AllGather { .. } => OperatorKind::AllGather,
            Operator::AllGatherV { .. } => OperatorKind::AllGatherV,
            Operator::ReduceScatter { .. } => OperatorKind::ReduceScatter,
            Operator::ReduceScatterV { .. } => OperatorKind::ReduceScatterV,
            Operator::Reduce { .. } => OperatorKind::Reduce,
            Operator::Scatter { .. } => OperatorKind::Scatter,
            Operator::AllToAll { .. } => OperatorKind::AllToAll,
            Operator::AllToAllV { .. } => OperatorKind::AllToAllV,
            Operator::AllToAllVC { .. } => OperatorKind::AllToAllVC,
            Operator::Send { .. } => OperatorKind::Send,
            Operator::Receive { .. } => OperatorKind::Receive,
            Operator::Batch { .. } => OperatorKind::Batch,
            Operator::Barrier => OperatorKind::Barrier,
        }
    }

    /// The name of its C function.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// True for a call whose count is 0: it succeeds before a door looks at anything else, null handles included. The V
    /// kinds are never so: their counts are read from memory, after the checks for null.
    pub fn is_empty(&self) -> bool {
        match self {
            Operator::AllReduce { count, .. }
            | Operator::Broadcast { count, .. }
            | Operator::AllGather { count, .. }
            | Operator::ReduceScatter { count, .. }
            | Operator::Reduce { count, .. }
            | Operator::Scatter { count, .. }
            | Operator::Send { count, .. }
            | Operator::Receive { count, .. } => *count == 0,
            Operator::AllToAll { send_count, receive_count, .. } => {
                *send_count == 0 && *receive_count == 0
            }
            Operator::Batch { items } => items.is_empty(),
            _ => false,
        }
    }
}
