//! What happened: an entry of a record.

use crate::access::Access;
use crate::name::Name;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use std::borrow::Cow;
use std::fmt;

/// A call of the program: which function, on which thread, and its stack where one was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The function that the program called; empty outside of calls.
    pub entry: Name,
    /// The kernel's number of the thread; 0 outside of calls.
    pub thread: u64,
    /// The number of an earlier [`Happening::Stack`]; 0 where none was taken.
    pub stack: u32,
}

/// Something that happened, when, and in which call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The kernel's number of the thread on which it happened.
    pub thread: u64,
    /// The call of the program.
    pub site: Site,
    /// What happened.
    pub happening: Happening<'a>,
}

/// What memory is for. The numbers 1 to 7 are part of `cairn/reason.h`, all of them part of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Purpose {
    /// The program asked for it: `aclrtMalloc` and similar functions.
    #[default]
    User = 0,
    /// Constants, for as long as a graph is loaded.
    Const = 1,
    /// Intermediates and workspaces of a static graph.
    Feature = 2,
    /// What a graph computes once, when it is loaded.
    Fixed = 3,
    /// An intermediate of a dynamic graph.
    Intermediate = 4,
    /// Scratch memory of one operator.
    Workspace = 5,
    /// An output that the caller left empty.
    Output = 6,
    /// The copy of an input that lies on the host.
    HostCopy = 7,
    /// What a pool hands out in blocks.
    PoolSegment = 8,
    /// What a captured graph keeps.
    Capture = 9,
    /// Buffers of collective communication.
    Collective = 10,
    /// A variable of a session of graphs.
    Variable = 11,
    /// What the program itself says that it uses a part of its memory for: [`Happening::Region`].
    Region = 12,
}

impl Purpose {
    /// Every purpose, by number.
    pub const ALL: [Purpose; 13] = [
        Purpose::User,
        Purpose::Const,
        Purpose::Feature,
        Purpose::Fixed,
        Purpose::Intermediate,
        Purpose::Workspace,
        Purpose::Output,
        Purpose::HostCopy,
        Purpose::PoolSegment,
        Purpose::Capture,
        Purpose::Collective,
        Purpose::Variable,
        Purpose::Region,
    ];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::User => "user",
            Purpose::Const => "const",
            Purpose::Feature => "feature",
            Purpose::Fixed => "fixed feature",
            Purpose::Intermediate => "intermediate",
            Purpose::Workspace => "workspace",
            Purpose::Output => "output",
            Purpose::HostCopy => "host input",
            Purpose::PoolSegment => "pool segment",
            Purpose::Capture => "capture",
            Purpose::Collective => "collective",
            Purpose::Variable => "variable",
            Purpose::Region => "tensor or region",
        }
    }
}

/// Who a block is for, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The id that the user gave the graph: two sessions may have the same.
    pub graph: Option<u32>,
    /// The loaded graph: [`StepPlan::loaded`].
    pub loaded: Option<u64>,
    /// The operator, by the name the user knows; empty for none.
    pub operator: Name,
}

/// Which memory a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Memory of a device, from `aclrtMalloc` and similar functions.
    Device(u32),
    /// Pinned memory of the host.
    Pinned,
    /// Host memory of the program that it registered.
    Registered,
    /// What a pool took from a device to hand out in blocks.
    PoolSegment {
        /// The device.
        device: u32,
        /// The pool's number.
        pool: u32,
    },
    /// A block of a pool.
    PoolBlock {
        /// The device.
        device: u32,
        /// The pool's number.
        pool: u32,
    },
    /// Physical memory of a device, mapped by `aclrtMapMem`.
    Mapped {
        /// The device.
        device: u32,
    },
    /// A block of a user allocator.
    External {
        /// The device.
        device: u32,
        /// The user's object.
        object: usize,
        /// The user's handle of the block.
        block: usize,
    },
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryKind::Device(device) => write!(f, "device {device}"),
            MemoryKind::Pinned => write!(f, "pinned host memory"),
            MemoryKind::Registered => write!(f, "registered host memory"),
            MemoryKind::PoolSegment { device, pool } => {
                write!(f, "a segment of pool {pool} of device {device}")
            }
            MemoryKind::PoolBlock { device, pool } => write!(f, "pool {pool} of device {device}"),
            MemoryKind::Mapped { device } => write!(f, "mapped memory of device {device}"),
            MemoryKind::External { object, .. } => write!(f, "the user's allocator {object:#x}"),
        }
    }
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done,
    /// It failed; what it wrote is undefined.
    Failed,
    /// It never began: its queue was dropped, or its context had failed.
    Dropped,
}

/// Whether something was created or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exists now.
    Created,
    /// It has ended.
    Destroyed,
}

/// The interface that an allocator was registered through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// `aclrtAllocatorRegister`: single operators and models.
    Acl,
    /// `ge::Session::RegisterExternalAllocator`: graphs.
    Ge,
}

/// A call into a user's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserCall {
    /// A block of this many bytes.
    Alloc(usize),
    /// The same, preferably at this address.
    Advise(usize, usize),
    /// The address of a block.
    Address(usize),
    /// A block goes back.
    Free(usize),
}

impl fmt::Display for UserCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserCall::Alloc(bytes) => write!(f, "alloc({bytes})"),
            UserCall::Advise(bytes, near) => write!(f, "allocAdvise({bytes}, {near:#x})"),
            UserCall::Address(block) => write!(f, "getAddrFromBlock({block:#x})"),
            UserCall::Free(block) => write!(f, "free({block:#x})"),
        }
    }
}

/// A call into a user allocator, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The user's object.
    pub object: usize,
    /// Which function, with its arguments.
    pub request: UserCall,
    /// The stream it was for.
    pub stream: Option<StreamIndex>,
    /// What it answered: a block, an address, 0; `None` if it threw.
    pub answer: Option<usize>,
    /// When it was called.
    pub began_ns: u64,
}

/// What is wrong with a block of a user's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFault {
    /// Its count of users was 0 when the engine gave it back: the program has freed it before.
    FreedBefore,
    /// It says that it belongs to another allocator, this object, to which it goes back.
    OfAnother(usize),
}

/// What a program waited for, or queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncObject {
    /// A stream.
    Stream(StreamIndex),
    /// An event, by its id.
    Event(u32),
    /// All streams of a device.
    Device(u32),
}

/// An access of a step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAccess {
    /// The region's number.
    pub region: u32,
    /// The access, its address counted from the region's first byte.
    pub access: Access,
}

/// A step of a static graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node and its operator; of several nodes in one step, those of the first and the last.
    pub node: String,
    /// What it touches.
    pub accesses: Vec<StepAccess>,
}

/// What a loaded graph does. A static one has a plan for its runs and, where some nodes depend on constants alone, one
/// for those, with what each step touches. A dynamic one has one plan without steps: its nodes are tasks of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Tells this plan from every other of the process.
    pub id: u64,
    /// Tells this load of a graph from every other of the process; [`Owner::loaded`] of its memory.
    pub loaded: u64,
    /// What the user calls the graph.
    pub label: String,
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

/// One rank's end of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// Tells it from every other of the process.
    pub id: u64,
    /// What the program calls it.
    pub name: String,
    /// The same on all its ranks, and different from that of every other communicator.
    pub identity: u128,
    /// The rank of this process, or of this device of it.
    pub rank: u32,
    /// How many ranks there are.
    pub size: u32,
    /// The device.
    pub device: u32,
}

/// A call of an operator of a communicator, on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// [`Communicator::id`].
    pub communicator: u64,
    /// Its number among the operators of the communicator, from 1: those with the same number belong together on all ranks.
    pub ticket: u64,
    /// The function.
    pub operator: Name,
    /// The task.
    pub epoch: Epoch,
    /// Elements, as the function counts them; 0 where it has a list of counts.
    pub count: u64,
    /// The number of the element type (`HcclDataType`).
    pub data_type: u8,
    /// The number of the reduction (`HcclReduceOp`), where there is one.
    pub reduction: Option<u8>,
    /// The root, where there is one.
    pub root: Option<u32>,
    /// The ranks that it sends to, where it does not involve all.
    pub to: Vec<u32>,
    /// The ranks that it receives from, where it does not involve all.
    pub from: Vec<u32>,
}

/// What kind of work a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// It takes its place in the order and does nothing.
    Nothing,
    /// A copy, a fill, an operator or a graph: it touches its accesses.
    Work,
    /// A function of the program, which may touch any host memory.
    HostFunction,
    /// The record of an event.
    Record,
    /// The wait for an event.
    Wait,
}

/// A frame of a stack, innermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Code of a library or of the program: the file that was loaded, and the offset in it.
    Native {
        /// The file.
        module: Name,
        /// The offset of the instruction in the file's addresses.
        offset: u64,
    },
    /// A line of Python.
    Python {
        /// The function.
        function: Name,
        /// Its file.
        file: Name,
        /// The line that was being executed.
        line: u32,
    },
}

/// Something that happened. The runtime's `record::Event` says when each is emitted; here they own or borrow their parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening<'a> {
    /// A block was made.
    Alloc {
        /// Which memory.
        kind: MemoryKind,
        /// First byte for its owner.
        address: usize,
        /// Bytes for its owner.
        bytes: u64,
        /// What it is for.
        purpose: Purpose,
        /// Whom it is for.
        owner: Owner,
        /// The stream it is used on; `None` where it belongs to none.
        stream: Option<StreamIndex>,
    },
    /// The owner of a block gives it back.
    Free {
        /// Which memory.
        kind: MemoryKind,
        /// First byte.
        address: usize,
        /// Bytes of its owner.
        bytes: u64,
        /// The stream it was freed on.
        stream: Option<StreamIndex>,
    },
    /// Memory that was freed left the quarantine: its bytes may be allocated again.
    Reusable {
        /// Which memory.
        kind: MemoryKind,
        /// First byte.
        address: usize,
        /// How many.
        bytes: u64,
    },
    /// The figures of a device changed.
    Usage {
        /// The device.
        device: u32,
        /// Bytes that are live, segments of pools counted whole.
        used: u64,
        /// Bytes in the quarantine.
        quarantined: u64,
        /// Bytes it has.
        capacity: u64,
    },
    /// A task was submitted, in the order of its stream.
    Submit {
        /// Its stream.
        stream: StreamIndex,
        /// The device of the stream.
        device: u32,
        /// Its number in the stream.
        seq: u64,
        /// Its name.
        name: Name,
        /// What kind of work it is.
        task: TaskKind,
        /// What it touches.
        accesses: Cow<'a, [Access]>,
        /// What events and synchronization have ordered before it.
        ordered: Cow<'a, Clock>,
    },
    /// A task begins to run.
    Start {
        /// Its stream.
        stream: StreamIndex,
        /// Its number in the stream.
        seq: u64,
    },
    /// A task has ended.
    End {
        /// Its stream.
        stream: StreamIndex,
        /// Its number in the stream.
        seq: u64,
        /// When it began.
        began_ns: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// An event was recorded: the record is the task `epoch`.
    Record {
        /// The event's id; `u32::MAX` for one of the engine itself.
        event: u32,
        /// Where.
        epoch: Epoch,
    },
    /// A stream was asked to wait for an event: the wait is the task `epoch`.
    Wait {
        /// The event's id.
        event: u32,
        /// The record it waits for; `None` for one that is still to come.
        record: Option<Epoch>,
        /// Where it waits.
        epoch: Epoch,
    },
    /// A query answered "complete".
    Complete {
        /// What was asked about.
        what: SyncObject,
        /// What the program thereby knows to be finished.
        known: Cow<'a, Clock>,
    },
    /// The program waited and goes on.
    Synchronize {
        /// What was waited for.
        what: SyncObject,
        /// What the program thereby knows to be finished.
        known: Cow<'a, Clock>,
        /// When the wait began.
        began_ns: u64,
    },
    /// A stream was created or ended.
    Stream {
        /// Its number.
        stream: StreamIndex,
        /// Its device.
        device: u32,
        /// The handle of its context.
        context: u64,
        /// Created or ended.
        change: Change,
    },
    /// A context was created or ended.
    Context {
        /// Its handle.
        context: u64,
        /// Its device.
        device: u32,
        /// Created or ended.
        change: Change,
    },
    /// A device was opened or closed by this process.
    Device {
        /// Its number in this process.
        device: u32,
        /// Created or ended.
        change: Change,
        /// Bytes it has.
        capacity: u64,
    },
    /// A user allocator was registered on a stream, or is registered there no longer.
    Register {
        /// The interface that it was registered through.
        domain: Domain,
        /// The stream.
        stream: StreamIndex,
        /// The user's object.
        object: usize,
        /// Created or ended.
        change: Change,
    },
    /// A user allocator was called, and answered.
    Callback(Callback),
    /// A graph was loaded.
    Load(Cow<'a, StepPlan>),
    /// A loaded graph runs.
    Run {
        /// The plan's id.
        plan: u64,
        /// The stream.
        stream: StreamIndex,
        /// The task of a static graph, by its number in the stream; `None` for a dynamic one.
        seq: Option<u64>,
        /// First bytes of the plan's regions, by number.
        regions: Cow<'a, [usize]>,
    },
    /// A loaded graph ends: its memory is about to go back.
    Unload {
        /// [`StepPlan::loaded`] of its plans.
        loaded: u64,
    },
    /// The host touched memory outside of a task, through a function of the library.
    Touch {
        /// The function that did.
        name: Name,
        /// What it touched.
        accesses: Cow<'a, [Access]>,
    },
    /// The program itself touched device memory, which only tasks may touch.
    HostFault {
        /// The address.
        address: usize,
        /// True for a store.
        writes: bool,
    },
    /// The program freed what is no live memory; the call failed.
    WrongFree {
        /// The address.
        address: usize,
        /// What is wrong with it.
        reason: Cow<'a, str>,
    },
    /// The program says that it begins or ceases to use a part of its memory (`mstxMemRegionsRegister`); torch_npu says so of
    /// every tensor.
    Region {
        /// The device.
        device: u32,
        /// First byte.
        address: usize,
        /// How many; 0 where it ends.
        bytes: u64,
        /// Who says so: the name of a domain.
        domain: Name,
        /// Begun or ended.
        change: Change,
    },
    /// A mark of the program in time (`mstxMarkA`), or the beginning or the end of a range (`mstxRangeStartA`).
    Mark {
        /// The range; 0 for a mark.
        range: u64,
        /// What the program says; empty at the end of a range.
        text: Cow<'a, str>,
        /// Begun or ended.
        change: Change,
    },
    /// An object of the program was created or destroyed: an event, a descriptor, a tensor.
    Object {
        /// What it is, as a user would say it.
        kind: Name,
        /// Its handle.
        handle: u64,
        /// Created or destroyed.
        change: Change,
    },
    /// A stack was taken; sites name it by its number. An entry of another thread that names it may come a little earlier.
    Stack {
        /// Its number.
        number: u32,
        /// Its frames, innermost first.
        frames: Cow<'a, [Frame]>,
    },
    /// The process ended in order: `main` returned or `exit` was called.
    Exit,
    /// The task that is submitted next was prepared by an earlier call: what it touches was decided then.
    Prepared {
        /// Its stream.
        stream: StreamIndex,
        /// Its number in the stream.
        seq: u64,
        /// When that call was.
        prepared_ns: u64,
        /// How many of the task's first accesses were decided then; the workspace comes after them.
        accesses: u32,
    },
    /// This process joined a communicator, or left it.
    Communicator(Cow<'a, Communicator>, Change),
    /// An operator of a communicator: the task `epoch`, whose submit comes next.
    Collective(Cow<'a, Collective>),
    /// A block of a user's allocator is not as the contract has it.
    WrongBlock {
        /// The user's object.
        object: usize,
        /// The user's handle of the block.
        block: usize,
        /// What is wrong with it.
        fault: BlockFault,
    },
}
