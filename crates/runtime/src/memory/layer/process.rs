//! The layers of a whole process: one stack per device, one for pinned memory, and one for each of the user's allocators.

use super::spec::MakerKind;
use super::{Figures, Layer, Observer, Spec, Stack, Statistics};
use crate::lock::{Mutex, Rank};
use crate::memory::allocator::Allocator;
use crate::memory::funnel::LayeredAllocator;
use crate::memory::purpose::Purpose;
use crate::record::Spine;
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Above this many stacks, those of released allocators are merged into totals.
const MAX_EXTERNAL_STACKS: usize = 64;

/// What `CAIRN_MEMORY` put over the memory of a process, and the observer over all of it. Empty stacks where there
/// is neither.
pub struct Layers {
    spec: Spec,
    observer: Option<Observer>,
    devices: Vec<Stack>,
    pinned: Stack,
    segments: Stack,
    externals: Mutex<Externals>,
    spine: Arc<Spine>,
}

#[derive(Default)]
struct Externals {
    stacks: Vec<(String, Stack)>,
    /// Totals of released allocators, by the index of the stats layer in their stack.
    released: BTreeMap<usize, Statistics>,
}

impl Layers {
    /// New layers for this many devices.
    pub fn new(
        spec: &Spec,
        devices: usize,
        observer: Option<&Observer>,
        spine: &Arc<Spine>,
    ) -> Layers {
        let stack = |below| build(spec, below, observer);
        Layers {
            spec: spec.clone(),
            observer: observer.cloned(),
            devices: (0..devices).map(|_| stack(MakerKind::Device)).collect(),
            pinned: stack(MakerKind::Pinned),
            segments: build(&Spec::default(), MakerKind::Device, observer),
            externals: Mutex::new(Rank::Layer, Externals::default()),
            spine: spine.clone(),
        }
    }

    /// The layers that all allocators of a device share.
    pub fn device(&self, device: u32) -> &Stack {
        &self.devices[device as usize]
    }

    /// The layers over pinned memory.
    pub fn pinned(&self) -> &Stack {
        &self.pinned
    }

    /// The layers over pool segments; the blocks inside them pass the device's layers.
    pub fn segments(&self) -> &Stack {
        &self.segments
    }

    /// A user allocator under layers of its own.
    pub fn wrap_external(&self, maker: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        let stack = build(&self.spec, MakerKind::External, self.observer.as_ref());
        let name = maker.name();
        let wrapped = Arc::new(LayeredAllocator::new(stack.clone(), maker, self.spine.clone()));
        if !self.spec.is_empty() {
            if self.externals.lock().stacks.len() >= MAX_EXTERNAL_STACKS {
                self.merge_released();
            }
            self.externals.lock().stacks.push((name, stack));
        }
        wrapped
    }

    /// Adds up the figures of released allocators, and drops their layers.
    fn merge_released(&self) {
        let stacks = std::mem::take(&mut self.externals.lock().stacks);
        let (released, in_use): (Vec<_>, Vec<_>) =
            stacks.into_iter().partition(|(_, s)| s.is_unused());
        let statistics: Vec<_> = released.iter().map(|(_, stack)| stack.statistics()).collect();
        let mut externals = self.externals.lock();
        for (index, statistics) in
            statistics.iter().flat_map(|statistics| statistics.iter().enumerate())
        {
            externals.released.entry(index).or_default().add(statistics);
        }
        externals.stacks.splice(0..0, in_use);
    }

    fn externals(&self) -> Vec<(String, Stack)> {
        self.externals.lock().stacks.clone()
    }

    /// One message for each problem with a live block.
    pub fn inspect(&self) -> Vec<String> {
        let externals = self.externals();
        let externals = externals.iter().map(|(_, stack)| stack);
        self.devices
            .iter()
            .chain([&self.pinned])
            .chain(externals)
            .flat_map(Stack::inspect)
            .collect()
    }

    /// Inspects the live blocks in memory that is about to be released; one message for each problem.
    pub fn inspect_before_release(&self, is_released: &dyn Fn(usize) -> bool) -> Vec<String> {
        let externals = self.externals();
        let externals = externals.iter().map(|(_, stack)| stack);
        self.devices
            .iter()
            .chain([&self.pinned])
            .chain(externals)
            .flat_map(|stack| stack.inspect_before_release(is_released))
            .collect()
    }

    /// The report at process exit: what [`Layers::inspect`] finds, and what was counted. Empty if
    /// there is nothing to report. Registrations of one allocator share a line.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for finding in self.inspect() {
            let _ = writeln!(text, "cairn: {finding}");
        }
        for (device, stack) in self.devices.iter().enumerate() {
            for statistics in stack.statistics() {
                put_statistics(&mut text, &format!("device {device}"), &statistics);
            }
        }
        for statistics in self.pinned.statistics() {
            put_statistics(&mut text, "pinned host memory", &statistics);
        }
        let mut by_name = BTreeMap::<(String, usize), Statistics>::new();
        for (name, stack) in self.externals() {
            for (index, statistics) in stack.statistics().iter().enumerate() {
                by_name.entry((name.clone(), index)).or_default().add(statistics);
            }
        }
        for ((name, _), statistics) in &by_name {
            put_statistics(&mut text, name, statistics);
        }
        for statistics in self.externals.lock().released.values() {
            put_statistics(&mut text, "released allocators", statistics);
        }
        text
    }
}

/// The layers of a spec over a maker, under the observer.
fn build(spec: &Spec, below: MakerKind, observer: Option<&Observer>) -> Stack {
    let observer = observer.map(|observer| Box::new(observer.0.clone()) as Box<dyn Layer>);
    Stack::new(observer.into_iter().chain(spec.build_over(below)).collect())
}

/// A line for everything, one for each allocator if there are several, and one for each purpose if there is any but the
/// program's own.
fn put_statistics(text: &mut String, name: &str, statistics: &Statistics) {
    let mut line = |name: &str, figures: &Figures| {
        if *figures != Figures::default() {
            let _ = writeln!(text, "cairn: stats of {name}: {figures}");
        }
    };
    line(name, &statistics.total);
    if statistics.allocators.len() > 1 {
        statistics.allocators.iter().for_each(|(name, figures)| line(name, figures));
    }
    if statistics.purposes.keys().any(|purpose| *purpose != Purpose::User) {
        for (purpose, figures) in &statistics.purposes {
            line(&format!("{name}, for {}", purpose.name()), figures);
        }
    }
}
