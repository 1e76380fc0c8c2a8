//! The layers of a whole process: one stack a device, one for pinned memory, and one for each allocator of the user.

use super::spec::MakerKind;
use super::{Figures, Layer, Observer, Spec, Stack};
use crate::lock::{Mutex, Rank};
use crate::memory::allocator::Allocator;
use crate::memory::funnel::LayeredAllocator;
use crate::record::Spine;
use crate::sync::Arc;
use std::collections::BTreeMap;
use std::fmt::Write;

/// External stacks that are kept before those whose allocator has ended are summed up.
const KEPT: usize = 64;

/// What `CAIRN_MEMORY` put over the memory of a process, and the observer over all of it. Empty stacks where there
/// is neither.
pub struct Layers {
    spec: Spec,
    observer: Option<Observer>,
    devices: Vec<Stack>,
    host: Stack,
    segments: Stack,
    externals: Mutex<Externals>,
    spine: Arc<Spine>,
}

#[derive(Default)]
struct Externals {
    stacks: Vec<(String, Stack)>,
    /// Of those that have ended, by the place of the stats layer among its like.
    ended: BTreeMap<usize, Figures>,
}

impl Layers {
    /// New layers for so many devices.
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
            host: stack(MakerKind::Pinned),
            segments: build(&Spec::default(), MakerKind::Device, observer),
            externals: Mutex::new(Rank::Layer, Externals::default()),
            spine: spine.clone(),
        }
    }

    /// The layers that all allocators of a device share.
    pub fn of_device(&self, device: u32) -> &Stack {
        &self.devices[device as usize]
    }

    /// The layers over pinned memory.
    pub fn of_host(&self) -> &Stack {
        &self.host
    }

    /// What lies over the segments of pools: the blocks inside pass the layers of the device.
    pub fn of_segments(&self) -> &Stack {
        &self.segments
    }

    /// An allocator of the user under layers of its own.
    pub fn wrap_external(&self, maker: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        let stack = build(&self.spec, MakerKind::External, self.observer.as_ref());
        let name = maker.name();
        let wrapped = Arc::new(LayeredAllocator::new(stack.clone(), maker, self.spine.clone()));
        if !self.spec.is_empty() {
            if self.externals.lock().stacks.len() >= KEPT {
                self.sum_up();
            }
            self.externals.lock().stacks.push((name, stack));
        }
        wrapped
    }

    /// Adds up the figures of allocators that have ended, and lets their layers go.
    fn sum_up(&self) {
        let stacks = std::mem::take(&mut self.externals.lock().stacks);
        let (gone, kept): (Vec<_>, Vec<_>) = stacks.into_iter().partition(|(_, s)| s.is_alone());
        let statistics: Vec<_> = gone.iter().map(|(_, stack)| stack.statistics()).collect();
        let mut externals = self.externals.lock();
        for (index, statistics) in
            statistics.iter().flat_map(|statistics| statistics.iter().enumerate())
        {
            externals.ended.entry(index).or_default().add(&statistics.total);
        }
        externals.stacks.splice(0..0, kept);
    }

    fn externals(&self) -> Vec<(String, Stack)> {
        self.externals.lock().stacks.clone()
    }

    /// What is wrong with the blocks that are out now: a text for each.
    pub fn inspect(&self) -> Vec<String> {
        let externals = self.externals();
        let externals = externals.iter().map(|(_, stack)| stack);
        self.devices.iter().chain([&self.host]).chain(externals).flat_map(Stack::inspect).collect()
    }

    /// The memory at these addresses is about to go: what was wrong with blocks there that are out.
    pub fn end(&self, gone: &dyn Fn(usize) -> bool) -> Vec<String> {
        let externals = self.externals();
        let externals = externals.iter().map(|(_, stack)| stack);
        self.devices
            .iter()
            .chain([&self.host])
            .chain(externals)
            .flat_map(|stack| stack.end(gone))
            .collect()
    }

    /// The last words of a process: what [`Layers::inspect`] finds, and what was counted. Empty if
    /// there is nothing to say. Registrations of one allocator share a line.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for finding in self.inspect() {
            let _ = writeln!(text, "cairn: {finding}");
        }
        let mut line = |name: &str, figures: &Figures| {
            if *figures != Figures::default() {
                let _ = writeln!(text, "cairn: stats of {name}: {figures}");
            }
        };
        for (device, stack) in self.devices.iter().enumerate() {
            for statistics in stack.statistics() {
                line(&format!("device {device}"), &statistics.total);
                for (name, figures) in
                    statistics.allocators.iter().filter(|_| statistics.allocators.len() > 1)
                {
                    line(name, figures);
                }
            }
        }
        self.host
            .statistics()
            .iter()
            .for_each(|statistics| line("pinned host memory", &statistics.total));
        let mut same = BTreeMap::<(String, usize), Figures>::new();
        for (name, stack) in self.externals() {
            for (index, statistics) in stack.statistics().iter().enumerate() {
                same.entry((name.clone(), index)).or_default().add(&statistics.total);
            }
        }
        same.iter().for_each(|((name, _), figures)| line(name, figures));
        let externals = self.externals.lock();
        externals.ended.values().for_each(|figures| line("allocators that have ended", figures));
        text
    }
}

fn build(spec: &Spec, below: MakerKind, observer: Option<&Observer>) -> Stack {
    let observer = observer.map(|observer| Box::new(observer.0.clone()) as Box<dyn Layer>);
    Stack::new(observer.into_iter().chain(spec.build_over(below)).collect())
}
