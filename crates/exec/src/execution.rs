//! A planned call, ready to be submitted, once or many times.

use crate::accesses::access;
use crate::groups::{Groups, TaskTurns};
use crate::outcome::Outcome;
use cairn_ops::{Fault, Group, Memory, Overflow, Plan};
use cairn_runtime::clock::Epoch;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::record::{Access, Mode, Spine};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Kernel, Location, Span, Spans, Task};
use cairn_runtime::worker::Scheduler;
use cairn_tensor::kernels::strip::runs_here;
use cairn_tensor::parallel::Parallel;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// A workspace begins on a multiple of this.
const ALIGN: usize = 16;

/// A light kernel that touches at most so many bytes takes a microsecond or two, whatever its formula.
const SHORT_BYTES: usize = 8 << 10;

/// The distance between the starts of two ranges (address, bytes) that overlap; `None` if they do not.
fn overlap_distance(a: (usize, usize), b: (usize, usize)) -> Option<isize> {
    let overlaps =
        a.1 > 0 && b.1 > 0 && a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1);
    overlaps.then(|| a.0.wrapping_sub(b.0) as isize)
}

/// Gets the sizes of an output that only its values decide: index of the argument, index in its list, sizes.
pub type SizesCallback = Box<dyn Fn((usize, usize), &[usize]) + Send + Sync>;

/// One call of an operator: its plan and its name. It holds no memory and no stream, and is what runs in a
/// stream, as often as it is submitted.
pub struct Execution {
    /// The name the user knows it by.
    pub name: &'static str,
    plan: Plan,
    on_sizes: Option<SizesCallback>,
    outcome: Option<Arc<Outcome>>,
    failure_prefix: Option<Box<str>>,
}

impl Execution {
    /// A call that was planned. `on_sizes` gets the sizes of outputs that depend on values.
    pub fn new(name: &'static str, plan: Plan, on_sizes: Option<SizesCallback>) -> Arc<Execution> {
        Arc::new(Execution { name, plan, on_sizes, outcome: None, failure_prefix: None })
    }

    /// A call that is submitted once and waited for: its task fills `outcome`. Texts of failures begin with
    /// `failure_prefix`, which names the node of a graph that it belongs to.
    pub fn watched(
        name: &'static str,
        plan: Plan,
        outcome: Arc<Outcome>,
        failure_prefix: Option<String>,
    ) -> Arc<Execution> {
        let failure_prefix = failure_prefix.map(String::into_boxed_str);
        Arc::new(Execution { name, plan, on_sizes: None, outcome: Some(outcome), failure_prefix })
    }

    /// Bytes of workspace it needs.
    pub fn workspace(&self) -> usize {
        self.plan.workspace
    }

    /// The address of each range it touches, in the plan's order. [`Execution::submit`] takes such a list.
    pub fn addresses(&self) -> SmallVec<[usize; 6]> {
        self.plan.uses.iter().map(|one| one.address).collect()
    }

    /// The name of the parameter whose memory is at an index of that list.
    pub fn parameter(&self, at: usize) -> &'static str {
        self.plan.uses.get(at).map_or("argument", |one| one.parameter)
    }

    /// Whether the call reads or writes the memory of an argument.
    pub fn touches(&self, argument: (usize, usize)) -> bool {
        self.plan.uses.iter().any(|one| one.argument == argument)
    }

    /// Moves an argument to another storage in a list of addresses. False if the call touches no such
    /// argument.
    pub fn relocate(
        &self,
        addresses: &mut [usize],
        argument: (usize, usize),
        storage: usize,
    ) -> bool {
        let mut found = false;
        for (one, address) in self.plan.uses.iter().zip(addresses) {
            if one.argument == argument {
                *address = storage.wrapping_add_signed(one.byte_offset);
                found = true;
            }
        }
        found
    }

    /// Queues it with workspace at an address; there are at least [`Execution::workspace`] bytes. Gives the
    /// number of the task on its stream.
    pub fn submit(
        self: &Arc<Execution>,
        stream: &Arc<Stream>,
        addresses: &[usize],
        workspace: usize,
    ) -> Result<u64> {
        if !runs_here() {
            return Err(Error::new(
                Code::FeatureNotSupport,
                format!("{}: operators need a processor with AVX2, FMA and F16C", self.name),
            ));
        }
        self.check_memory(addresses, workspace)?;
        let location = Location::Device(stream.spec.device);
        let (mut reads, mut writes) = (Spans::new(), Spans::new());
        for (one, address) in self.plan.uses.iter().zip(addresses) {
            let span = Span { address: *address, bytes: one.bytes, location };
            if one.access.reads {
                reads.push(span);
            }
            if one.access.writes {
                writes.push(span);
            }
        }
        if self.plan.workspace > 0 {
            writes.push(Span { address: workspace, bytes: self.plan.workspace, location });
        }
        if !self.plan.groups.is_empty() {
            return self.submit_with_turns(stream, reads, writes);
        }
        let body = Body::Kernel(self.clone());
        let task = Task { name: self.name, reads, writes, body };
        if self.is_short() { stream.submit_short(task) } else { stream.submit(task) }
    }

    /// Queues a call that communicates.
    fn submit_with_turns(
        self: &Arc<Execution>,
        stream: &Arc<Stream>,
        reads: Spans,
        mut writes: Spans,
    ) -> Result<u64> {
        let mut groups = Groups::default();
        let places = groups.add(&self.plan.groups);
        let turns = groups.take_turns(stream, self.name)?;
        let first = writes.len();
        turns.name_memory(stream.spec.device, &mut writes);
        let (turns, _memory) = turns.split();
        let execution = self.clone();
        let body = Body::Exchange(Arc::new(Communicating { execution, turns, places, first }));
        stream.submit(Task { name: self.name, reads, writes, body })
    }

    /// Whether it takes no longer than to wake a thread for it.
    fn is_short(&self) -> bool {
        self.plan.is_light
            && self.plan.uses.iter().map(|one| one.bytes).sum::<usize>() <= SHORT_BYTES
    }

    /// Refuses a workspace that is not aligned or shares memory with a tensor, and tensors that were moved so
    /// that they share memory otherwise than when the call was planned.
    fn check_memory(&self, addresses: &[usize], workspace: usize) -> Result<()> {
        let wrong =
            |text: String| Err(Error::new(Code::OperatorInvalid, format!("{}: {text}", self.name)));
        let uses = &self.plan.uses;
        let expected = self.plan.workspace;
        if expected > 0 && !workspace.is_multiple_of(ALIGN) {
            return wrong(format!(
                "the workspace {workspace:#x} does not lie on a multiple of {ALIGN}"
            ));
        }
        let moved = uses.iter().zip(addresses).any(|(one, address)| one.address != *address);
        for (at, (one, address)) in uses.iter().zip(addresses).enumerate() {
            if expected > 0
                && overlap_distance((*address, one.bytes), (workspace, expected)).is_some()
            {
                let name = one.parameter;
                return wrong(format!(
                    "the workspace {workspace:#x} of {expected} bytes shares memory with {name}"
                ));
            }
            if !moved || !one.access.writes {
                continue;
            }
            for (other_at, (other, other_address)) in uses.iter().zip(addresses).enumerate() {
                let now = overlap_distance((*address, one.bytes), (*other_address, other.bytes));
                let before =
                    overlap_distance((one.address, one.bytes), (other.address, other.bytes));
                if at != other_at && now != before {
                    let (a, b) = (one.parameter, other.parameter);
                    return wrong(format!(
                        "{a} and {b} were moved and share memory otherwise than when the call was planned"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Kernel for Execution {
    fn failure_prefix(&self) -> Option<&str> {
        self.failure_prefix.as_deref()
    }

    fn on_end(&self, result: &Result<()>) {
        if let Some(outcome) = &self.outcome {
            outcome.finish(result);
        }
    }

    fn argument(&self, purpose: Use, index: usize) -> &str {
        let expected = |one: &&cairn_ops::Use| match purpose {
            Use::Read => one.access.reads,
            Use::Overwrite => one.access.writes,
        };
        self.plan.uses.iter().filter(expected).nth(index).map_or("workspace", |one| one.parameter)
    }

    fn each_access(&self, reads: &[Span], writes: &[Span], report: &mut dyn FnMut(Access)) {
        let (mut read, mut written) = (reads.iter(), writes.iter());
        for one in &self.plan.uses {
            let read_span = one.access.reads.then(|| read.next()).flatten();
            let written_span = one.access.writes.then(|| written.next()).flatten();
            if let Some(span) = read_span.or(written_span) {
                report(access(one, span.address));
            }
        }
        for workspace in written {
            report(Access::range(workspace.address, workspace.bytes as u64, Mode::Write));
        }
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        self.run_in(task_memory, &[])
    }
}

impl Execution {
    /// Runs with these groups, in the plan's order.
    fn run_in(&self, task_memory: &TaskMemory<'_>, groups: &[&dyn Group]) -> Result<()> {
        let (mut read, mut written) = (0, 0);
        let mut uses: SmallVec<[&[Cell<u8>]; 6]> = SmallVec::new();
        for one in &self.plan.uses {
            uses.push(if one.access.reads {
                task_memory.read(read)
            } else {
                task_memory.write(written)
            });
            read += usize::from(one.access.reads);
            written += usize::from(one.access.writes);
        }
        let workspace = if self.plan.workspace > 0 { task_memory.write(written) } else { &[] };
        let sized = |argument: (usize, usize), dims: &[usize]| {
            if let Some(on_sizes) = &self.on_sizes {
                on_sizes(argument, dims);
            }
            if let Some(outcome) = &self.outcome {
                outcome.decide(argument, dims);
            }
        };
        let parallel = Workers(task_memory.scheduler());
        let memory = Memory {
            uses: &uses,
            workspace,
            parallel: &parallel,
            groups,
            sized: &sized,
            epilogue: None,
            overflow: overflow(task_memory),
        };
        self.plan.run(&memory).map_err(|Fault(text)| {
            Error::new(Code::OperatorException, format!("{}: {text}", self.name))
        })
    }
}

/// How a task treats results that are too large.
pub fn overflow<'a>(task_memory: &TaskMemory<'a>) -> Overflow<'a> {
    Overflow { saturated: task_memory.overflowed(), status: Some(task_memory.overflow_status()) }
}

/// One submit of a call that communicates.
struct Communicating {
    execution: Arc<Execution>,
    turns: TaskTurns,
    /// Which turn each group of the plan has.
    places: SmallVec<[usize; 1]>,
    /// The index of the turns' memory among what the task writes.
    first: usize,
}

impl Kernel for Communicating {
    fn failure_prefix(&self) -> Option<&str> {
        self.execution.failure_prefix()
    }

    fn on_end(&self, result: &Result<()>) {
        self.execution.on_end(result);
    }

    fn argument(&self, purpose: Use, index: usize) -> &str {
        self.execution.argument(purpose, index)
    }

    fn each_access(&self, reads: &[Span], writes: &[Span], report: &mut dyn FnMut(Access)) {
        self.execution.each_access(reads, writes, report);
    }

    fn emit_run(&self, spine: &Spine, epoch: Epoch, _: &[Span], _: &[Span]) {
        self.turns.emit(spine, epoch);
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        self.turns.run(task_memory, self.first, |groups| {
            let ordered: SmallVec<[&dyn Group; 1]> =
                self.places.iter().map(|place| groups[*place]).collect();
            self.execution.run_in(task_memory, &ordered)
        })
    }
}

/// The threads of the runtime, as kernels see them.
pub struct Workers<'a>(pub &'a Scheduler);

impl Parallel for Workers<'_> {
    fn width(&self) -> usize {
        self.0.threads()
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        self.0.parallel_for(parts, body);
    }
}
