//! Several threads at a time, each with a stream of its own.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, anyhow};

use super::{
    Case, Notes,
    breach::{breach, check_place, refused},
    ledger::{Held, verify, write},
    numbers::Numbers,
};
use crate::bench::{
    pool::{Bench, Stream},
    ranges::LiveRanges,
};

const THREADS: usize = 4;
const STEPS: usize = 250;
/// How many blocks a thread holds.
const HELD: usize = 6;

/// What the threads share.
struct Shared<'a> {
    bench: &'a Bench,
    ranges: Mutex<LiveRanges>,
    /// Blocks that another thread than their own gives back.
    handed_on: Mutex<Vec<Held>>,
    has_failed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
    fn free(&self, held: Held) -> Result<()> {
        verify(self.bench, &held)?;
        lock(&self.ranges).remove(held.block.address);
        self.bench.free(&held.stream, held.block)
    }

    fn free_handed_on(&self) -> Result<()> {
        let handed_on = lock(&self.handed_on).pop();
        handed_on.map_or(Ok(()), |held| self.free(held))
    }
}

/// Every thread takes, writes, compares and gives back; every fourth block is given back by any thread.
pub fn threads(case: &Case<'_>) -> Result<Notes> {
    let bench = &case.bench;
    let streams = (0..THREADS).map(|_| bench.stream(0)).collect::<Result<Vec<_>>>()?;
    let shared = Shared {
        bench,
        ranges: Mutex::default(),
        handed_on: Mutex::default(),
        has_failed: AtomicBool::new(false),
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let spawn = |(number, stream): (usize, Stream)| {
            let (shared, seed) = (&shared, case.seed.wrapping_add(number as u64));
            scope.spawn(move || {
                let result = work(shared, &stream, &mut Numbers::new(seed));
                shared.has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            })
        };
        let threads: Vec<_> = streams.into_iter().enumerate().map(spawn).collect();
        let ended = |_| Err(anyhow!("a thread of the test ended"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
    });
    results.into_iter().collect::<Result<Vec<()>>>()?;
    while !lock(&shared.handed_on).is_empty() {
        shared.free_handed_on()?;
    }
    Ok(Notes::new())
}

fn work(shared: &Shared<'_>, stream: &Stream, numbers: &mut Numbers) -> Result<()> {
    shared.bench.enter(0)?;
    let mut held: Vec<Held> = Vec::new();
    for step in 0..STEPS {
        if shared.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        shared.free_handed_on()?;
        let bytes = numbers.size(17);
        let block = match shared.bench.allocate(stream, bytes) {
            Ok(block) => block,
            Err(refusal) => return Err(refused(bytes, &refusal)),
        };
        check_place(shared.bench, stream, &block)?;
        let inserted = lock(&shared.ranges).insert(block.address, bytes);
        inserted.map_err(|text| breach("overlap", text))?;
        let mut one = Held::new(block, *stream);
        write(shared.bench, &mut one, numbers.next() as u8)?;
        held.push(one);
        if held.len() > HELD {
            let one = held.swap_remove(numbers.below(held.len()));
            match step % 4 {
                0 => lock(&shared.handed_on).push(one),
                _ => shared.free(one)?,
            }
        }
    }
    held.into_iter().try_for_each(|one| shared.free(one))
}
