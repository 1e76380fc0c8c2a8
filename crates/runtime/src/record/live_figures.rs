//! The figures that `npu-smi` shows: a sink that keeps this process's page up to date.

use super::event::{Change, Event};
use super::live_communicators::LiveCommunicators;
use super::{Kind, Sink, Stamp, live_details};
use crate::clock::Progress;
use crate::config::Config;
use crate::live::LivePage;
use crate::shared::Shared;
use crate::sync::Arc;
use crate::worker::spawn_helper;

/// The page of this process; events name devices as the process does, the page by their physical numbers.
pub struct LiveFigures {
    page: Arc<LivePage>,
    /// The physical number of each device.
    physical: Vec<usize>,
    communicators: LiveCommunicators,
    progress: Arc<Progress>,
}

impl LiveFigures {
    /// What it listens to.
    pub const KINDS: [Kind; 5] =
        [Kind::Usage, Kind::Stream, Kind::Device, Kind::Communicator, Kind::Collective];

    /// An empty page; `None` where none can be made.
    pub fn create(config: &Config, progress: Arc<Progress>) -> Option<LiveFigures> {
        let page = Arc::new(LivePage::create(config.devices)?);
        let communicators = LiveCommunicators::new();
        Some(LiveFigures { page, physical: config.visible.clone(), communicators, progress })
    }

    /// The communicators of this process.
    pub fn communicators(&self) -> &LiveCommunicators {
        &self.communicators
    }

    /// The page itself, which also holds what this process claims of a shared limit.
    pub fn page(&self) -> Arc<LivePage> {
        self.page.clone()
    }

    /// Starts the thread that answers `cairn top`; without one, that shows less of this process.
    pub fn start(&self, shared: &Arc<Shared>) {
        let (page, shared) = (self.page(), Arc::downgrade(shared));
        let body = move || live_details::serve(&page, &shared);
        if let Err(error) = spawn_helper("cairn-live", body) {
            log::warn!("no thread for live figures: {error}");
        }
    }

    /// Removes this process from what `npu-smi` shows: it ends.
    pub fn remove(&self) {
        self.page.remove();
    }
}

impl Drop for LiveFigures {
    fn drop(&mut self) {
        self.page.stop_waiting();
    }
}

impl Sink for LiveFigures {
    fn event(&self, _stamp: &Stamp, event: &Event<'_>) {
        let physical = |device: u32| self.physical[device as usize];
        match *event {
            Event::Usage { device, used, quarantined, .. } => {
                self.page.set_used(physical(device), used);
                self.page.set_waiting(physical(device), quarantined);
            }
            Event::Stream { device, count, .. } => {
                self.page.set_streams(physical(device), count as u64);
            }
            Event::Device { device, change, capacity } => {
                self.page.set_capacity(physical(device), capacity);
                self.page.set_active(physical(device), change == Change::Created);
            }
            Event::Communicator(communicator, change) => {
                let count = self.communicators.change(communicator, change);
                self.page.set_communicators(count as u64);
            }
            Event::Collective(collective) => self.communicators.submit(collective, &self.progress),
            _ => {}
        }
    }
}
