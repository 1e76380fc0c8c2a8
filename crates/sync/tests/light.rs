//! [`LightMutex`] among more threads than cores: nobody gets in twice, and nobody sleeps on after an unlock.

use cairn_sync::lock::{LightMutex, Rank};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const THREADS: u64 = 8;
const TURNS: u64 = 20_000;

/// Runs on a thread of its own, so that a thread that is never woken is a failure and no endless test.
fn in_time(run: impl FnOnce() + Send + 'static) {
    let (done, wait) = channel();
    let thread = thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    // A panic of the thread closes the channel.
    let outcome = wait.recv_timeout(Duration::from_secs(120));
    assert!(!matches!(outcome, Err(std::sync::mpsc::RecvTimeoutError::Timeout)), "a thread sleeps");
    thread.join().unwrap();
}

/// `THREADS` threads take `TURNS` turns; in every `nth` of them the holder lets others run.
fn count(nth: u64) -> (u64, u64) {
    // Two numbers that are equal whenever the lock is free.
    let mutex = Arc::new(LightMutex::new(Rank::Lane, (0, 0)));
    let turn = |mutex: &LightMutex<(u64, u64)>, turn: u64| {
        let mut numbers = mutex.lock();
        assert_eq!(numbers.0, numbers.1);
        numbers.0 += 1;
        if turn.is_multiple_of(nth) {
            thread::yield_now();
        }
        numbers.1 += 1;
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let mutex = mutex.clone();
            scope.spawn(move || (0..TURNS).for_each(|number| turn(&mutex, number)));
        }
    });
    *mutex.lock()
}

#[test]
fn one_thread_at_a_time_gets_in_and_none_sleeps_on() {
    for nth in [u64::MAX, 100, 3] {
        in_time(move || assert_eq!(count(nth), (THREADS * TURNS, THREADS * TURNS)));
    }
}

#[test]
fn the_first_thread_loses_it_to_another_while_it_comes_and_goes() {
    in_time(|| {
        for _ in 0..1000 {
            let mutex = LightMutex::new(Rank::Lane, (0, 0));
            let turn = || {
                let mut numbers = mutex.lock();
                assert_eq!(numbers.0, numbers.1);
                numbers.0 += 1;
                numbers.1 += 1;
            };
            turn();
            thread::scope(|scope| {
                let other = scope.spawn(|| (0..20).for_each(|_| turn()));
                while !other.is_finished() {
                    turn();
                }
            });
            let (first, second) = *mutex.lock();
            assert!(first == second && first > 20);
        }
    });
}

#[test]
fn a_thread_that_sleeps_is_woken_by_the_unlock_of_one_that_held_it_long() {
    in_time(|| {
        let mutex = Arc::new(LightMutex::new(Rank::Lane, 0));
        for round in 1..=50 {
            let held = mutex.lock();
            let (started, wait) = channel();
            let other = thread::spawn({
                let mutex = mutex.clone();
                move || {
                    started.send(()).unwrap();
                    *mutex.lock() += 1;
                }
            });
            wait.recv().unwrap();
            // Until it has spun enough, and sleeps or is about to.
            (0..200).for_each(|_| thread::yield_now());
            drop(held);
            other.join().unwrap();
            assert_eq!(*mutex.lock(), round);
        }
    });
}
