//! All candidates of this run.

use super::c_door::{CDoor, Plugin};
use super::candidate::Visit;
use super::floor::Floor;
use super::peers::glibc;
use super::pool::{CairnPool, VirtualMemory};
use crate::ort::Ort;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of our pool in every table.
pub const POOL: &str = "cairn pool";

/// Our pool over pages of 4 KiB that it stitches.
pub const SMALL_PIECES: &str = "stitching, 4 KiB";

/// Our pool over pages of 2 MiB that it stitches.
pub const LARGE_PIECES: &str = "stitching, 2 MiB";

/// The pool inside the runtime, with real memory; without stitching and with.
pub const IN_RUNTIME: [&str; 2] = ["runtime, plain", "runtime, stitching"];

/// The standalone pool on our `libascendcl.so`, which stitches unless `CAIRN_POOL_STITCH` is 0.
pub const STANDALONE: &str = "standalone";

/// The name of the pool through the plugin's C interface.
pub const PLUGIN: &str = "cairn_malloc";

/// ONNX Runtime's arena.
pub const ORT: &str = "onnxruntime arena";

/// offset-allocator behind a mutex.
pub const OFFSET: &str = "offset-allocator, mutex";

/// What was found on this machine beside the crates that are compiled in.
pub struct AvailablePeers {
    /// ONNX Runtime, if its library could be loaded.
    pub ort: Option<Arc<Ort>>,
    /// The plugin, if the toolkit has it.
    pub plugin: Option<Arc<Plugin>>,
    /// What is missing, and why.
    pub absent: Vec<String>,
}

impl AvailablePeers {
    /// Looks for what is loaded at run time.
    pub fn gather() -> AvailablePeers {
        let mut absent = Vec::new();
        let ort = match std::env::var_os("CAIRN_ONNXRUNTIME").filter(|p| !p.is_empty()) {
            None => Err("CAIRN_ONNXRUNTIME does not name the library".into()),
            Some(path) => Ort::load(&PathBuf::from(path)),
        };
        let ort = ort.map_err(|why| absent.push(format!("{ORT}: {why}"))).ok();
        let plugin = match std::env::var_os("CAIRN_TOOLKIT").filter(|p| !p.is_empty()) {
            None => Err("CAIRN_TOOLKIT does not name the toolkit".into()),
            Some(path) => Plugin::load(&PathBuf::from(path)),
        };
        let plugin = plugin.map_err(|why| absent.push(format!("{PLUGIN}: {why}"))).ok();
        if cfg!(not(feature = "peers")) {
            absent.push("mimalloc, jemalloc, snmalloc, rlsf, offset-allocator: built without the feature `peers`".into());
        }
        AvailablePeers { ort, plugin, absent }
    }

    /// Calls `visit` with each candidate, made anew.
    pub fn each(&self, visit: &mut impl Visit) {
        visit.visit(POOL, CairnPool::new());
        visit.visit(SMALL_PIECES, CairnPool::over(VirtualMemory::small_pieces()));
        if let Some(plugin) = &self.plugin {
            visit.visit(PLUGIN, CDoor(plugin.clone()));
        }
        #[cfg(feature = "peers")]
        {
            use super::peers::{heaps, offset, tlsf};
            visit.visit(OFFSET, offset::OffsetAllocator::new());
            visit.visit("rlsf, mutex", tlsf::Rlsf::new());
            visit.visit("mimalloc", heaps::Mimalloc);
            visit.visit("jemalloc", heaps::Jemalloc);
            visit.visit("snmalloc", heaps::Snmalloc);
        }
        visit.visit("glibc malloc", glibc::Malloc);
        visit.visit("glibc posix_memalign", glibc::Memalign);
        if let Some(ort) = &self.ort {
            visit.visit(ORT, ort.arena().expect("an arena can be created"));
        }
    }

    /// As [`AvailablePeers::each`], and [`Floor`], which only works when a block is freed on the thread of its stream.
    pub fn each_and_floor(&self, visit: &mut impl Visit) {
        self.each(visit);
        visit.visit("floor: private lists", Floor::new());
    }
}
