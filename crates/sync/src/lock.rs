//! Locks with ranks. A thread may take a lock only while it holds none of the same or a higher
//! rank, so no order of calls can dead-lock; debug builds check every acquisition.
//!
//! No lock of this crate is held while a user's callback runs.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The order in which locks may be taken, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// The sessions of the graph engine.
    Engine,
    /// The graphs of a session.
    Session,
    /// One graph's stage: added, compiled, loaded.
    Stage,
    /// What the program set of a graph (inputs, outputs, ..) before the graph is built.
    OperatorPlan,
    /// A graph while it is built or read.
    Graph,
    /// The operators that the program registered.
    Custom,
    /// The order of one loaded graph's runs.
    Runs,
    /// What a dynamic graph planned so far.
    Plans,
    /// The communicators of the process.
    Communicators,
    /// The order of one communicator's operators.
    Launch,
    /// Opening and closing devices.
    Process,
    /// Lists of state callbacks.
    Callbacks,
    /// A device's contexts and peers.
    Device,
    /// A context's streams and parameters.
    Context,
    /// An event's current capture.
    Event,
    /// A stream's taken batch of tasks.
    Batch,
    /// A stream's submission side.
    Submit,
    /// The streams that wait for a capture.
    Capture,
    /// The scheduler's run queue.
    RunQueue,
    /// Idle threads for host functions, or for exchanges.
    BlockingThreads,
    /// Who registered which allocator on which stream.
    Registry,
    /// The owner and the queue of a callback lock; never held during a callback.
    CallbackLock,
    /// The blocks of users' allocators that are out.
    Outstanding,
    /// The tables of a layer over memory.
    Layer,
    /// What a pool has that belongs to no lane; also whoever moves memory between lanes.
    Root,
    /// One lane of a pool: the memory of one stream.
    Lane,
    /// The segments of one pool.
    Segments,
    /// Pages of a pool on their way to new addresses.
    Moves,
    /// Memory that this process exports by key, and what it imported so.
    Ipc,
    /// What is reserved and mapped of virtual memory.
    Virtual,
    /// The memory files of other processes.
    Sharing,
    /// Whoever moves pages of an arena into a memory file.
    PagesToShare,
    /// A memory arena.
    Arena,
    /// Which pages of an arena lie in a memory file.
    SharedPages,
    /// Which pages of an arena were moved there.
    MovedPages,
    /// For which pages of an arena huge ones were asked for.
    AdvisedPages,
    /// The ranges of a memory file.
    Store,
    /// Pages on their way into a memory file.
    Relocation,
    /// This process's claim to memory of which all processes together have a limit, while it grows.
    Claims,
    /// What the program ordered before a stream, for pools to read.
    Ordered,
    /// Registered host ranges.
    Registered,
    /// One slot of the handle table, or its free list.
    Handles,
    /// What a pool over a foreign runtime knows of a stream.
    Tracker,
    /// A thread's ordered clock.
    HostClock,
    /// A stream's first failure.
    Failure,
    /// Sleepers that wait for a stream.
    Done,
    /// What is watched for in other processes.
    Watch,
    /// Graphs that wait for the engine's own thread.
    Queue,
    /// Sizes that a task computed.
    Outcome,
    /// What a communicator has in progress, and its failure.
    Running,
    /// Idle connections to a meeting point.
    Connections,
    /// Messages between ranks that are threads.
    Link,
    /// Allocators that the end of the process leaves as they are.
    Abandoned,
    /// Texts of failures in graphs.
    Texts,
    /// What a sink of events keeps.
    Record,
    /// The task trace file.
    Trace,
    /// The log file.
    Log,
}

/// A mutex with a rank. Small, and without poisoning.
pub struct Mutex<T> {
    rank: Rank,
    inner: imp::Mutex<T>,
}

/// Holds a [`Mutex`] until dropped.
pub struct MutexGuard<'a, T> {
    rank: Option<Rank>,
    inner: Option<imp::MutexGuard<'a, T>>,
}

/// A mutex for a few instructions at a time, wanted by one thread as a rule: it costs next to nothing until a second thread
/// wants it, half of a [`Mutex`] after that, and more when a thread has to sleep for it (`light.rs`).
pub struct LightMutex<T> {
    rank: Rank,
    inner: imp::LightMutex<T>,
}

/// Holds a [`LightMutex`] until dropped.
pub struct LightGuard<'a, T> {
    inner: imp::LightGuard<'a, T>,
    _rank: held::Hold,
}

/// A condition variable for [`Mutex`].
#[derive(Default)]
pub struct Condvar(imp::Condvar);

impl<T> Mutex<T> {
    /// A mutex of this rank.
    pub const fn new(rank: Rank, value: T) -> Mutex<T> {
        Mutex { rank, inner: imp::mutex(value) }
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        held::enter(self.rank);
        MutexGuard { rank: Some(self.rank), inner: Some(imp::lock(&self.inner)) }
    }

    /// The mutex if nobody holds it. It waits for nobody, so no rank forbids it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { rank: None, inner: Some(imp::try_lock(&self.inner)?) })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("the guard holds its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("the guard holds its lock")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.inner = None;
        if let Some(rank) = self.rank {
            held::leave(rank);
        }
    }
}

impl<T> LightMutex<T> {
    /// A mutex of this rank.
    pub const fn new(rank: Rank, value: T) -> LightMutex<T> {
        LightMutex { rank, inner: imp::light_mutex(value) }
    }

    /// Waits for the mutex.
    #[inline]
    pub fn lock(&self) -> LightGuard<'_, T> {
        let rank = held::Hold::enter(self.rank);
        LightGuard { inner: imp::lock_light(&self.inner), _rank: rank }
    }
}

impl<T> Deref for LightGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for LightGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar(imp::condvar())
    }

    /// Lets the lock go, sleeps, takes it again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.inner.take().expect("the guard holds its lock");
        guard.inner = Some(imp::wait(&self.0, inner));
    }

    /// The same with a limit; returns false when the limit passed.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> bool {
        let inner = guard.inner.take().expect("the guard holds its lock");
        let (inner, in_time) = imp::wait_for(&self.0, inner, limit);
        guard.inner = Some(inner);
        in_time
    }

    /// Wakes one sleeper.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every sleeper.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(not(feature = "shuttle"))]
mod imp {
    use std::time::Duration;

    use crate::light::RawLight;
    use parking_lot::lock_api;
    pub use parking_lot::{Condvar, Mutex, MutexGuard};

    pub type LightMutex<T> = lock_api::Mutex<RawLight, T>;
    pub type LightGuard<'a, T> = lock_api::MutexGuard<'a, RawLight, T>;

    pub const fn light_mutex<T>(value: T) -> LightMutex<T> {
        LightMutex::new(value)
    }
    #[inline]
    pub fn lock_light<T>(m: &LightMutex<T>) -> LightGuard<'_, T> {
        m.lock()
    }

    pub const fn mutex<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
        m.lock()
    }
    pub fn try_lock<T>(m: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        m.try_lock()
    }
    pub const fn condvar() -> Condvar {
        Condvar::new()
    }
    pub fn wait<'a, T>(c: &Condvar, mut g: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        c.wait(&mut g);
        g
    }
    pub fn wait_for<'a, T>(
        c: &Condvar,
        mut g: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let in_time = !c.wait_for(&mut g, limit).timed_out();
        (g, in_time)
    }
}

#[cfg(feature = "shuttle")]
mod imp {
    use std::time::Duration;

    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use shuttle::sync::{Mutex as LightMutex, MutexGuard as LightGuard};

    pub const fn light_mutex<T>(value: T) -> LightMutex<T> {
        mutex(value)
    }
    pub fn lock_light<T>(m: &LightMutex<T>) -> LightGuard<'_, T> {
        lock(m)
    }

    pub const fn mutex<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
        m.lock().expect("no panics under a lock")
    }
    pub fn try_lock<T>(m: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        m.try_lock().ok()
    }
    pub const fn condvar() -> Condvar {
        Condvar::new()
    }
    pub fn wait<'a, T>(c: &Condvar, g: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        c.wait(g).expect("no panics under a lock")
    }
    pub fn wait_for<'a, T>(
        c: &Condvar,
        g: MutexGuard<'a, T>,
        _limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        (wait(c, g), true)
    }
}

/// The ranks this thread holds, one bit each; checked in debug builds.
#[cfg(all(debug_assertions, not(feature = "shuttle")))]
mod held {
    use super::Rank;
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<u64> = const { Cell::new(0) };
    }

    pub fn enter(rank: Rank) {
        HELD.with(|held| {
            let above = held.get() >> rank as u64;
            assert!(above == 0, "lock of rank {rank:?} taken while holding {:#b}", held.get());
            held.set(held.get() | 1 << rank as u64);
        });
    }

    pub fn leave(rank: Rank) {
        HELD.with(|held| held.set(held.get() & !(1 << rank as u64)));
    }

    /// A rank that is held until this is dropped.
    pub struct Hold(Rank);

    impl Hold {
        pub fn enter(rank: Rank) -> Hold {
            enter(rank);
            Hold(rank)
        }
    }

    impl Drop for Hold {
        fn drop(&mut self) {
            leave(self.0);
        }
    }
}

#[cfg(any(not(debug_assertions), feature = "shuttle"))]
mod held {
    use super::Rank;
    #[inline(always)]
    pub fn enter(_: Rank) {}
    #[inline(always)]
    pub fn leave(_: Rank) {}

    /// Nothing.
    pub struct Hold;

    impl Hold {
        #[inline(always)]
        pub fn enter(_: Rank) -> Hold {
            Hold
        }
    }
}
