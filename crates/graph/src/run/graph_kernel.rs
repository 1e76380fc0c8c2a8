//! Tasks beside those of nodes: what a run brings to the device, and what it hands out.

use cairn_runtime::error::Result;
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::task::{Body, Kernel, Span, Task};
use std::sync::Arc;

/// A kernel as a part of a graph: its failures say of which, and of what there.
pub struct GraphKernel<K> {
    kernel: K,
    failure_prefix: String,
}

impl<K: Kernel + 'static> GraphKernel<K> {
    /// The body of a task. `label` is the graph's, `what` a part of it.
    pub fn body(kernel: K, label: &str, what: &str) -> Body {
        Body::Kernel(Arc::new(GraphKernel { kernel, failure_prefix: format!("{label}, {what}") }))
    }
}

impl<K: Kernel> Kernel for GraphKernel<K> {
    fn argument(&self, purpose: Use, index: usize) -> &str {
        self.kernel.argument(purpose, index)
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        self.kernel.run(task_memory)
    }

    fn failure_prefix(&self) -> Option<&str> {
        Some(&self.failure_prefix)
    }

    fn on_end(&self, result: &Result<()>) {
        self.kernel.on_end(result);
    }
}

/// A copy of one range to another that is as long, as a part of a graph.
pub fn copy_task(from: Span, to: Span, label: &str, what: &str) -> Task {
    Task {
        body: GraphKernel::body(CopyKernel, label, what),
        ..Task::copy("graph output", from, to)
    }
}

struct CopyKernel;

impl Kernel for CopyKernel {
    fn argument(&self, purpose: Use, _index: usize) -> &str {
        match purpose {
            Use::Read => "source",
            Use::Overwrite => "output",
        }
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        task_memory.copy(0, 0);
        Ok(())
    }
}
