//! Memory that the calling thread touches itself, outside of tasks: synchronous copies, and what the engine reads and
//! writes for a call.

use crate::Runtime;
use crate::error::Result;
use crate::memory::raw;
use crate::record::{Access, Event, Kind, Mode, site};
use crate::task::Task;

impl Runtime {
    /// Copies or fills at once, on the calling thread.
    pub fn perform(&self, task: &Task) -> Result<()> {
        self.shared.memory.perform(task)?;
        self.emit_touch(task.name, |accesses| {
            task.each_access(&mut |access| accesses.push(access))
        });
        Ok(())
    }

    /// A copy of bytes of a device, made by the calling thread; `None` where the devices have no such bytes. The tasks
    /// that wrote them have finished.
    pub fn read(&self, name: &'static str, address: usize, bytes: usize) -> Option<Vec<u8>> {
        let copy = self.shared.memory.extent(address, bytes)?.read();
        self.emit_host_access(name, address, bytes, Mode::Read);
        Some(copy)
    }

    /// A copy of bytes that the program has on the host, made by the calling thread; fails if they cannot be read. `name`
    /// is for error messages.
    pub fn copy_from_host(&self, name: &str, address: usize, bytes: usize) -> Result<Vec<u8>> {
        let copy = raw::copy_bytes(address, bytes, name)?;
        self.emit_host_access(site::current().entry, address, bytes, Mode::Read);
        Ok(copy)
    }

    /// Emits that the calling thread read or wrote memory of the program, outside of tasks.
    pub fn emit_host_access(&self, name: &'static str, address: usize, bytes: usize, mode: Mode) {
        let access = || Access::range(address, bytes as u64, mode);
        self.emit_touch(name, |accesses| accesses.push(access()));
    }

    /// Emits the accesses that `fill` appends.
    fn emit_touch(&self, name: &'static str, fill: impl FnOnce(&mut Vec<Access>)) {
        if self.shared.spine.has_listener(Kind::Touch) {
            let mut accesses = Vec::new();
            fill(&mut accesses);
            let accesses = &accesses[..];
            self.shared.spine.emit(Kind::Touch, || Event::Touch { name, accesses });
        }
    }
}
