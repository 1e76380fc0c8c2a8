//! The figures of a pool as a C struct.

use crate::devices::Device;
use crate::streams::{FreePath, StreamSlot};
use cairn_pool::Figures;

/// `cairnPoolFigures` of the header, which explains the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Report {
    pub live: u64,
    pub requested: u64,
    pub peak: u64,
    pub reserved: u64,
    pub peak_reserved: u64,
    pub waiting: u64,
    pub largest_hole: u64,
    pub budget: u64,
    pub blocks: u64,
    pub taken: u64,
    pub freed: u64,
    pub failed: u64,
}

const _: () = assert!(size_of::<Report>() == 12 * 8);

impl Report {
    /// The figures of a whole pool.
    pub fn for_device(device: &Device) -> Report {
        let budget = Some(device.pool.budget()).filter(|&budget| budget < u64::MAX);
        Report { budget: budget.unwrap_or(0), ..device.figures().into() }
    }

    /// The figures of one stream, of both free paths together.
    pub fn for_stream(device: &Device, stream: &StreamSlot) -> Report {
        let [direct, queued] = [FreePath::Direct, FreePath::Queued]
            .map(|free_path| device.pool.figures_of(stream.index(free_path)).unwrap_or_default())
            .map(Report::from);
        direct.plus(&queued)
    }

    /// Names and values, in the order of the header.
    pub fn fields(&self) -> [(&'static str, u64); 12] {
        [
            ("live", self.live),
            ("requested", self.requested),
            ("peak", self.peak),
            ("reserved", self.reserved),
            ("peakReserved", self.peak_reserved),
            ("waiting", self.waiting),
            ("largestHole", self.largest_hole),
            ("budget", self.budget),
            ("blocks", self.blocks),
            ("taken", self.taken),
            ("freed", self.freed),
            ("failed", self.failed),
        ]
    }

    fn plus(self, other: &Report) -> Report {
        Report {
            live: self.live + other.live,
            requested: self.requested + other.requested,
            peak: self.peak + other.peak,
            reserved: self.reserved + other.reserved,
            peak_reserved: self.peak_reserved + other.peak_reserved,
            waiting: self.waiting + other.waiting,
            largest_hole: self.largest_hole.max(other.largest_hole),
            budget: 0,
            blocks: self.blocks + other.blocks,
            taken: self.taken + other.taken,
            freed: self.freed + other.freed,
            failed: self.failed + other.failed,
        }
    }
}

impl From<Figures> for Report {
    fn from(figures: Figures) -> Report {
        let Figures { live, requested, peak, reserved, peak_reserved, waiting, .. } = figures;
        let Figures { largest_hole, blocks, taken, freed, failed, .. } = figures;
        Report {
            live,
            requested,
            peak,
            reserved,
            peak_reserved,
            waiting,
            largest_hole,
            budget: 0,
            blocks,
            taken,
            freed,
            failed,
        }
    }
}
