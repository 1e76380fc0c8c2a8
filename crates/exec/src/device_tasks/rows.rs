//! Copies of rows, each side with a distance between its rows.

use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::Memory;
use cairn_runtime::record::{Access, Mode, Overlap};
use cairn_runtime::task::{Body, Location, Span, Task, Work};
use std::sync::Arc;

/// Rows of a copy. There is at least one; all lie in the address space.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The first row that is read.
    pub src: usize,
    /// Bytes from one of them to the next.
    pub src_pitch: usize,
    /// The first row that is written.
    pub dst: usize,
    /// Bytes from one of them to the next.
    pub dst_pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// How many rows.
    pub height: usize,
    /// Where they have to be: source, destination.
    pub locations: (Location, Location),
}

impl Rows {
    /// One row, as it is read and written.
    pub fn row(&self, index: usize) -> (Span, Span) {
        let span = |address, location| Span { address, bytes: self.width, location };
        (
            span(self.src + index * self.src_pitch, self.locations.0),
            span(self.dst + index * self.dst_pitch, self.locations.1),
        )
    }

    /// What is read and written: source, destination.
    fn accesses(&self) -> [Access; 2] {
        let side = |address, pitch: usize, mode| Access {
            dims: [(self.height as u64, pitch as i64)].into_iter().collect(),
            ..Access::range(address, self.width as u64, mode)
        };
        [side(self.src, self.src_pitch, Mode::Read), side(self.dst, self.dst_pitch, Mode::Write)]
    }

    /// Fails if a row that is written is also read.
    pub fn refuse_overlap(&self) -> Result<()> {
        let [from, to] = self.accesses();
        match from.overlap(&to) {
            Overlap::Yes => Err(Error::refused(format!(
                "rows of {} bytes from {:#x} every {} bytes and to {:#x} every {} bytes overlap",
                self.width, self.src, self.src_pitch, self.dst, self.dst_pitch
            ))),
            Overlap::No | Overlap::Unknown => Ok(()),
        }
    }

    /// The task that copies them.
    pub fn task(self, name: &'static str, memory: &Arc<Memory>) -> Task {
        let whole = |address: usize, pitch: usize, location| {
            let bytes = (self.height - 1) * pitch + self.width;
            [Span { address, bytes, location }].into_iter().collect()
        };
        Task {
            name,
            reads: whole(self.src, self.src_pitch, self.locations.0),
            writes: whole(self.dst, self.dst_pitch, self.locations.1),
            body: Body::Work(Arc::new(CopyRows { rows: self, name, memory: memory.clone() })),
        }
    }
}

/// The work of copying rows.
struct CopyRows {
    rows: Rows,
    name: &'static str,
    memory: Arc<Memory>,
}

impl Work for CopyRows {
    fn run(&self) -> Result<()> {
        (0..self.rows.height).try_for_each(|index| {
            let (from, to) = self.rows.row(index);
            self.memory.perform(&Task::copy(self.name, from, to))
        })
    }

    fn each_access(&self, _: &[Span], _: &[Span], report: &mut dyn FnMut(Access)) {
        self.rows.accesses().into_iter().for_each(report);
    }
}
