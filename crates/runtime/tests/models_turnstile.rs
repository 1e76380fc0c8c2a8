//! The turnstile under a scheduler that tries many interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::memory::external::Request;
use cairn_runtime::memory::turnstile::{Turnstile, Visit};
use cairn_runtime::sync::atomic::{AtomicUsize, Ordering};
use cairn_runtime::sync::{Arc, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::time::Duration;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let asked = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = asked.unwrap_or(2000);
    let model = std::sync::Arc::new(model);
    let (random, pct) = (model.clone(), model);
    let config = shuttle::Config::new();
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

fn visit() -> Visit {
    Visit { object: 1, request: Request::Alloc(1), stream: None }
}

fn turnstile() -> Arc<Turnstile> {
    Arc::new(Turnstile::new(Duration::MAX))
}

#[test]
fn no_two_threads_are_inside_and_nobody_is_forgotten() {
    explore(|| {
        let turnstile = turnstile();
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (turnstile, inside) = (turnstile.clone(), inside.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        turnstile.pass(visit(), || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            turnstile.pass(visit(), thread::yield_now);
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
fn two_turnstiles_in_one_order_do_not_dead_lock() {
    explore(|| {
        let (outer, inner) = (turnstile(), turnstile());
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
