//! Operators that communicate: their groups become turns of communicators when they are submitted, and links to the other ranks
//! when they run.

use crate::execution::Workers;
use cairn_comm::communicator::{SingleMessage, Step, Turn};
use cairn_comm::{Communicators, DataType};
use cairn_ops::{Fault, Group, GroupUse, Message, Outcome, Reduction};
use cairn_runtime::clock::Epoch;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::raw::TaskMemory;
use cairn_runtime::record::Spine;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Spans};
use cairn_tensor::DType;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The groups of one operator, or of all operators of a graph, each once.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: Vec<GroupUse>,
}

impl Groups {
    /// Adds those of one operator. Returns the place of each.
    pub fn add(&mut self, uses: &[GroupUse]) -> SmallVec<[usize; 1]> {
        uses.iter().map(|one| self.add_one(one)).collect()
    }

    fn add_one(&mut self, one: &GroupUse) -> usize {
        let is_same = |known: &GroupUse| {
            known.name == one.name
                && (known.size.is_none() || one.size.is_none() || known.size == one.size)
        };
        match self.groups.iter().position(is_same) {
            None => {
                self.groups.push(one.clone());
                self.groups.len() - 1
            }
            Some(at) => {
                let known = &mut self.groups[at];
                known.size = known.size.or(one.size);
                known.rank = known.rank.or(one.rank);
                known.is_collective |= one.is_collective;
                known.messages.extend_from_slice(&one.messages);
                at
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes the next turn of every group's communicator for a task of a stream. Fails for a name that no communicator of the
    /// device has, and for another size or rank than the operator was called with.
    pub fn take_turns(&self, stream: &Arc<Stream>, operator: &'static str) -> Result<Turns> {
        let refused =
            |text: String| Error::new(Code::OperatorInvalid, format!("{operator}: {text}"));
        let device = stream.spec.device;
        let mut turns = Turns { turns: SmallVec::new(), blocks: SmallVec::new() };
        for one in &self.groups {
            let GroupUse { name, parameter, size, rank, is_collective, messages } = one;
            let communicators = stream.attachment::<Communicators>().ok_or_else(|| {
                refused(format!("{parameter} = {name:?}: this process has no communicators"))
            })?;
            let communicator = communicators
                .find(device, name)
                .map_err(|error| refused(format!("{parameter} = {name:?}: {error}")))?;
            let (have, this) = (communicator.size() as usize, communicator.rank() as usize);
            if size.is_some_and(|size| size != have) || rank.is_some_and(|rank| rank != this) {
                let size = size.map_or("any number of".to_owned(), |size| size.to_string());
                let rank =
                    rank.map_or(String::new(), |rank| format!(", of which this is rank {rank}"));
                return Err(refused(format!(
                    "{parameter} = {name:?} has {have} ranks, of which this is rank {this}: the call is for {size} ranks{rank}"
                )));
            }
            let messages: SmallVec<[SingleMessage; 2]> = (messages.iter())
                .map(|message| SingleMessage {
                    peer: u32::try_from(message.rank).unwrap_or(u32::MAX),
                    receives: message.receives,
                })
                .collect();
            let (turn, block) = communicator
                .take_turn(stream, operator, *is_collective, &messages)
                .map_err(|error| refused(error.text))?;
            turns.turns.push(turn);
            turns.blocks.push(block);
        }
        Ok(turns)
    }
}

/// The turns of one task that is about to be submitted, and the memory that its reductions are made in: it goes back, in the
/// order of the stream, when this is dropped, after the submit.
pub struct Turns {
    turns: SmallVec<[Turn; 1]>,
    blocks: SmallVec<[Block; 1]>,
}

impl Turns {
    /// Appends that memory to what the task writes.
    pub fn name_memory(&self, device: u32, writes: &mut Spans) {
        let location = Location::Device(device);
        let span = |block: &Block| Span {
            address: block.address(),
            bytes: block.bytes() as usize,
            location,
        };
        writes.extend(self.blocks.iter().map(span));
    }

    /// What the task needs when it runs, and what may go back once it is submitted.
    pub fn split(self) -> (TaskTurns, SmallVec<[Block; 1]>) {
        (TaskTurns { turns: self.turns }, self.blocks)
    }
}

/// The turns of a submitted task.
pub struct TaskTurns {
    turns: SmallVec<[Turn; 1]>,
}

impl TaskTurns {
    /// How many there are: as many ranges at the end of what the task writes are theirs.
    pub fn count(&self) -> usize {
        self.turns.len()
    }

    /// Emits the task as an operator of its communicators.
    pub fn emit(&self, spine: &Spine, epoch: Epoch) {
        self.turns.iter().for_each(|turn| turn.emit(spine, epoch));
    }

    /// Runs the task with its groups. `first` is the index of their first range among those that the task writes. A failure that no
    /// link caused is told to the other ranks, which wait for this one.
    pub fn run(
        &self,
        task_memory: &TaskMemory<'_>,
        first: usize,
        run: impl FnOnce(&[&dyn Group]) -> Result<()>,
    ) -> Result<()> {
        let parallel = Workers(task_memory.scheduler());
        let groups: SmallVec<[RankGroup<'_>; 1]> = (self.turns.iter().enumerate())
            .map(|(at, turn)| RankGroup {
                turn,
                scratch: task_memory.write(first + at),
                parallel: &parallel,
                failure: RefCell::new(None),
            })
            .collect();
        let handed: SmallVec<[&dyn Group; 1]> =
            groups.iter().map(|group| group as &dyn Group).collect();
        let result = run(&handed);
        let Err(error) = result else { return Ok(()) };
        match groups.iter().find_map(|group| group.failure.take()) {
            Some(failure) => {
                let failure = Turn::task_error(failure);
                Err(Error { text: error.text, ..failure })
            }
            None => {
                self.turns.iter().for_each(|turn| turn.abandon(&error.text));
                Err(error)
            }
        }
    }
}

/// One group while a kernel runs.
struct RankGroup<'a> {
    turn: &'a Turn,
    scratch: &'a [Cell<u8>],
    parallel: &'a Workers<'a>,
    failure: RefCell<Option<cairn_comm::Error>>,
}

impl RankGroup<'_> {
    fn step(&self, step: Step<'_>) -> Outcome {
        self.turn.run(step, self.scratch, self.parallel).map_err(|error| {
            let fault = Fault(error.text.clone());
            self.failure.replace(Some(error));
            fault
        })
    }

    fn reduced(
        &self,
        dtype: DType,
        reduction: Reduction,
    ) -> std::result::Result<(DataType, cairn_comm::Reduction), Fault> {
        let reduction = match reduction {
            Reduction::Sum => cairn_comm::Reduction::Sum,
            Reduction::Prod => cairn_comm::Reduction::Product,
            Reduction::Max => cairn_comm::Reduction::Max,
            Reduction::Min => cairn_comm::Reduction::Min,
        };
        match data_type(dtype) {
            Some(data_type) => Ok((data_type, reduction)),
            None => Err(Fault(format!("elements of {dtype} cannot be reduced"))),
        }
    }
}

/// The type under which communicators know elements that they reduce.
fn data_type(dtype: DType) -> Option<DataType> {
    Some(match dtype {
        DType::Int8 => DataType::Int8,
        DType::Int16 => DataType::Int16,
        DType::Int32 => DataType::Int32,
        DType::Int64 => DataType::Int64,
        DType::Uint8 => DataType::Uint8,
        DType::Uint16 => DataType::Uint16,
        DType::Uint32 => DataType::Uint32,
        DType::Uint64 => DataType::Uint64,
        DType::Float16 => DataType::Float16,
        DType::Bf16 => DataType::Bfloat16,
        DType::Float => DataType::Float32,
        DType::Double => DataType::Float64,
        _ => return None,
    })
}

/// Messages as communicators take them: with the other rank.
type RankMessages<'a> = SmallVec<[(u32, &'a [Cell<u8>]); 8]>;

fn by_rank<'a>(messages: &[Message<'a>]) -> RankMessages<'a> {
    messages.iter().map(|message| (message.rank as u32, message.bytes)).collect()
}

impl Group for RankGroup<'_> {
    fn rank(&self) -> usize {
        self.turn.communicator().rank() as usize
    }

    fn size(&self) -> usize {
        self.turn.communicator().size() as usize
    }

    fn all_reduce(&self, dtype: DType, reduction: Reduction, buffer: &[Cell<u8>]) -> Outcome {
        let (data_type, reduction) = self.reduced(dtype, reduction)?;
        self.step(Step::AllReduce(buffer, data_type, reduction))
    }

    fn all_gather(&self, send: &[Cell<u8>], receive: &[Cell<u8>]) -> Outcome {
        self.step(Step::AllGather(send, receive))
    }

    fn reduce_scatter(
        &self,
        dtype: DType,
        reduction: Reduction,
        send: &[Cell<u8>],
        receive: &[Cell<u8>],
    ) -> Outcome {
        let (data_type, reduction) = self.reduced(dtype, reduction)?;
        self.step(Step::ReduceScatter(send, receive, data_type, reduction))
    }

    fn broadcast(&self, root: usize, buffer: &[Cell<u8>]) -> Outcome {
        self.step(Step::Broadcast(root as u32, buffer))
    }

    fn exchange(&self, outgoing: &[Message<'_>], incoming: &[Message<'_>]) -> Outcome {
        self.step(Step::AllToAll(&by_rank(outgoing), &by_rank(incoming)))
    }

    fn send_receive(&self, outgoing: &[Message<'_>], incoming: &[Message<'_>]) -> Outcome {
        self.step(Step::Messages(&by_rank(outgoing), &by_rank(incoming)))
    }

    fn barrier(&self) -> Outcome {
        self.step(Step::Barrier)
    }
}
