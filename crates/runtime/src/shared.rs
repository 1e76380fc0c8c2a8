//! What streams, events and memory of one process share.

use crate::clock::Progress;
use crate::config::Config;
use crate::memory::Memory;
use crate::memory::claims::Claims;
use crate::overflow::OverflowStatus;
use crate::record::debug_log::DebugLog;
use crate::record::live_figures::LiveFigures;
use crate::record::recorder::Recorder;
use crate::record::trace::TaskTrace;
use crate::record::{Event, Kind, Spine};
use crate::sync::{self, Arc};
use crate::worker::{BlockingThreads, BlockingWork, Scheduler};
use std::any::Any;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What all parts of the engine share: clocks, workers, memory. One per process; tests make their own.
pub struct Shared {
    /// The settings.
    pub config: Config,
    /// The clock `finished`.
    pub progress: Arc<Progress>,
    /// Where every event is emitted.
    pub spine: Arc<Spine>,
    /// Ready streams and workers.
    pub scheduler: Arc<Scheduler>,
    /// Threads for host functions.
    pub host_threads: Arc<BlockingThreads>,
    /// Threads for tasks that wait for other processes.
    pub exchange_threads: Arc<BlockingThreads>,
    /// Device and pinned host memory.
    pub memory: Arc<Memory>,
    /// Whether results were too large.
    pub overflow: OverflowStatus,
    /// What `npu-smi` shows of this process.
    live: Option<Arc<LiveFigures>>,
    attachment: OnceLock<std::sync::Arc<dyn Any + Send + Sync>>,
    exiting: OnceLock<Instant>,
}

impl Shared {
    /// All of it, without any thread running. The sinks from the start are the text trace if `CAIRN_TRACE` asks for it, the
    /// recorder if `CAIRN_RECORD` does, the log if its level is debug, and the figures of `npu-smi`.
    pub fn new(config: Config, streams: usize) -> crate::error::Result<Arc<Shared>> {
        let progress = Arc::new(Progress::new(streams));
        let spine = Arc::new(Spine::default());
        // The recorder comes first: whoever reads the record meanwhile relies on it to read the clock of an event.
        if let Some(settings) = &config.record {
            spine.subscribe(Arc::new(Recorder::create(settings)?), &Recorder::KINDS)?;
        }
        if let Some(path) = &config.trace {
            let kinds = [Kind::End, Kind::Synchronize];
            spine.subscribe(Arc::new(TaskTrace::create(path)?), &kinds)?;
        }
        if log::log_enabled!(log::Level::Debug) {
            spine.subscribe(Arc::new(DebugLog), &DebugLog::KINDS)?;
        }
        let live = sync::REAL_TIME.then(|| LiveFigures::create(&config, progress.clone()));
        let live = live.flatten().map(Arc::new);
        if let Some(live) = &live {
            spine.subscribe(live.clone(), &LiveFigures::KINDS)?;
        }
        let page = live.as_ref().map(|live| live.page());
        let claims = page.map(|page| Claims::of_processes(page, &config.shared));
        let memory = Memory::among_processes(&config, progress.clone(), spine.clone(), claims)?;
        let memory = Arc::new(memory);
        Ok(Arc::new(Shared {
            config,
            progress,
            spine,
            scheduler: Arc::default(),
            host_threads: BlockingThreads::new(BlockingWork::HostFunctions),
            exchange_threads: BlockingThreads::new(BlockingWork::Exchanges),
            memory,
            overflow: OverflowStatus::default(),
            live,
            attachment: OnceLock::new(),
            exiting: OnceLock::new(),
        }))
    }

    /// Keeps what a crate above has once in a process, such as its communicators; the first one stays.
    pub fn attach<T: Any + Send + Sync>(&self, value: std::sync::Arc<T>) {
        let _ = self.attachment.set(value);
    }

    /// What was attached, if it is of this type.
    pub fn attachment<T: Any + Send + Sync>(&self) -> Option<std::sync::Arc<T>> {
        self.attachment.get()?.clone().downcast().ok()
    }

    /// What `npu-smi` shows of this process; `None` where nothing can be shown.
    pub(crate) fn live(&self) -> Option<&LiveFigures> {
        self.live.as_deref()
    }

    /// Starts the thread that answers `cairn top`.
    pub fn start_live_details(self: &Arc<Shared>) {
        if let Some(live) = &self.live {
            live.start(self);
        }
    }

    /// From now on no user callback is called: `main` has returned.
    pub fn set_exiting(&self) {
        if self.exiting.set(Instant::now()).is_ok() {
            self.spine.emit(Kind::Exit, || Event::Exit);
        }
        self.spine.flush();
    }

    /// Removes this process from what `npu-smi` shows: it ends.
    pub fn remove_live_page(&self) {
        if let Some(live) = &self.live {
            live.remove();
        }
    }

    /// True once `main` has returned.
    pub fn exiting(&self) -> bool {
        self.exiting.get().is_some()
    }

    /// How long a thread may still wait once `main` has returned: two seconds in all.
    pub fn max_wait_at_exit(&self) -> Option<Duration> {
        self.exiting.get().map(|since| Duration::from_secs(2).saturating_sub(since.elapsed()))
    }
}
