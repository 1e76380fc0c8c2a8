//! What a call of an operator does on one rank: which bytes it touches, and which algorithm runs.

use crate::algorithms;
use crate::config::MAX_COUNT;
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::header::{self, Header};
use crate::operator::{BatchItem, Operator, OperatorKind};
use crate::reduction::Reduction;
use cairn_runtime::task::{Location, Span, Spans};
use cairn_tensor::kernels::buffers::{BufferType, Fold};

/// A part of a buffer: bytes of one range of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The range, by its index in the task's reads or writes.
    pub span: usize,
    /// The first byte in it.
    pub start: usize,
    /// How many.
    pub bytes: usize,
}

/// A buffer in pieces, one a rank.
#[derive(Clone, Debug)]
pub(crate) enum Pieces {
    /// So many bytes each, one after the other.
    Equal(usize),
    /// These.
    Listed(Vec<Piece>),
}

impl Pieces {
    /// The piece of a rank.
    pub fn of(&self, rank: u32) -> Piece {
        match self {
            Pieces::Equal(bytes) => Piece { span: 0, start: rank as usize * bytes, bytes: *bytes },
            Pieces::Listed(pieces) => pieces[rank as usize],
        }
    }
}

/// How elements are reduced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reducer {
    pub fold: Fold,
    pub buffer_type: BufferType,
}

/// A single message. Its header has no ticket before the operator is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub receives: bool,
    pub peer: u32,
    pub header: Header,
    pub place: Piece,
}

/// Which algorithm runs, on the ranges of the plan.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    AllReduce(Reducer),
    Reduce { reducer: Reducer, root: u32 },
    ReduceScatter { reducer: Reducer, pieces: Pieces },
    Broadcast { root: u32 },
    Scatter { root: u32, bytes: usize },
    AllGather { pieces: Pieces },
    AllToAll { sends: Pieces, receives: Pieces },
    Messages(Vec<Message>),
    Barrier,
}

/// What a call does on this rank.
pub(crate) struct Plan {
    pub kind: OperatorKind,
    /// Elements as the function counts them; 0 where it has lists.
    pub count: u64,
    /// What the other ranks have to call too; without ticket and history.
    pub header: Header,
    pub action: Action,
    pub reads: Spans,
    pub writes: Spans,
    /// Bytes of scratch memory.
    pub scratch: usize,
}

/// The rank that plans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub rank: u32,
    pub size: u32,
    pub device: u32,
    /// Bytes of staging, equal on all ranks.
    pub buffer_bytes: u64,
}

/// Refuses a null buffer.
fn require(argument: &str, address: usize) -> Result<()> {
    match address {
        0 => Err(Error::null(argument)),
        _ => Ok(()),
    }
}

fn check_count(count: u64) -> Result<()> {
    match count > MAX_COUNT {
        true => Err(Error::parameter(format!("{count} elements are more than {MAX_COUNT}"))),
        false => Ok(()),
    }
}

fn check_rank(what: &str, rank: u32, size: u32) -> Result<()> {
    match rank < size {
        true => Ok(()),
        false => {
            Err(Error::parameter(format!("the {what} {rank} is no rank: there are {size} ranks")))
        }
    }
}

fn check_list(what: &str, list: &[u64], length: usize) -> Result<()> {
    match list.len() == length {
        true => list.iter().try_for_each(|count| check_count(*count)),
        false => Err(Error::parameter(format!("{what} has {} numbers, not {length}", list.len()))),
    }
}

/// The reduction of a type, where there is one.
pub(crate) fn reducer(data_type: DataType, reduction: Reduction) -> Result<Reducer> {
    let wrong = || {
        let (reduction, data_type) = (reduction.name(), data_type.name());
        Error::unsupported(format!("the reduction {reduction} of {data_type} is not supported"))
    };
    let is_product = reduction == Reduction::Product;
    let buffer_type = match data_type {
        DataType::Int16 | DataType::Bfloat16 if is_product => return Err(wrong()),
        DataType::Int8 => BufferType::I8,
        DataType::Int16 => BufferType::I16,
        DataType::Int32 => BufferType::I32,
        DataType::Int64 => BufferType::I64,
        DataType::Int128 => BufferType::I128,
        DataType::Uint8 => BufferType::U8,
        DataType::Uint16 => BufferType::U16,
        DataType::Uint32 => BufferType::U32,
        DataType::Uint64 => BufferType::U64,
        DataType::Float16 => BufferType::F16,
        DataType::Bfloat16 => BufferType::Bf16,
        DataType::Float32 => BufferType::F32,
        DataType::Float64 => BufferType::F64,
        DataType::Hif8 | DataType::Fp8E4m3 | DataType::Fp8E5m2 | DataType::Fp8E8m0 => {
            return Err(wrong());
        }
    };
    let fold = match reduction {
        Reduction::Sum => Fold::Sum,
        Reduction::Product => Fold::Product,
        Reduction::Max => Fold::Greatest,
        Reduction::Min => Fold::Least,
    };
    Ok(Reducer { fold, buffer_type })
}

impl Position {
    fn span(&self, address: usize, bytes: u64) -> Span {
        let location = Location::Device(self.device);
        Span { address, bytes: usize::try_from(bytes).unwrap_or(usize::MAX), location }
    }

    /// Pieces of a buffer by counts and displacements of elements, and the ranges that they make up: neighbours are one.
    fn pieces(
        &self,
        buffer: usize,
        item: u64,
        counts: &[u64],
        displacements: impl Iterator<Item = u64>,
    ) -> Result<(Spans, Pieces)> {
        let (mut spans, mut pieces) = (Spans::new(), Vec::with_capacity(counts.len()));
        for (count, displacement) in counts.iter().zip(displacements) {
            let bytes = count * item;
            let end = displacement.checked_mul(item).and_then(|start| start.checked_add(bytes));
            let end = end.filter(|end| (buffer as u64).checked_add(*end).is_some());
            let Some(end) = end else {
                let text = format!("the displacement {displacement} lies beyond all memory");
                return Err(Error::parameter(text));
            };
            if bytes == 0 {
                pieces.push(Piece { span: 0, start: 0, bytes: 0 });
                continue;
            }
            let address = buffer + (end - bytes) as usize;
            match spans.last_mut() {
                Some(last) if last.address + last.bytes == address => {
                    let start = last.bytes;
                    last.bytes += bytes as usize;
                    pieces.push(Piece { span: spans.len() - 1, start, bytes: bytes as usize });
                }
                _ => {
                    spans.push(self.span(address, bytes));
                    pieces.push(Piece { span: spans.len() - 1, start: 0, bytes: bytes as usize });
                }
            }
        }
        Ok((spans, Pieces::Listed(pieces)))
    }

    /// The plan of a call; `None` for one that takes no part.
    pub fn plan(&self, operator: &Operator) -> Result<Option<Plan>> {
        if operator.is_empty() {
            return Ok(None);
        }
        let planned = self.plan_checked(operator).map_err(|error| error.of(operator.name()))?;
        Ok(planned.map(|mut plan| {
            plan.scratch = algorithms::scratch_bytes(&plan, self);
            plan
        }))
    }

    fn plan_checked(&self, operator: &Operator) -> Result<Option<Plan>> {
        let kind = operator.kind();
        let Position { rank, size, .. } = *self;
        let ranks = u64::from(size);
        let one = |address, bytes| Spans::from_iter([self.span(address, bytes)]);
        let make = |header: Header, action, reads, writes| {
            let count = if kind.has_lists() { 0 } else { header.count };
            Ok(Some(Plan { kind, count, header, action, reads, writes, scratch: 0 }))
        };
        match *operator {
            Operator::AllReduce { send, receive, count, data_type, reduction } => {
                require("sendBuf", send)?;
                require("recvBuf", receive)?;
                let (data_type, reduction) = checked(count, data_type, reduction)?;
                let reducer = reducer(data_type, reduction)?;
                let header =
                    Header { reduction: Some(reduction), ..Header::new(kind, data_type, count) };
                let bytes = count * data_type.bytes();
                let action = Action::AllReduce(reducer);
                make(header, action, one(send, bytes), one(receive, bytes))
            }
            Operator::Reduce { send, receive, count, data_type, reduction, root } => {
                require("sendBuf", send)?;
                require("recvBuf", receive)?;
                let (data_type, reduction) = checked(count, data_type, reduction)?;
                let reducer = reducer(data_type, reduction)?;
                check_rank("root", root, size)?;
                let new = Header::new(kind, data_type, count);
                let header = Header { reduction: Some(reduction), root, ..new };
                let bytes = count * data_type.bytes();
                let writes = if rank == root { one(receive, bytes) } else { Spans::new() };
                make(header, Action::Reduce { reducer, root }, one(send, bytes), writes)
            }
            Operator::ReduceScatter { send, receive, count, data_type, reduction } => {
                require("sendBuf", send)?;
                require("recvBuf", receive)?;
                let (data_type, reduction) = checked(count, data_type, reduction)?;
                let reducer = reducer(data_type, reduction)?;
                let header =
                    Header { reduction: Some(reduction), ..Header::new(kind, data_type, count) };
                let bytes = count * data_type.bytes();
                let pieces = Pieces::Equal(bytes as usize);
                let action = Action::ReduceScatter { reducer, pieces };
                make(header, action, one(send, bytes * ranks), one(receive, bytes))
            }
            Operator::ReduceScatterV {
                send,
                ref counts,
                ref displacements,
                receive,
                receive_count,
                data_type,
                reduction,
            } => {
                check_list("sendCounts", counts, size as usize)?;
                check_list("sendDispls", displacements, size as usize)?;
                let is_empty = counts.iter().all(|count| *count == 0);
                if !is_empty {
                    require("sendBuf", send)?;
                }
                if receive_count > 0 {
                    require("recvBuf", receive)?;
                }
                let (data_type, reduction) = checked(receive_count, data_type, reduction)?;
                let reducer = reducer(data_type, reduction)?;
                check_own_count("recvCount", receive_count, counts, rank)?;
                if is_empty {
                    return Ok(None);
                }
                check_apart("HcclReduceScatterV", send, receive)?;
                let item = data_type.bytes();
                let (reads, pieces) =
                    self.pieces(send, item, counts, displacements.iter().copied())?;
                let new = Header::new(kind, data_type, list_number(counts));
                let header = Header { reduction: Some(reduction), ..new };
                let action = Action::ReduceScatter { reducer, pieces };
                make(header, action, reads, one(receive, receive_count * item))
            }
            Operator::AllGather { send, receive, count, data_type } => {
                require("sendBuf", send)?;
                require("recvBuf", receive)?;
                check_count(count)?;
                let data_type = DataType::from_number(data_type)?;
                let bytes = count * data_type.bytes();
                let action = Action::AllGather { pieces: Pieces::Equal(bytes as usize) };
                let header = Header::new(kind, data_type, count);
                make(header, action, one(send, bytes), one(receive, bytes * ranks))
            }
            Operator::AllGatherV {
                send,
                send_count,
                receive,
                ref counts,
                ref displacements,
                data_type,
            } => {
                check_list("recvCounts", counts, size as usize)?;
                check_list("recvDispls", displacements, size as usize)?;
                let is_empty = counts.iter().all(|count| *count == 0);
                if send_count > 0 {
                    require("sendBuf", send)?;
                }
                if !is_empty {
                    require("recvBuf", receive)?;
                }
                check_count(send_count)?;
                let data_type = DataType::from_number(data_type)?;
                check_own_count("sendCount", send_count, counts, rank)?;
                if is_empty {
                    return Ok(None);
                }
                check_apart("HcclAllGatherV", send, receive)?;
                let item = data_type.bytes();
                let (writes, pieces) =
                    self.pieces(receive, item, counts, displacements.iter().copied())?;
                let header = Header::new(kind, data_type, list_number(counts));
                make(header, Action::AllGather { pieces }, one(send, send_count * item), writes)
            }
            Operator::Broadcast { buffer, count, data_type, root } => {
                require("buf", buffer)?;
                check_count(count)?;
                let data_type = DataType::from_number(data_type)?;
                check_rank("root", root, size)?;
                let header = Header { root, ..Header::new(kind, data_type, count) };
                let span = one(buffer, count * data_type.bytes());
                let action = Action::Broadcast { root };
                match rank == root {
                    true => make(header, action, span, Spans::new()),
                    false => make(header, action, Spans::new(), span),
                }
            }
            Operator::Scatter { send, receive, count, data_type, root } => {
                require("recvBuf", receive)?;
                check_count(count)?;
                let data_type = DataType::from_number(data_type)?;
                check_rank("root", root, size)?;
                let bytes = count * data_type.bytes();
                let reads = match rank == root {
                    true => {
                        require("sendBuf", send)?;
                        one(send, bytes * ranks)
                    }
                    false => Spans::new(),
                };
                let header = Header { root, ..Header::new(kind, data_type, count) };
                let action = Action::Scatter { root, bytes: bytes as usize };
                make(header, action, reads, one(receive, bytes))
            }
            Operator::AllToAll {
                send,
                send_count,
                send_type,
                receive,
                receive_count,
                receive_type,
            } => {
                require("sendBuf", send)?;
                require("recvBuf", receive)?;
                check_count(send_count)?;
                check_count(receive_count)?;
                let data_type = same_types(send_type, receive_type)?;
                if send_count != receive_count {
                    return Err(Error::parameter(format!(
                        "sendCount {send_count} and recvCount {receive_count} differ"
                    )));
                }
                check_apart("HcclAlltoAll", send, receive)?;
                let bytes = send_count * data_type.bytes();
                let pieces = || Pieces::Equal(bytes as usize);
                let action = Action::AllToAll { sends: pieces(), receives: pieces() };
                let header = Header::new(kind, data_type, send_count);
                make(header, action, one(send, bytes * ranks), one(receive, bytes * ranks))
            }
            Operator::AllToAllV {
                send,
                ref send_counts,
                ref send_displacements,
                send_type,
                receive,
                ref receive_counts,
                ref receive_displacements,
                receive_type,
            } => {
                check_list("sendCounts", send_counts, size as usize)?;
                check_list("sdispls", send_displacements, size as usize)?;
                check_list("recvCounts", receive_counts, size as usize)?;
                check_list("rdispls", receive_displacements, size as usize)?;
                let has = |counts: &[u64]| counts.iter().any(|count| *count > 0);
                if has(send_counts) {
                    require("sendBuf", send)?;
                }
                if has(receive_counts) {
                    require("recvBuf", receive)?;
                }
                let data_type = same_types(send_type, receive_type)?;
                check_apart("HcclAlltoAllV", send, receive)?;
                let item = data_type.bytes();
                let sends = send_displacements.iter().copied();
                let (reads, sends) = self.pieces(send, item, send_counts, sends)?;
                let receives = receive_displacements.iter().copied();
                let (writes, receives) = self.pieces(receive, item, receive_counts, receives)?;
                let header = Header::new(kind, data_type, 0);
                make(header, Action::AllToAll { sends, receives }, reads, writes)
            }
            Operator::AllToAllVC { send, ref matrix, send_type, receive, receive_type } => {
                let n = size as usize;
                check_list("sendCountMatrix", matrix, n * n)?;
                let row = &matrix[rank as usize * n..][..n];
                let column: Vec<u64> =
                    (0..n).map(|from| matrix[from * n + rank as usize]).collect();
                let has = |counts: &[u64]| counts.iter().any(|count| *count > 0);
                if has(row) {
                    require("sendBuf", send)?;
                }
                if has(&column) {
                    require("recvBuf", receive)?;
                }
                let data_type = same_types(send_type, receive_type)?;
                if !has(matrix) {
                    return Ok(None);
                }
                check_apart("HcclAlltoAllVC", send, receive)?;
                let item = data_type.bytes();
                let (reads, sends) = self.pieces(send, item, row, packed(row))?;
                let (writes, receives) = self.pieces(receive, item, &column, packed(&column))?;
                let header = Header::new(kind, data_type, list_number(matrix));
                make(header, Action::AllToAll { sends, receives }, reads, writes)
            }
            Operator::Send { buffer, count, data_type, peer } => {
                let item = BatchItem { receives: false, buffer, count, data_type, peer };
                self.plan_messages(kind, &[item])
            }
            Operator::Receive { buffer, count, data_type, peer } => {
                let item = BatchItem { receives: true, buffer, count, data_type, peer };
                self.plan_messages(kind, &[item])
            }
            Operator::Batch { ref items } => self.plan_messages(kind, items),
            Operator::Barrier => {
                let header = Header::new(kind, DataType::Uint8, 0);
                make(header, Action::Barrier, Spans::new(), Spans::new())
            }
        }
    }

    /// Checks one send or receive; the type of its elements.
    pub fn check_item(&self, item: &BatchItem) -> Result<DataType> {
        require("buf", item.buffer)?;
        check_count(item.count)?;
        let data_type = DataType::from_number(item.data_type)?;
        check_rank("peer", item.peer, self.size)?;
        Ok(data_type)
    }

    fn plan_messages(&self, kind: OperatorKind, items: &[BatchItem]) -> Result<Option<Plan>> {
        let (mut reads, mut writes, mut messages) = (Spans::new(), Spans::new(), Vec::new());
        for item in items.iter().filter(|item| item.count > 0) {
            let data_type = self.check_item(item)?;
            let spans = if item.receives { &mut writes } else { &mut reads };
            let bytes = item.count * data_type.bytes();
            spans.push(self.span(item.buffer, bytes));
            messages.push(Message {
                receives: item.receives,
                peer: item.peer,
                header: Header::new(OperatorKind::Send, data_type, item.count),
                place: Piece { span: spans.len() - 1, start: 0, bytes: bytes as usize },
            });
        }
        self.check_own_messages(&messages)?;
        let Some(first) = messages.first() else { return Ok(None) };
        let count = if messages.len() == 1 { first.header.count } else { 0 };
        let header = Header { kind, ..first.header };
        let action = Action::Messages(messages);
        Ok(Some(Plan { kind, count, header, action, reads, writes, scratch: 0 }))
    }

    /// What a rank sends to itself, it receives in the same batch.
    fn check_own_messages(&self, messages: &[Message]) -> Result<()> {
        let own = |receives| {
            let is_own = move |m: &&Message| m.peer == self.rank && m.receives == receives;
            messages.iter().filter(is_own).map(|message| message.place.bytes)
        };
        match own(false).eq(own(true)) {
            true => Ok(()),
            false => Err(Error::parameter(format!(
                "rank {} sends to itself what it does not receive in the same batch, or the other way round",
                self.rank
            ))),
        }
    }
}

/// Checks the count of a reducing operator, its type and its reduction.
fn checked(count: u64, data_type: i32, reduction: i32) -> Result<(DataType, Reduction)> {
    check_count(count)?;
    Ok((DataType::from_number(data_type)?, Reduction::from_number(reduction)?))
}

fn same_types(send_type: i32, receive_type: i32) -> Result<DataType> {
    let (send, receive) = (DataType::from_number(send_type)?, DataType::from_number(receive_type)?);
    match send == receive {
        true => Ok(send),
        false => Err(Error::parameter(format!(
            "sendType {} and recvType {} differ",
            send.name(),
            receive.name()
        ))),
    }
}

fn check_own_count(what: &str, count: u64, counts: &[u64], rank: u32) -> Result<()> {
    let own = counts[rank as usize];
    match own == count {
        true => Ok(()),
        false => Err(Error::parameter(format!(
            "{what} is {count}, the list of counts has {own} for this rank, {rank}"
        ))),
    }
}

fn check_apart(operator: &str, send: usize, receive: usize) -> Result<()> {
    match send == receive && send != 0 {
        true => Err(Error::parameter(format!(
            "sendBuf and recvBuf are both {send:#x}: {operator} does not work in place"
        ))),
        false => Ok(()),
    }
}

/// Displacements of pieces without gaps.
fn packed(counts: &[u64]) -> impl Iterator<Item = u64> {
    counts.iter().scan(0u64, |next, count| {
        let start = *next;
        *next = next.saturating_add(*count);
        Some(start)
    })
}

/// A number made of a list that is equal on all ranks.
fn list_number(counts: &[u64]) -> u64 {
    let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    header::hash(&bytes)
}
