//! The figures of a moment.

use cairn_runtime::live::{Snapshot, details::Details};

/// A process, and what it says of itself; `None` if it did not answer.
#[derive(Clone, Debug)]
pub struct Process {
    pub snapshot: Snapshot,
    pub details: Option<Details>,
}

/// All processes at a moment.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub processes: Vec<Process>,
}

/// A device, over all processes that use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTotal {
    pub device: usize,
    pub capacity: u64,
    pub used: u64,
    pub waiting: u64,
    pub streams: u64,
    pub processes: u64,
}

impl Process {
    /// Bytes that it holds on all devices.
    pub fn used(&self) -> u64 {
        self.snapshot.devices.iter().map(|device| device.used).sum()
    }

    /// Tasks that are submitted and not done.
    pub fn queued(&self) -> u64 {
        let streams = self.details.iter().flat_map(|details| &details.streams);
        streams.map(|stream| stream.submitted.saturating_sub(stream.finished)).sum()
    }
}

impl Frame {
    /// One process alone, where one is named.
    pub fn of_process(&self, pid: Option<i32>) -> Frame {
        let is_shown = |process: &&Process| pid.is_none_or(|pid| process.snapshot.pid == pid);
        Frame { processes: self.processes.iter().filter(is_shown).cloned().collect() }
    }

    /// The devices that a process has open.
    pub fn devices(&self) -> Vec<DeviceTotal> {
        let mut totals: Vec<DeviceTotal> = Vec::new();
        for process in &self.processes {
            for (device, figures) in process.snapshot.devices.iter().enumerate() {
                while totals.len() <= device {
                    totals.push(DeviceTotal { device: totals.len(), ..DeviceTotal::default() });
                }
                if figures.active {
                    let total = &mut totals[device];
                    total.capacity = total.capacity.max(figures.capacity);
                    total.used += figures.used;
                    total.waiting += figures.waiting;
                    total.streams += figures.streams;
                    total.processes += 1;
                }
            }
        }
        totals.retain(|total| total.processes > 0);
        totals
    }
}
