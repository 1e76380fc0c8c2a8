//! The parallel under a scheduler that tries many interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::parallel::Parallel;
use cairn_runtime::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cairn_runtime::sync::{Arc, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let asked = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = asked.unwrap_or(2000);
    let model = std::sync::Arc::new(model);
    let (random, pct) = (model.clone(), model);
    let config = shuttle::Config::new();
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

/// Offers `parts` parts to at most `helpers` and checks that each ran once, none after the offer's end, and on no
/// more threads at once.
fn offer(parallel: &Parallel, parts: usize, helpers: usize) {
    let ran: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    let (over, inside) = (AtomicBool::new(false), AtomicUsize::new(0));
    parallel.run(
        parts,
        helpers,
        &|part| {
            assert!(!over.load(Ordering::SeqCst));
            assert!(inside.fetch_add(1, Ordering::SeqCst) <= helpers);
            ran[part].fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            assert!(!over.load(Ordering::SeqCst));
        },
        || {},
    );
    over.store(true, Ordering::SeqCst);
    assert!(ran.iter().all(|one| one.load(Ordering::SeqCst) == 1));
}

#[test]
fn every_part_runs_once_and_within_its_offer() {
    explore(|| {
        let parallel = Arc::new(Parallel::default());
        let helpers: Vec<_> = (0..2)
            .map(|_| {
                let parallel = parallel.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        parallel.help();
                        thread::yield_now();
                    }
                })
            })
            .collect();
        offer(&parallel, 3, 1);
        offer(&parallel, 2, 2);
        for helper in helpers {
            helper.join().unwrap();
        }
        assert!(!parallel.has_work());
    });
}

#[test]
fn two_kernels_at_once_both_get_done() {
    explore(|| {
        let parallel = Arc::new(Parallel::default());
        let other = {
            let parallel = parallel.clone();
            thread::spawn(move || offer(&parallel, 2, 1))
        };
        let helper = {
            let parallel = parallel.clone();
            thread::spawn(move || {
                parallel.help();
                parallel.help();
            })
        };
        offer(&parallel, 2, 1);
        other.join().unwrap();
        helper.join().unwrap();
    });
}
