//! Tasks that communicate in the middle of something else: fused operators, and graphs with collectives in them.

use super::Communicator;
use super::submit::RunningGuard;
use crate::Code;
use crate::algorithms::{self, Buffers, chunk_bytes};
use crate::data_type::DataType;
use crate::error::{Error, Result};
use crate::header::{Header, STEP_BITS, TURN};
use crate::links::Links;
use crate::operator::OperatorKind;
use crate::plan::{Action, Message, Piece, Pieces, reducer};
use crate::reduction::Reduction;
use cairn_record::Name;
use cairn_runtime::clock::Epoch;
use cairn_runtime::error as runtime;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::Collective;
use cairn_runtime::record::{Event, Kind, Spine};
use cairn_runtime::stream::Stream;
use cairn_sync::lock::{Mutex, Rank};
use cairn_tensor::parallel::Parallel;
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::sync::Arc;

/// A message to or from one rank that a task will exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleMessage {
    /// The other rank.
    pub peer: u32,
    /// Whether it is received.
    pub receives: bool,
}

/// The place of one task among the operators of a communicator. Taken when the task is submitted; its steps run when the
/// task does, in the same order on every rank, on one thread.
pub struct Turn {
    communicator: Arc<Communicator>,
    operator: &'static str,
    /// The number and history of its first step; `None` for a task of single messages alone.
    ticket: Option<Header>,
    /// The single messages that it was taken for, with their numbers.
    messages: Vec<(SingleMessage, u64)>,
    steps: Mutex<Steps>,
}

struct Steps {
    /// Collective steps so far.
    done: u64,
    /// The numbers of single messages that are still to come, in their order.
    messages: Vec<(SingleMessage, u64)>,
}

/// One step of a task.
#[derive(Clone, Copy)]
pub enum Step<'a> {
    /// Every rank gets the reduction of all buffers, in place.
    AllReduce(&'a [Cell<u8>], DataType, Reduction),
    /// Every rank gets all buffers by rank: from, to.
    AllGather(&'a [Cell<u8>], &'a [Cell<u8>]),
    /// Each rank gets the reduction of its part: from, to.
    ReduceScatter(&'a [Cell<u8>], &'a [Cell<u8>], DataType, Reduction),
    /// Every rank gets the buffer of this one.
    Broadcast(u32, &'a [Cell<u8>]),
    /// A part for each rank and one from each; one that is not listed is empty.
    AllToAll(&'a [(u32, &'a [Cell<u8>])], &'a [(u32, &'a [Cell<u8>])]),
    /// Single messages: what is sent, what is received. They are those that the turn was taken for.
    Messages(&'a [(u32, &'a [Cell<u8>])], &'a [(u32, &'a [Cell<u8>])]),
    /// Waits for all ranks.
    Barrier,
}

impl Communicator {
    /// Takes the next place for a task of a stream of the communicator's device, and memory of the stream's pool for its
    /// reductions, which the task has to name among what it writes. `messages` are its single messages, in the order in which it
    /// exchanges them; `is_collective` says whether it does anything that all ranks take part in.
    pub fn take_turn(
        self: &Arc<Communicator>,
        stream: &Arc<Stream>,
        operator: &'static str,
        is_collective: bool,
        messages: &[SingleMessage],
    ) -> Result<(Turn, Block)> {
        self.check_stream(stream, OperatorKind::Fused)?;
        let size = self.size();
        if let Some(wrong) = messages.iter().find(|message| message.peer >= size) {
            return Err(Error::parameter(format!(
                "{operator}: {} is no rank of the communicator \"{}\", which has {size}",
                wrong.peer,
                self.name()
            )));
        }
        let owner = Owner { operator: Some(operator), ..Owner::default() };
        let request = Request::bytes(self.turn_scratch_bytes() as u64).on(stream);
        let request = request.purpose(Purpose::Collective, owner);
        let scratch = Block::allocate(&self.allocator, &request)
            .map_err(|error| Error::from(error).of(operator))?;
        let mut launch = self.launch.lock();
        self.check_usable().map_err(|error| error.of(operator))?;
        let ticket = is_collective.then(|| {
            let name = crate::header::hash(operator.as_bytes());
            launch.take_ticket(Header::new(OperatorKind::Fused, DataType::Int8, name))
        });
        let number = |message: &SingleMessage| {
            (*message, launch.take_message(message.peer, message.receives))
        };
        let messages: Vec<_> = messages.iter().map(number).collect();
        let steps = Mutex::new(Rank::Running, Steps { done: 0, messages: messages.clone() });
        Ok((Turn { communicator: self.clone(), operator, ticket, messages, steps }, scratch))
    }

    /// Bytes that the reductions of a turn are made in, whatever they reduce.
    fn turn_scratch_bytes(&self) -> usize {
        self.size() as usize
            * chunk_bytes(self.size(), self.buffer_bytes()).max(algorithms::FLAT_BYTES)
    }
}

impl Turn {
    /// The communicator.
    pub fn communicator(&self) -> &Arc<Communicator> {
        &self.communicator
    }

    /// Runs the next step. `scratch` is the memory that the turn was given. Blocks until this rank's part is done.
    pub fn run(&self, step: Step<'_>, scratch: &[Cell<u8>], parallel: &dyn Parallel) -> Result<()> {
        let communicator = &*self.communicator;
        let (header, action, reads, writes) = self.prepare(step)?;
        let _running = RunningGuard::begin(communicator, &header)?;
        let buffers = Buffers { reads, writes, scratch, parallel };
        let Some((mesh, _)) = &communicator.parts.connection else {
            algorithms::run_alone(&action, &buffers);
            return Ok(());
        };
        let links = Links {
            mesh: &**mesh,
            rank: communicator.rank(),
            size: communicator.size(),
            header,
            deadline: communicator.deadline(header.kind),
        };
        algorithms::run(&action, &links, &buffers, communicator.buffer_bytes())
            .map_err(|failure| communicator.fail(&format!("{}: {header}", self.operator), failure))
    }

    /// The task failed by itself: the other ranks, which would wait for its steps, are told why.
    pub fn abandon(&self, reason: &str) {
        self.communicator.abandon(self.operator, reason);
    }

    /// The error of a task whose step failed.
    pub fn task_error(error: Error) -> runtime::Error {
        super::failure::task_error(error)
    }

    /// Emits that the task with this number is an operator of the communicator.
    pub fn emit(&self, spine: &Spine, epoch: Epoch) {
        if !spine.has_listener(Kind::Collective) {
            return;
        }
        let peers = |receives: bool| {
            let of = self.messages.iter().filter(|(message, _)| message.receives == receives);
            of.map(|(message, _)| message.peer).collect()
        };
        let first = || self.messages.first().map_or(0, |(_, number)| *number);
        let collective = Collective {
            communicator: self.communicator.id,
            ticket: self.ticket.map_or_else(first, |header| header.ticket),
            operator: Name::Static(self.operator),
            epoch,
            count: 0,
            data_type: DataType::Int8 as u8,
            reduction: None,
            root: None,
            to: peers(false),
            from: peers(true),
        };
        spine.emit(Kind::Collective, || Event::Collective(&collective));
    }

    /// The header of the next collective step.
    fn next(&self, kind: OperatorKind, data_type: DataType, count: usize) -> Result<Header> {
        let Some(first) = self.ticket else {
            return Err(Error::new(
                Code::Internal,
                format!("{} is no collective operator", self.operator),
            ));
        };
        let mut steps = self.steps.lock();
        let step = steps.done;
        steps.done += 1;
        if step >> STEP_BITS != 0 {
            return Err(Error::unsupported(format!(
                "{}: more than {} collective operators in one task",
                self.operator,
                1 << STEP_BITS
            )));
        }
        let header = Header::new(kind, data_type, count as u64);
        Ok(match step {
            // The number of an operator of its own: a rank that called one notices.
            0 => Header { ticket: first.ticket, history: first.history, ..header },
            _ => Header { ticket: TURN | first.ticket << STEP_BITS | step, ..header },
        })
    }

    #[allow(clippy::type_complexity, reason = "what an algorithm takes")]
    fn prepare<'a>(
        &self,
        step: Step<'a>,
    ) -> Result<(Header, Action, SmallVec<[&'a [Cell<u8>]; 4]>, SmallVec<[&'a [Cell<u8>]; 4]>)>
    {
        let elements =
            |bytes: &[Cell<u8>], data_type: DataType| bytes.len() / data_type.bytes() as usize;
        Ok(match step {
            Step::AllReduce(buffer, data_type, reduction) => {
                let header =
                    self.next(OperatorKind::AllReduce, data_type, elements(buffer, data_type))?;
                let header = Header { reduction: Some(reduction), ..header };
                let action = Action::AllReduce(reducer(data_type, reduction)?);
                (header, action, smallvec![buffer], smallvec![buffer])
            }
            Step::AllGather(from, to) => {
                let header = self.next(OperatorKind::AllGather, DataType::Int8, from.len())?;
                let action = Action::AllGather { pieces: Pieces::Equal(from.len()) };
                (header, action, smallvec![from], smallvec![to])
            }
            Step::ReduceScatter(from, to, data_type, reduction) => {
                let count = elements(to, data_type);
                let header = self.next(OperatorKind::ReduceScatter, data_type, count)?;
                let header = Header { reduction: Some(reduction), ..header };
                let reducer = reducer(data_type, reduction)?;
                let action = Action::ReduceScatter { reducer, pieces: Pieces::Equal(to.len()) };
                (header, action, smallvec![from], smallvec![to])
            }
            Step::Broadcast(root, buffer) => {
                let header = self.next(OperatorKind::Broadcast, DataType::Int8, buffer.len())?;
                let header = Header { root, ..header };
                (header, Action::Broadcast { root }, smallvec![buffer], smallvec![buffer])
            }
            Step::AllToAll(sends, receives) => {
                let header = self.next(OperatorKind::AllToAllV, DataType::Int8, 0)?;
                let (reads, sends) = self.parts_by_rank(sends);
                let (writes, receives) = self.parts_by_rank(receives);
                (header, Action::AllToAll { sends, receives }, reads, writes)
            }
            Step::Messages(sends, receives) => {
                let (mut reads, mut writes) = (SmallVec::new(), SmallVec::new());
                let mut messages = Vec::with_capacity(sends.len() + receives.len());
                for (peer, bytes) in sends {
                    messages.push(self.message(*peer, false, bytes, reads.len())?);
                    reads.push(*bytes);
                }
                for (peer, bytes) in receives {
                    messages.push(self.message(*peer, true, bytes, writes.len())?);
                    writes.push(*bytes);
                }
                let header = messages.first().map_or_else(
                    || Header::new(OperatorKind::Batch, DataType::Int8, 0),
                    |first| first.header,
                );
                (header, Action::Messages(messages), reads, writes)
            }
            Step::Barrier => {
                let header = self.next(OperatorKind::Barrier, DataType::Int8, 0)?;
                (header, Action::Barrier, SmallVec::new(), SmallVec::new())
            }
        })
    }

    /// A part for each rank, by its rank.
    fn parts_by_rank<'a>(
        &self,
        parts: &[(u32, &'a [Cell<u8>])],
    ) -> (SmallVec<[&'a [Cell<u8>]; 4]>, Pieces) {
        let mut buffers = SmallVec::new();
        let nothing = Piece { span: 0, start: 0, bytes: 0 };
        let mut pieces = vec![nothing; self.communicator.size() as usize];
        for (rank, bytes) in parts {
            pieces[*rank as usize] = Piece { span: buffers.len(), start: 0, bytes: bytes.len() };
            buffers.push(*bytes);
        }
        (buffers, Pieces::Listed(pieces))
    }

    /// The next single message that the turn was taken for.
    fn message(
        &self,
        peer: u32,
        receives: bool,
        bytes: &[Cell<u8>],
        span: usize,
    ) -> Result<Message> {
        let expected = SingleMessage { peer, receives };
        let mut steps = self.steps.lock();
        let at = steps.messages.iter().position(|(message, _)| *message == expected);
        let Some(at) = at else {
            let direction = if receives { "from" } else { "to" };
            return Err(Error::new(
                Code::Internal,
                format!(
                    "{}: a message {direction} rank {peer} that the task was not submitted with",
                    self.operator
                ),
            ));
        };
        let (_, ticket) = steps.messages.remove(at);
        let header = Header::new(OperatorKind::Send, DataType::Int8, bytes.len() as u64);
        let place = Piece { span, start: 0, bytes: bytes.len() };
        Ok(Message { receives, peer, header: Header { ticket, ..header }, place })
    }
}
