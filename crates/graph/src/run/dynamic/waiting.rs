//! Sizes and values that only the device knows: for sizes the run waits for the node that decides them, for values for a
//! task of its own that reads them; in the order of the stream, so also for what others submitted there before.

use super::Run;
use super::memory::ValueMemory;
use super::planning::Planning;
use super::plans::{HOST_LIMIT, Step};
use crate::compile::prepare::ValueId;
use crate::failure::{Failure, Result};
use crate::run::graph_kernel::GraphKernel;
use bytes::Bytes;
use cairn_exec::{DecidedSizes, Outcome};
use cairn_runtime::error;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::task::{Kernel, Location, Span, Spans, Task};
use std::sync::Arc;

impl Run<'_> {
    /// Launches all that is planned, the last of it the node at `at`; waits for that node, and gives the sizes of its
    /// outputs that its values decided.
    pub(super) fn decided_sizes(
        &self,
        at: usize,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<Vec<DecidedSizes>> {
        let name = self.log_wait(at, "its sizes depend on values");
        let last = self.launch_planned(planning, memory)?;
        let step = planning.steps.last().expect("the node that was just planned");
        let decided = match last {
            Some(seq) => step.outcome.wait(&self.source.target.stream, &name, seq),
            None => Ok(Vec::new()),
        };
        match first_failure(&planning.steps) {
            Some(failure) => Err(failure),
            None => Ok(decided?),
        }
    }

    /// Brings the values that a node must know to the host, where they are small: a task at the end of the stream reads
    /// them, and the run waits for it. What else fails on the stream is left for synchronize.
    pub(super) fn fetch(
        &self,
        at: usize,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<()> {
        let name = self.log_wait(at, "it needs values that the device computes");
        self.launch_planned(planning, memory)?;
        let location = Location::Device(self.source.target.device());
        let (mut values, mut reads): (Vec<ValueId>, _) = (Vec::new(), Spans::new());
        let work = &self.flow.prepared.work_nodes[at];
        let row = work.table_operation().map(|operation| operation.row);
        let count = work.inputs.len();
        let needed = |at: &usize| row.is_some_and(|row| row.needs_value_of(*at, count));
        for value in (0..count).filter(needed).filter_map(|at| work.inputs[at]) {
            let Some(tensor) = &planning.tensors[value] else { continue };
            let bytes = tensor.layout.bytes();
            if tensor.bytes.is_none() && bytes <= HOST_LIMIT && !values.contains(&value) {
                let address = self.address(self.flow.roots[value], &planning.hosted, memory)?;
                values.push(value);
                reads.push(Span { address, bytes, location });
            }
        }
        let read = self.read(&name, reads, &planning.steps)?;
        for (value, bytes) in values.into_iter().zip(read) {
            planning.tensors[value].as_mut().expect("the tensor is known").bytes = Some(bytes);
        }
        Ok(())
    }

    /// Waits until the values of a custom operator's inputs are in memory.
    pub(super) fn wait_for_values(&self, at: usize, planning: &Planning) -> Result<()> {
        let name = self.log_wait(at, "its operator reads values from memory");
        self.read(&name, Spans::new(), &planning.steps).map(drop)
    }

    /// Waits for all that is before it on the stream, and reads ranges.
    fn read(&self, name: &str, reads: Spans, steps: &[Step]) -> Result<Vec<Bytes>> {
        let stream = &self.source.target.stream;
        let read = Arc::new(ReadBuffer {
            ranges: reads.len(),
            outcome: Outcome::default(),
            values: Mutex::new(Rank::Outcome, Vec::new()),
        });
        let body = GraphKernel::body(ReadKernel(read.clone()), self.label, name);
        let writes = Spans::new();
        let seq = stream.submit(Task { name: "graph value", reads, writes, body })?;
        let waited = read.outcome.wait(stream, name, seq);
        if let Some(failure) = first_failure(steps) {
            return Err(failure);
        }
        waited?;
        let values = std::mem::take(&mut *read.values.lock());
        Ok(values)
    }

    /// The bytes of a value on the device, for a node that has to know them.
    pub(super) fn read_value(&self, node: &str, address: usize, bytes: usize) -> Result<Bytes> {
        log::info!("{} waits at node {node}: a value decides what runs", self.label);
        let location = Location::Device(self.source.target.device());
        let reads = [Span { address, bytes, location }].into_iter().collect();
        let read = self.read(&format!("node {node}"), reads, &[])?;
        Ok(read.into_iter().next().unwrap_or_default())
    }

    /// Logs that the run waits; gives the node's name.
    fn log_wait(&self, at: usize, why: &str) -> String {
        let name = self.flow.prepared.work_nodes[at].name();
        log::info!("{} waits at node {name}: {why}", self.label);
        format!("node {name}")
    }

    /// Launches all that is planned and not launched yet; gives the number of the last task.
    pub(super) fn launch_planned(
        &self,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<Option<u64>> {
        let last = self.launch(&planning.steps[planning.launched..], &planning.hosted, memory)?;
        planning.launched = planning.steps.len();
        planning.is_reusable = false;
        Ok(last)
    }
}

/// Why the first node of a run that failed did so: what comes after it computed with garbage.
fn first_failure(steps: &[Step]) -> Option<Failure> {
    steps.iter().find_map(|step| step.outcome.failure()).map(Failure::from)
}

/// What a task read from the device for the host, and how it ended.
struct ReadBuffer {
    ranges: usize,
    outcome: Outcome,
    /// The bytes of each range.
    values: Mutex<Vec<Bytes>>,
}

/// The kernel that reads.
struct ReadKernel(Arc<ReadBuffer>);

impl Kernel for ReadKernel {
    fn argument(&self, _purpose: Use, _index: usize) -> &str {
        "value"
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> error::Result<()> {
        *self.0.values.lock() =
            (0..self.0.ranges).map(|range| task_memory.copy_read(range).into()).collect();
        Ok(())
    }

    fn on_end(&self, result: &error::Result<()>) {
        self.0.outcome.finish(result);
    }
}
