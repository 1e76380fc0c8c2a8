//! The callback lock under a scheduler that tries many interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::memory::callback_lock::{CallbackLock, Limits, Visit};
use cairn_runtime::memory::external::UserCall;
use cairn_runtime::sync::atomic::{AtomicUsize, Ordering};
use cairn_runtime::sync::{Arc, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::time::Duration;

/// Runs a model under many interleavings.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let from_env = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = from_env.unwrap_or(2000);
    let model = std::sync::Arc::new(model);
    let (random, pct) = (model.clone(), model);
    let config = shuttle::Config::new();
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

fn visit() -> Visit {
    Visit { object: 1, request: UserCall::Alloc(1), stream: None }
}

fn callback_lock() -> Arc<CallbackLock> {
    Arc::new(CallbackLock::new(Limits { log: Duration::MAX, free: Duration::MAX }))
}

#[test]
fn no_two_threads_are_inside_and_nobody_is_forgotten() {
    explore(|| {
        let lock = callback_lock();
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (lock, inside) = (lock.clone(), inside.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        lock.pass(visit(), || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            lock.pass(visit(), thread::yield_now);
                            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                        });
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn two_callback_locks_in_one_order_do_not_dead_lock() {
    explore(|| {
        let (outer, inner) = (callback_lock(), callback_lock());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (outer, inner) = (outer.clone(), inner.clone());
                thread::spawn(move || {
                    outer.pass(visit(), || inner.pass(visit(), || outer.pass(visit(), || ())));
                    inner.pass(visit(), || ());
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
