//! The crew under a scheduler that tries many interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::crew::Crew;
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

/// Offers `parts` parts and checks that each ran once, and none after the offer's end.
fn offer(crew: &Crew, parts: usize) {
    let ran: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    let over = AtomicBool::new(false);
    crew.run(
        parts,
        &|part| {
            assert!(!over.load(Ordering::SeqCst));
            ran[part].fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
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
        let crew = Arc::new(Crew::default());
        let helpers: Vec<_> = (0..2)
            .map(|_| {
                let crew = crew.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        crew.help();
                        thread::yield_now();
                    }
                })
            })
            .collect();
        offer(&crew, 3);
        offer(&crew, 2);
        for helper in helpers {
            helper.join().unwrap();
        }
        assert!(!crew.is_open());
    });
}

#[test]
fn two_kernels_at_once_both_get_done() {
    explore(|| {
        let crew = Arc::new(Crew::default());
        let other = {
            let crew = crew.clone();
            thread::spawn(move || offer(&crew, 2))
        };
        let helper = {
            let crew = crew.clone();
            thread::spawn(move || {
                crew.help();
                crew.help();
            })
        };
        offer(&crew, 2);
        other.join().unwrap();
        helper.join().unwrap();
    });
}
