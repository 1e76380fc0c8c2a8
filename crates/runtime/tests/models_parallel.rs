//! [`Parallel`] under a scheduler that tries many interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::parallel::Parallel;
use cairn_runtime::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cairn_runtime::sync::{Arc, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

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

/// Runs a kernel of `parts` parts with at most `helpers` helpers. Checks that each part ran once, none after the kernel's
/// end, and on no more threads at once.
fn run_kernel(parallel: &Parallel, parts: usize, helpers: usize) {
    let run_counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    let (has_ended, inside) = (AtomicBool::new(false), AtomicUsize::new(0));
    parallel.run(
        parts,
        helpers,
        &|part| {
            assert!(!has_ended.load(Ordering::SeqCst));
            assert!(inside.fetch_add(1, Ordering::SeqCst) <= helpers);
            run_counts[part].fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            assert!(!has_ended.load(Ordering::SeqCst));
        },
        || {},
    );
    has_ended.store(true, Ordering::SeqCst);
    assert!(run_counts.iter().all(|count| count.load(Ordering::SeqCst) == 1));
}

#[test]
fn every_part_runs_once_and_before_its_kernel_ends() {
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
        run_kernel(&parallel, 3, 1);
        run_kernel(&parallel, 2, 2);
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
            thread::spawn(move || run_kernel(&parallel, 2, 1))
        };
        let helper = {
            let parallel = parallel.clone();
            thread::spawn(move || {
                parallel.help();
                parallel.help();
            })
        };
        run_kernel(&parallel, 2, 1);
        other.join().unwrap();
        helper.join().unwrap();
    });
}
