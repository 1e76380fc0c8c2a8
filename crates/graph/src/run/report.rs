//! The events of a loaded graph: its plans and its runs.

use cairn_runtime::clock::StreamIndex;
use cairn_runtime::record::event::{Step, StepPlan};
use cairn_runtime::record::{Event, Kind, Spine};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A number that no other load and no other plan of the process has.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One plan of a loaded graph as subscribers get it; made when there is one.
pub struct PlanReport {
    id: u64,
    loaded: u64,
    plan: OnceLock<StepPlan>,
    /// The version of the subscriptions that it was emitted to; 0 for none.
    emitted_to: AtomicU32,
}

impl PlanReport {
    /// A plan of the graph that was loaded under this number.
    pub fn new(loaded: u64) -> PlanReport {
        let (plan, emitted_to) = (OnceLock::new(), AtomicU32::new(0));
        PlanReport { id: next_id(), loaded, plan, emitted_to }
    }

    /// Emits the plan, unless all subscribers have it.
    pub fn emit_load(&self, spine: &Spine, label: &str, steps: impl FnOnce() -> Vec<Step>) {
        let subscription_version = spine.subscription_version();
        if !spine.has_listener(Kind::Load)
            || self.emitted_to.load(Ordering::Acquire) == subscription_version
        {
            return;
        }
        let plan = self.plan.get_or_init(|| {
            let (id, loaded) = (self.id, self.loaded);
            StepPlan { id, loaded, label: label.into(), steps: steps() }
        });
        spine.emit(Kind::Load, || Event::Load(plan));
        self.emitted_to.store(subscription_version, Ordering::Release);
    }

    /// Emits a run, of a static graph with its task and the first bytes of its regions. The plan comes before it.
    pub fn emit_run(
        &self,
        spine: &Spine,
        stream: StreamIndex,
        seq: Option<u64>,
        regions: &[usize],
    ) {
        let plan = self.id;
        spine.emit(Kind::Run, || Event::Run { plan, stream, seq, regions });
    }
}
