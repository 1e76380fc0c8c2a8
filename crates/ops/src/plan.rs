//! What a call will do: the memory it touches, the workspace it needs, and what runs.

use crate::error::{Fault, Outcome};
use crate::group::{Group, GroupUse};
use crate::saturation::saturate;
use crate::stage::{ComputedStages, OfferedStage};
use cairn_tensor::kernels::epilogue::Epilogue;
use cairn_tensor::parallel::Parallel;
use cairn_tensor::{DType, Layout, View, ViewMut};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a kernel reaches one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
}

/// A range of memory that a kernel touches.
#[derive(Clone, Debug)]
pub struct Use {
    /// The parameter's name, for error texts.
    pub parameter: &'static str,
    /// The parameter's index among the arguments, and the index in its list.
    pub argument: (usize, usize),
    /// First byte.
    pub address: usize,
    /// How many.
    pub bytes: usize,
    /// Bytes from the start of the storage to the first byte.
    pub byte_offset: isize,
    /// What is done with it.
    pub access: AccessMode,
    /// The type of its elements.
    pub dtype: DType,
    /// Which elements are touched depends on values, or is more than a layout says: any of them may be, or none.
    /// Otherwise all are.
    pub indexed: bool,
    /// Where the touched elements are, counted from the first byte; `None` where they fill the range.
    pub(crate) gaps: Option<Box<Layout>>,
}

impl Use {
    /// The elements of the range that may be touched, as offset, sizes, strides and element size; the offset counts
    /// from the first byte. Where elements fill the range, whatever their order, these are its bytes in order.
    /// Of a kernel that reaches a part known beforehand (a slice, a diagonal) it is that part; the range is the whole
    /// tensor's all the same.
    pub fn layout(&self) -> Layout {
        match &self.gaps {
            Some(layout) => **layout,
            None => Layout::contiguous(DType::Uint8, &[self.bytes]),
        }
    }

    /// Whether every byte of the range belongs to an element that is touched.
    pub fn is_dense(&self) -> bool {
        self.gaps.is_none()
    }
}

/// The layout, if elements leave gaps in the `bytes` between the first and the last of them.
pub(crate) fn gaps(layout: &Layout, bytes: usize) -> Option<Box<Layout>> {
    if layout.is_contiguous() || (layout.bytes() == bytes && !layout.repeats()) {
        return None;
    }
    Some(Box::new(*layout))
}

/// A tensor of the call that a kernel will see: its layout now, its bytes when it runs.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    pub(crate) slot: u16,
    pub(crate) address: usize,
    /// The offset counts from the first byte of the operand's [`Use`].
    pub(crate) layout: Layout,
}

impl Operand {
    /// The same memory with another layout; the new layout's offset counts as the old one's does.
    pub fn with_layout(self, layout: Layout) -> Operand {
        Operand { layout, ..self }
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Deref for Operand {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

/// A part of the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    pub(crate) layout: Layout,
    pub(crate) start: usize,
}

impl Deref for Scratch {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

/// Called with the sizes of an output that depend on values: index of the argument, index in its list, sizes.
pub type SizeCallback<'a> = dyn Fn((usize, usize), &[usize]) + 'a;

/// What a kernel gets when it runs: the bytes of its operands and its workspace, checked, and threads.
pub struct Memory<'a> {
    /// The bytes of each use of the plan, in its order.
    pub uses: &'a [&'a [Cell<u8>]],
    /// The workspace.
    pub workspace: &'a [Cell<u8>],
    /// The threads that compute.
    pub parallel: &'a dyn Parallel,
    /// Called with the sizes of an output that depend on values, by index of the argument.
    pub sized: &'a SizeCallback<'a>,
    /// The groups of the plan, in its order.
    pub groups: &'a [&'a dyn Group],
    /// What the kernel computes of its results before it stores them; only kernels of plans that take stages have one.
    pub epilogue: Option<&'a Epilogue<'a>>,
    /// How results that are too large are treated.
    pub overflow: Overflow<'a>,
}

/// How results that are too large are treated; by default they are infinite, and there is no status.
#[derive(Clone, Copy, Default)]
pub struct Overflow<'a> {
    /// In saturation mode: results are finite, and this is set if one would not have been.
    pub saturated: Option<&'a AtomicBool>,
    /// The status of the process, which operators read and clear.
    pub status: Option<&'a AtomicBool>,
}

impl<'a> Memory<'a> {
    /// A tensor to read.
    pub fn view(&self, operand: &Operand) -> View<'a> {
        self.view_with_layout(operand, operand.layout)
    }

    /// The memory of a tensor under another layout that stays inside it.
    #[inline]
    pub fn view_with_layout(&self, operand: &Operand, layout: Layout) -> View<'a> {
        let bytes = self.uses[usize::from(operand.slot)];
        View::over(bytes, layout)
            .unwrap_or_else(|| panic!("{layout} leaves its {} bytes", bytes.len()))
    }

    /// A tensor to write.
    #[inline]
    pub fn out(&self, operand: &Operand) -> ViewMut<'a> {
        let bytes = self.uses[usize::from(operand.slot)];
        let layout = operand.layout;
        ViewMut::over(bytes, layout)
            .unwrap_or_else(|| panic!("{layout} leaves its {} bytes", bytes.len()))
    }

    /// The bytes of a tensor whose elements lie one after the other.
    pub fn bytes(&self, operand: &Operand) -> &'a [Cell<u8>] {
        debug_assert!(operand.layout.is_contiguous());
        let start = operand.layout.offset as usize * operand.layout.item();
        &self.uses[usize::from(operand.slot)][start..start + operand.layout.bytes()]
    }

    /// A part of the workspace.
    pub fn scratch(&self, scratch: &Scratch) -> ViewMut<'a> {
        let bytes = &self.workspace[scratch.start..scratch.start + scratch.bytes()];
        ViewMut::over(bytes, scratch.layout).expect("scratch is contiguous")
    }
}

impl<'a> Memory<'a> {
    /// The bytes of a part of the workspace.
    pub fn scratch_bytes(&self, scratch: &Scratch) -> &'a [Cell<u8>] {
        &self.workspace[scratch.start..scratch.start + scratch.bytes()]
    }

    /// One part of the complex numbers in a part of the workspace; see [`Layout::part`].
    pub fn scratch_part(&self, scratch: &Scratch, which: isize) -> View<'a> {
        View::over(self.scratch_bytes(scratch), scratch.layout.part(which))
            .expect("scratch is contiguous")
    }
}

/// What runs.
pub(crate) trait Kernel: Send + Sync {
    /// Runs on this memory.
    fn run(&self, memory: &Memory<'_>) -> Outcome;

    /// What it computes, as a stage of another plan.
    fn offered(&self) -> Option<OfferedStage> {
        None
    }
}

impl<F: Fn(&Memory<'_>) -> Outcome + Send + Sync> Kernel for F {
    fn run(&self, memory: &Memory<'_>) -> Outcome {
        self(memory)
    }
}

/// Packs the bytes of an operand, for [`Packing`].
pub type PackFunction = dyn Fn(&dyn Parallel, &[u8], &[Cell<u8>]) + Send + Sync;

/// The bytes of an operand in the order that a kernel wants them, made once for many runs.
#[derive(Clone)]
pub struct Packing {
    /// How many bytes there are.
    pub bytes: usize,
    /// Equal texts mean that equal bytes are packed to equal bytes.
    pub format: Arc<str>,
    function: Arc<PackFunction>,
}

impl Packing {
    /// Packs `from`, all bytes of the operand, into `into`, which has as many as [`Packing::bytes`].
    pub fn pack(&self, parallel: &dyn Parallel, from: &[u8], into: &[Cell<u8>]) {
        (self.function)(parallel, from, into);
    }
}

/// What a plan becomes once an operand is packed.
struct PackedPlan {
    /// Index of the operand among the uses.
    slot: usize,
    packing: Packing,
    workspace: usize,
    kernel: Box<dyn Kernel>,
    takes_stages: bool,
}

/// A call, checked and ready: made by a row's function.
pub struct Plan {
    /// The memory it touches; the kernel sees it in this order.
    pub uses: SmallVec<[Use; 4]>,
    /// Bytes of workspace it needs.
    pub workspace: usize,
    /// Whether it draws random numbers.
    pub is_random: bool,
    /// The groups of ranks that it communicates in: then it waits for others, and does not run on a thread that must not.
    pub groups: SmallVec<[GroupUse; 0]>,
    /// Whether its time follows from the bytes that it touches, a few nanoseconds for each.
    pub is_light: bool,
    kernel: Box<dyn Kernel>,
    packed: Option<Box<PackedPlan>>,
    /// Whether the kernel computes [`Memory::epilogue`].
    pub(crate) takes_stages: bool,
    /// What it computes of its results.
    pub(crate) stages: Option<Box<ComputedStages>>,
}

impl Plan {
    pub(crate) fn new(uses: SmallVec<[Use; 4]>, workspace: usize, kernel: Box<dyn Kernel>) -> Plan {
        Plan {
            uses,
            workspace,
            is_random: false,
            groups: SmallVec::new(),
            is_light: false,
            kernel,
            packed: None,
            takes_stages: false,
            stages: None,
        }
    }

    /// The same, which can take `operand` packed, whoever calls that worth it: of `count` elements of `f32` that `pack` makes
    /// of all its bytes, with a kernel and a workspace of its own. The kernel finds them under the operand's number.
    pub(crate) fn with_packing(
        self,
        operand: &Operand,
        (count, format): (usize, String),
        pack: impl Fn(&dyn Parallel, &[u8], ViewMut<'_>) + Send + Sync + 'static,
        workspace: usize,
        kernel: impl Fn(&Memory<'_>, View<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Plan {
        let slot = usize::from(operand.slot);
        let layout = Layout::contiguous(DType::Float, &[count]);
        let function = move |parallel: &dyn Parallel, from: &[u8], into: &[Cell<u8>]| {
            pack(parallel, from, ViewMut::over(into, layout).expect("as many bytes"));
        };
        let packing =
            Packing { bytes: layout.bytes(), format: format.into(), function: Arc::new(function) };
        let kernel = move |memory: &Memory<'_>| {
            kernel(memory, View::over(memory.uses[slot], layout).expect("packed bytes"))
        };
        let kernel = Box::new(kernel);
        let packed = PackedPlan { slot, packing, workspace, kernel, takes_stages: false };
        Plan { packed: Some(Box::new(packed)), ..self }
    }

    /// The same, whose kernel computes [`Memory::epilogue`]: of a plan with a packed operand, that one's.
    pub(crate) fn taking_stages(mut self) -> Plan {
        match &mut self.packed {
            Some(packed) => packed.takes_stages = true,
            None => self.takes_stages = true,
        }
        self
    }

    /// The index of the use that can be packed.
    pub fn packable(&self) -> Option<usize> {
        self.packed.as_ref().map(|packed| packed.slot)
    }

    /// From now on it runs with the packed bytes of the use that [`Plan::packable`] names. The use's `bytes` are theirs.
    pub fn pack(&mut self) -> Option<Packing> {
        let packed = *self.packed.take()?;
        let PackedPlan { slot, packing, workspace, kernel, takes_stages } = packed;
        let one = &mut self.uses[slot];
        (one.bytes, one.gaps) = (packing.bytes, None);
        (self.workspace, self.kernel) = (workspace, kernel);
        self.takes_stages = takes_stages;
        Some(packing)
    }

    /// The same, marked as one whose time follows from the bytes that it touches.
    pub(crate) fn light(self) -> Plan {
        Plan { is_light: true, ..self }
    }

    /// What it computes, as a stage of another plan.
    pub(crate) fn offered(&self) -> Option<OfferedStage> {
        self.kernel.offered()
    }

    /// Runs it. The memory has the plan's uses and at least its workspace.
    pub fn run(&self, memory: &Memory<'_>) -> Outcome {
        if memory.workspace.len() < self.workspace {
            let (have, want) = (memory.workspace.len(), self.workspace);
            return Err(Fault(format!("a workspace of {have} bytes: expected {want}")));
        }
        match &self.stages {
            None => self.kernel.run(memory),
            Some(stages) => stages.with_epilogue(memory, |memory| self.kernel.run(memory)),
        }?;
        if let Some(saturated) = memory.overflow.saturated {
            for (one, cells) in self.uses.iter().zip(memory.uses) {
                if saturate(one, cells) {
                    saturated.store(true, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }
}
