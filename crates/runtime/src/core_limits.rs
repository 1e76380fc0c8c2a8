//! How many cores operators may use: settings that a CPU keeps and reports.

use crate::lock::{Mutex, Rank};
use crate::stream::Stream;
use std::cell::Cell;
use std::collections::HashMap;

/// Kinds of core: matrix and vector cores.
pub const KINDS: usize = 2;

/// The limits of devices and streams; what is not set is `None`. A stream's goes before its device's.
pub struct CoreLimits {
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    devices: HashMap<u32, [Option<u32>; KINDS]>,
    streams: HashMap<u64, [Option<u32>; KINDS]>,
}

impl Default for CoreLimits {
    fn default() -> CoreLimits {
        CoreLimits { tables: Mutex::new(Rank::Registered, Tables::default()) }
    }
}

thread_local! {
    /// The stream whose limits the thread uses; 0 for none.
    static STREAM_IN_USE: Cell<u64> = const { Cell::new(0) };
}

impl CoreLimits {
    /// The limit of a device.
    pub fn device(&self, device: u32, kind: usize) -> Option<u32> {
        self.tables.lock().devices.get(&device).and_then(|limits| limits[kind])
    }

    /// Sets the limit of a device.
    pub fn set_device(&self, device: u32, kind: usize, cores: u32) {
        self.tables.lock().devices.entry(device).or_default()[kind] = Some(cores);
    }

    /// Forgets the limits of a device.
    pub fn reset_device(&self, device: u32) {
        self.tables.lock().devices.remove(&device);
    }

    /// The limit of a stream, which may be its device's.
    pub fn stream(&self, stream: &Stream, kind: usize) -> Option<u32> {
        let own = self.tables.lock().streams.get(&stream.key()).and_then(|limits| limits[kind]);
        own.or_else(|| self.device(stream.spec.device, kind))
    }

    /// Sets the limit of a stream.
    pub fn set_stream(&self, stream: &Stream, kind: usize, cores: u32) {
        self.tables.lock().streams.entry(stream.key()).or_default()[kind] = Some(cores);
    }

    /// Forgets the limits of a stream.
    pub fn reset_stream(&self, stream: &Stream) {
        self.tables.lock().streams.remove(&stream.key());
    }

    /// The calling thread uses the limits of a stream, or those of its device.
    pub fn use_in_thread(&self, stream: Option<&Stream>) {
        STREAM_IN_USE.with(|in_use| in_use.set(stream.map_or(0, Stream::key)));
    }

    /// The limit for the calling thread, whose device this is.
    pub fn in_thread(&self, device: u32, kind: usize) -> Option<u32> {
        let stream = STREAM_IN_USE.with(Cell::get);
        let own = self.tables.lock().streams.get(&stream).and_then(|limits| limits[kind]);
        own.or_else(|| self.device(device, kind))
    }
}
