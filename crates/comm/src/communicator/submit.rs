//! An operator becomes one task of a stream.

use super::failure::task_error;
use super::{Communicator, Launch};
use crate::Code;
use crate::algorithms::{self, Buffers, LOCAL_SCRATCH};
use crate::config::ExecTimeout;
use crate::error::{Error, Result};
use crate::group;
use crate::header::Header;
use crate::links::Links;
use crate::operator::{Operator, OperatorKind};
use crate::plan::{Action, Plan};
use cairn_record::Name;
use cairn_runtime::clock::Epoch;
use cairn_runtime::error as runtime;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::Collective;
use cairn_runtime::record::{Event, Kind, Spine};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Kernel, Location, Span, Task};
use cairn_runtime::worker::Scheduler;
use cairn_tensor::kernels::strip::runs_here;
use cairn_tensor::parallel::Parallel;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Communicator {
    /// Queues an operator on a stream of the communicator's device: checks it, and submits one task. Returns at once.
    /// An operator without elements is a success and takes no part. Inside a group of the calling thread it is checked,
    /// and queued when the group ends.
    pub fn submit(
        self: &Arc<Communicator>,
        stream: &Arc<Stream>,
        operator: Operator,
    ) -> Result<()> {
        if operator.is_empty() {
            return Ok(());
        }
        if self.parts.entry_log {
            log::info!("{operator:?} on stream {} of \"{}\"", stream.index, self.name());
        }
        if group::is_active() {
            return group::note(self, stream, operator);
        }
        self.submit_now(stream, &operator)
    }

    /// The same, whether the thread is inside a group or not.
    pub(crate) fn submit_now(
        self: &Arc<Communicator>,
        stream: &Arc<Stream>,
        operator: &Operator,
    ) -> Result<()> {
        self.check_stream(stream, operator.kind())?;
        let Some(plan) = self.position().plan(operator)? else { return Ok(()) };
        let name = plan.kind.name();
        let owner = Owner { operator: Some(name), ..Owner::default() };
        let scratch = match plan.scratch {
            0 => None,
            bytes => {
                let request = Request::bytes(bytes as u64).on(stream);
                let request = request.purpose(Purpose::Collective, owner);
                Some(
                    Block::allocate(&self.allocator, &request)
                        .map_err(|error| Error::from(error).of(name))?,
                )
            }
        };
        let mut launch = self.launch.lock();
        self.check_usable().map_err(|error| error.of(name))?;
        let before = (launch.ticket, launch.history);
        let task = self.make_task(&mut launch, plan, scratch.as_ref());
        if let Err(error) = stream.submit(task) {
            (launch.ticket, launch.history) = before;
            return Err(Error::from(error).of(name));
        }
        Ok(())
    }

    /// When an operator that begins now has taken too long.
    pub(super) fn deadline(&self, kind: OperatorKind) -> Option<Instant> {
        match self.parts.exec_timeout {
            ExecTimeout::After(limit) if kind != OperatorKind::Barrier => {
                Instant::now().checked_add(limit)
            }
            _ => None,
        }
    }

    /// Refuses a stream of another device, and a communicator that takes no operators.
    pub(crate) fn check_stream(&self, stream: &Stream, kind: OperatorKind) -> Result<()> {
        let name = kind.name();
        if stream.spec.device != self.device() {
            return Err(Error::parameter(format!(
                "{name}: stream {} belongs to device {}, the communicator \"{}\" to device {}",
                stream.index,
                stream.spec.device,
                self.name(),
                self.device()
            )));
        }
        if !runs_here() {
            let text = format!("{name}: operators need a processor with AVX2, FMA and F16C");
            return Err(Error::unsupported(text));
        }
        self.check_usable().map_err(|error| error.of(name))?;
        match self.state.lock().suspended {
            true => Err(Error::new(
                Code::Suspending,
                format!("{name}: the communicator \"{}\" is suspended", self.name()),
            )),
            false => Ok(()),
        }
    }

    /// The task of a plan, with its numbers.
    fn make_task(
        self: &Arc<Communicator>,
        launch: &mut Launch,
        plan: Plan,
        scratch: Option<&Block>,
    ) -> Task {
        let Plan { kind, count, header, mut action, reads, mut writes, .. } = plan;
        let header = match &mut action {
            Action::Messages(messages) => {
                for message in messages.iter_mut() {
                    message.header.ticket = launch.take_message(message.peer, message.receives);
                }
                Header { ticket: messages.first().map_or(0, |first| first.header.ticket), ..header }
            }
            _ => launch.take_ticket(header),
        };
        if let Some(block) = scratch {
            let location = Location::Device(self.device());
            writes.push(Span { address: block.address(), bytes: block.bytes() as usize, location });
        }
        let has_scratch = scratch.is_some();
        let kernel = Arc::new(Exchange {
            communicator: self.clone(),
            kind,
            count,
            header,
            action,
            ranges: (reads.len(), writes.len()),
            has_scratch,
        });
        let body = match self.size() {
            1 => Body::Kernel(kernel),
            _ => Body::Exchange(kernel),
        };
        Task { name: kind.name(), reads, writes, body }
    }
}

/// An operator in a stream. Runs once.
struct Exchange {
    communicator: Arc<Communicator>,
    kind: OperatorKind,
    count: u64,
    header: Header,
    action: Action,
    /// How many ranges the task reads and writes.
    ranges: (usize, usize),
    /// Whether the last range that is written is scratch memory.
    has_scratch: bool,
}

/// Counts an operator that runs, and the end of it.
pub(super) struct RunningGuard<'a>(&'a Communicator);

impl RunningGuard<'_> {
    /// Fails where the communicator has failed or was destroyed.
    pub(super) fn begin<'a>(
        communicator: &'a Communicator,
        header: &Header,
    ) -> Result<RunningGuard<'a>> {
        let mut state = communicator.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.destroyed {
            return Err(communicator.destroyed_error().of(header));
        }
        state.running += 1;
        Ok(RunningGuard(communicator))
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.operators.fetch_add(1, Ordering::Relaxed);
        let mut state = self.0.state.lock();
        state.running -= 1;
        if state.running == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl Kernel for Exchange {
    fn argument(&self, purpose: Use, index: usize) -> &str {
        match (&self.action, purpose) {
            (Action::Broadcast { .. } | Action::Messages(_), _) => "buf",
            (_, Use::Read) => "sendBuf",
            (_, Use::Overwrite) if self.has_scratch && index + 1 == self.ranges.1 => "scratch",
            (_, Use::Overwrite) => "recvBuf",
        }
    }

    fn run(&self, memory: &TaskMemory<'_>) -> runtime::Result<()> {
        let _running = RunningGuard::begin(&self.communicator, &self.header).map_err(task_error)?;
        let communicator = &*self.communicator;
        let mut local = [0u8; LOCAL_SCRATCH];
        let reads = (0..self.ranges.0).map(|index| memory.read(index)).collect();
        let mut writes: SmallVec<[_; 4]> =
            (0..self.ranges.1).map(|index| memory.write(index)).collect();
        let scratch = match self.has_scratch {
            true => writes.pop().expect("the scratch range is the last"),
            false => Cell::from_mut(&mut local[..]).as_slice_of_cells(),
        };
        let parallel = Workers(memory.scheduler());
        let buffers = Buffers { reads, writes, scratch, parallel: &parallel };
        let Some((mesh, _)) = &communicator.parts.connection else {
            algorithms::run_alone(&self.action, &buffers);
            return Ok(());
        };
        let links = Links {
            mesh: &**mesh,
            rank: communicator.parts.rank,
            size: communicator.parts.size,
            header: self.header,
            deadline: communicator.deadline(self.kind),
        };
        algorithms::run(&self.action, &links, &buffers, communicator.parts.buffer_bytes)
            .map_err(|failure| task_error(communicator.fail(&self.header.to_string(), failure)))
    }

    /// A task that failed before it communicated, such as one on wrong memory, is no part that the other ranks can wait for.
    fn on_end(&self, result: &runtime::Result<()>) {
        if let Err(error) = result {
            self.communicator.abandon(&self.header.to_string(), &error.text);
        }
    }

    fn emit_run(&self, spine: &Spine, epoch: Epoch, _: &[Span], _: &[Span]) {
        if !spine.has_listener(Kind::Collective) {
            return;
        }
        let peers = |receives: bool| match &self.action {
            Action::Messages(messages) => messages
                .iter()
                .filter(|message| message.receives == receives)
                .map(|message| message.peer)
                .collect(),
            _ => Vec::new(),
        };
        let collective = Collective {
            communicator: self.communicator.id,
            ticket: self.header.ticket,
            operator: Name::Static(self.kind.name()),
            epoch,
            count: self.count,
            data_type: self.header.data_type as u8,
            reduction: self.header.reduction.map(|reduction| reduction as u8),
            root: self.kind.has_root().then_some(self.header.root),
            to: peers(false),
            from: peers(true),
        };
        spine.emit(Kind::Collective, || Event::Collective(&collective));
    }
}

/// The threads of the runtime, as kernels see them.
struct Workers<'a>(&'a Scheduler);

impl Parallel for Workers<'_> {
    fn width(&self) -> usize {
        self.0.threads()
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        self.0.parallel_for(parts, body);
    }
}
