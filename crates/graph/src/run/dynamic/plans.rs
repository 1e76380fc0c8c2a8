//! What a dynamic graph does for certain sizes, kept and used again.

use crate::compile::prepare::ValueId;
use crate::executable::RunInput;
use bytes::Bytes;
use cairn_exec::{Execution, Outcome};
use cairn_runtime::lock::{Mutex, Rank};
use cairn_tensor::Layout;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Values up to this size are computed and kept on the host where they can be.
pub const HOST_LIMIT: usize = 8 << 10;

/// How many plans a graph keeps.
const MAX_PLANS: usize = 64;

/// Plans by what they were made for.
pub struct Plans(Mutex<HashMap<Key, Arc<Plan>>>);

impl Default for Plans {
    fn default() -> Plans {
        Plans(Mutex::new(Rank::Plans, HashMap::new()))
    }
}

/// What a plan depends on: sizes of the inputs, and the bytes of small ones on the host.
pub type Key = Vec<(Sizes, Option<Bytes>)>;

/// Type and sizes, to compare.
type Sizes = (i32, SmallVec<[usize; 8]>);

/// What the plan of a run with these inputs depends on.
pub fn key(inputs: &[RunInput]) -> Key {
    (inputs.iter())
        .map(|input| {
            let sizes = (input.layout.dtype.number(), input.layout.dims().into());
            (sizes, input.host.clone().filter(|bytes| bytes.len() <= HOST_LIMIT))
        })
        .collect()
}

impl Plans {
    /// The plan that was kept for these inputs.
    pub fn get(&self, key: &Key) -> Option<Arc<Plan>> {
        self.0.lock().get(key).cloned()
    }

    /// Keeps a plan; if there are [`MAX_PLANS`] already, forgets those.
    pub fn keep(&self, key: Key, plan: Arc<Plan>) {
        let mut plans = self.0.lock();
        if plans.len() >= MAX_PLANS {
            plans.clear();
        }
        plans.insert(key, plan);
    }
}

/// What a run does, for certain sizes.
pub struct Plan {
    /// The nodes that run on the device, in order.
    pub steps: Vec<Step>,
    /// What goes out.
    pub outputs: Vec<Layout>,
    /// Values that were computed on the host.
    pub hosted: HostedValues,
}

/// Bytes of values that were computed on the host, by root.
pub type HostedValues = HashMap<ValueId, Bytes>;

/// One node, planned for certain sizes.
pub struct Step {
    /// Its index among the graph's work nodes.
    pub node: usize,
    /// What runs.
    pub execution: Arc<Execution>,
    /// How its last task ended. Only the run that planned it reads this.
    pub outcome: Arc<Outcome>,
    /// For each range it touches: the value's root, and the offset of the range in its memory, in bytes.
    pub uses: SmallVec<[(ValueId, isize); 4]>,
    /// The memory that its outputs need: root, bytes.
    pub allocations: SmallVec<[(ValueId, usize); 2]>,
    /// The values whose memory is not needed after it.
    pub ends: SmallVec<[ValueId; 3]>,
}
