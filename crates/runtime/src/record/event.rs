//! Everything that happens, as one type.
//!
//! Events borrow: a sink copies what it wants to keep. What is costly (the accesses of a task, its clock) is asked of
//! what the event borrows, and costs nothing where nobody asks.

use super::access::Access;
use crate::clock::{Clock, Epoch, StreamIndex};
use crate::memory::purpose::{Owner, Purpose};
use crate::task::Task;

pub use cairn_record::entry::{
    BlockFault, Callback, Change, Collective, Communicator, Domain, MemoryKind, Outcome, Step,
    StepAccess, StepPlan, SyncObject,
};

/// A kind of event. Sinks choose by kind; nobody listening to a kind costs one atomic load where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// [`Event::Alloc`].
    Alloc,
    /// [`Event::Free`].
    Free,
    /// [`Event::Reusable`].
    Reusable,
    /// [`Event::Usage`].
    Usage,
    /// [`Event::Submit`].
    Submit,
    /// [`Event::Start`].
    Start,
    /// [`Event::End`].
    End,
    /// [`Event::Record`].
    Record,
    /// [`Event::Wait`].
    Wait,
    /// [`Event::Complete`].
    Complete,
    /// [`Event::Synchronize`].
    Synchronize,
    /// [`Event::Stream`].
    Stream,
    /// [`Event::Context`].
    Context,
    /// [`Event::Device`].
    Device,
    /// [`Event::Register`].
    Register,
    /// [`Event::Callback`].
    Callback,
    /// [`Event::Load`].
    Load,
    /// [`Event::Run`].
    Run,
    /// [`Event::Unload`].
    Unload,
    /// [`Event::Touch`].
    Touch,
    /// [`Event::Object`].
    Object,
    /// [`Event::Exit`].
    Exit,
    /// [`Event::HostFault`].
    HostFault,
    /// [`Event::WrongFree`].
    WrongFree,
    /// [`Event::WrongBlock`].
    WrongBlock,
    /// [`Event::Region`].
    Region,
    /// [`Event::Mark`].
    Mark,
    /// [`Event::Communicator`].
    Communicator,
    /// [`Event::Collective`].
    Collective,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = Kind::Collective as usize + 1;

    /// What any task may cause. A collective comes of exchanges alone, and whoever listens to it costs other tasks nothing.
    pub const OF_TASKS: [Kind; 4] = [Kind::Submit, Kind::Start, Kind::End, Kind::Run];

    /// Every kind.
    pub const ALL: [Kind; Kind::COUNT] = [
        Kind::Alloc,
        Kind::Free,
        Kind::Reusable,
        Kind::Usage,
        Kind::Submit,
        Kind::Start,
        Kind::End,
        Kind::Record,
        Kind::Wait,
        Kind::Complete,
        Kind::Synchronize,
        Kind::Stream,
        Kind::Context,
        Kind::Device,
        Kind::Register,
        Kind::Callback,
        Kind::Load,
        Kind::Run,
        Kind::Unload,
        Kind::Touch,
        Kind::Object,
        Kind::Exit,
        Kind::HostFault,
        Kind::WrongFree,
        Kind::WrongBlock,
        Kind::Region,
        Kind::Mark,
        Kind::Communicator,
        Kind::Collective,
    ];
}

/// Something that happened.
///
/// **Order.** What frees or publishes is emitted before it takes effect, what takes or learns after: so of two events of
/// one object, the one that the other depends on has the earlier time, whatever threads they come from.
#[derive(Clone, Copy)]
pub enum Event<'a> {
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
    /// The owner of a block gives it back. Work that was submitted before may still use it. Purpose and owner are those of
    /// the last [`Event::Alloc`] at this address. Blocks that are out when the segment or the device they lie in ends have
    /// no free of their own: they end with it.
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
    /// A task was submitted; emitted under the stream's submit lock, so in the order of the stream.
    Submit {
        /// Its stream.
        stream: StreamIndex,
        /// The device of the stream.
        device: u32,
        /// Its number in the stream.
        seq: u64,
        /// The task; [`Task::each_access`] tells what it touches.
        task: &'a Task,
        /// What events and synchronization have ordered before it, as the engine keeps it for the stream. What the program
        /// knows from a query or a host function is not in it: join `known` of [`Event::Complete`], and what was
        /// submitted before a host function that has started. After an aborted wait it begins anew.
        ordered: &'a Clock,
    },
    /// A task begins to run; a dropped one never does. It and its end have no site: theirs is that of the submit. When a host function starts,
    /// the program knows that all that its submit was ordered after is finished.
    Start {
        /// Its stream.
        stream: StreamIndex,
        /// Its number in the stream.
        seq: u64,
    },
    /// A task has ended; emitted before it counts as finished.
    End {
        /// Its stream.
        stream: StreamIndex,
        /// The device of the stream.
        device: u32,
        /// Its number in the stream.
        seq: u64,
        /// Its name.
        name: &'static str,
        /// The task; `None` for a user function.
        task: Option<&'a Task>,
        /// When it began.
        began_ns: u64,
        /// How it ended.
        outcome: Outcome,
    },
    /// An event was recorded: the record is the task `epoch`, whose [`Event::Submit`] comes next.
    Record {
        /// The event's id; [`crate::event::INTERNAL`] for one of the engine itself.
        event: u32,
        /// Where.
        epoch: Epoch,
    },
    /// A stream was asked to wait for an event: the wait is the task `epoch`, whose [`Event::Submit`] comes next.
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
        known: &'a Clock,
    },
    /// The program waited and goes on: a synchronize, a copy that is done on return, the end of a stream.
    Synchronize {
        /// What was waited for.
        what: SyncObject,
        /// What the program thereby knows to be finished.
        known: &'a Clock,
        /// When the wait began.
        began_ns: u64,
    },
    /// A stream was created or ended. The number of one that ended may be reused; the numbers of its tasks go on.
    Stream {
        /// Its number.
        stream: StreamIndex,
        /// Its device.
        device: u32,
        /// The handle of its context.
        context: u64,
        /// Created or ended.
        change: Change,
        /// How many streams of the user the device has then; default streams are not counted.
        count: usize,
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
    Callback(&'a Callback),
    /// A graph was loaded: what its runs do, one event a plan. Emitted when its memory is there, before anything runs; and
    /// again, with the same id, before the next run after somebody else began to listen.
    Load(&'a StepPlan),
    /// A loaded graph runs. Of a static one it is emitted right before the [`Event::Submit`] of its one task; of a dynamic
    /// one when the run begins: its tasks come next, from the same thread, on the same stream.
    Run {
        /// The plan's id.
        plan: u64,
        /// The stream.
        stream: StreamIndex,
        /// The task of a static graph, by its number in the stream; `None` for a dynamic one.
        seq: Option<u64>,
        /// First bytes of the plan's regions, by number.
        regions: &'a [usize],
    },
    /// A loaded graph ends: its memory is about to go back. Runs that were submitted go on.
    Unload {
        /// [`StepPlan::loaded`] of its plans.
        loaded: u64,
    },
    /// The host touched memory outside of a task: a synchronous copy, or the engine's own reads and writes.
    Touch {
        /// The function that did.
        name: &'static str,
        /// What it touched.
        accesses: &'a [Access],
    },
    /// The program says that it begins or ceases to use a part of its memory.
    Region {
        /// The device.
        device: u32,
        /// First byte.
        address: usize,
        /// How many; 0 where it ends.
        bytes: u64,
        /// Who says so: the name of a domain.
        domain: &'static str,
        /// Begun or ended.
        change: Change,
    },
    /// A mark of the program in time, or the beginning or the end of a range.
    Mark {
        /// The range; 0 for a mark.
        range: u64,
        /// What the program says; empty at the end of a range.
        text: &'a str,
        /// Begun or ended.
        change: Change,
    },
    /// This process joined a communicator, or left it.
    Communicator(&'a Communicator, Change),
    /// An operator of a communicator is about to be submitted as the task that it names: its [`Event::Submit`] comes next.
    Collective(&'a Collective),
    /// The program got a handle, or ended it. A creation is emitted before the program has the handle.
    Object {
        /// What it stands for, as error messages call it: "event", "tensor".
        kind: &'static str,
        /// The handle.
        handle: usize,
        /// Created or ended.
        change: Change,
    },
    /// `main` has returned, or `exit` was called: what happens from now on is the end of the process.
    Exit,
    /// The program itself touched protected device memory, outside of every function of the library. The fault comes next.
    HostFault {
        /// The address.
        address: usize,
        /// True for a store.
        writes: bool,
    },
    /// The program freed what is no live memory; the call fails.
    WrongFree {
        /// The address.
        address: usize,
        /// What is wrong with it.
        reason: &'a str,
    },
    /// A block of a user's allocator is not as the contract has it; the engine goes on.
    WrongBlock {
        /// The user's object.
        object: usize,
        /// The user's handle of the block.
        block: usize,
        /// What is wrong with it.
        fault: BlockFault,
    },
}

impl Event<'_> {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Event::Alloc { .. } => Kind::Alloc,
            Event::Free { .. } => Kind::Free,
            Event::Reusable { .. } => Kind::Reusable,
            Event::Usage { .. } => Kind::Usage,
            Event::Submit { .. } => Kind::Submit,
            Event::Start { .. } => Kind::Start,
            Event::End { .. } => Kind::End,
            Event::Record { .. } => Kind::Record,
            Event::Wait { .. } => Kind::Wait,
            Event::Complete { .. } => Kind::Complete,
            Event::Synchronize { .. } => Kind::Synchronize,
            Event::Stream { .. } => Kind::Stream,
            Event::Context { .. } => Kind::Context,
            Event::Device { .. } => Kind::Device,
            Event::Register { .. } => Kind::Register,
            Event::Callback(_) => Kind::Callback,
            Event::Load(_) => Kind::Load,
            Event::Run { .. } => Kind::Run,
            Event::Unload { .. } => Kind::Unload,
            Event::Touch { .. } => Kind::Touch,
            Event::Object { .. } => Kind::Object,
            Event::Region { .. } => Kind::Region,
            Event::Mark { .. } => Kind::Mark,
            Event::Communicator(..) => Kind::Communicator,
            Event::Collective(_) => Kind::Collective,
            Event::Exit => Kind::Exit,
            Event::HostFault { .. } => Kind::HostFault,
            Event::WrongFree { .. } => Kind::WrongFree,
            Event::WrongBlock { .. } => Kind::WrongBlock,
        }
    }
}
