//! The steps of the light mutex (`light.rs`) in every order, on processors whose stores others see late: no two threads hold it
//! at once, and none sleeps for ever. Versions that lack one of its steps are found out.

use std::collections::HashSet;

const THREADS: usize = 3;
/// How often each thread takes the lock.
const TURNS: u8 = 2;

const HELD: usize = 0;
const ASLEEP: usize = 1;

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacks {
    Nothing,
    /// The barrier of a waiter.
    Barrier,
    /// Setting `asleep` again after a sleep.
    SetAgain,
    /// Taking the lock between the barrier and the sleep.
    Look,
    /// Sleeping only while `asleep` is 1: it sleeps in any case.
    Condition,
}

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Take,
    SetAsleep,
    /// The barrier reaches this thread next.
    Barrier(usize),
    Look,
    Wait,
    Sleeps,
    Holds,
    SeeAsleep,
    ClearAsleep,
    Wake,
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Thread {
    step: Step,
    turns: u8,
    /// Stores that others do not see yet, oldest first.
    stores: Vec<(usize, u8)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    memory: [u8; 2],
    threads: Vec<Thread>,
}

impl State {
    fn drain(&mut self, thread: usize) {
        for (place, value) in std::mem::take(&mut self.threads[thread].stores) {
            self.memory[place] = value;
        }
    }

    /// Compares and swaps, which also makes the thread's stores visible.
    fn take(&mut self, thread: usize) -> bool {
        self.drain(thread);
        let is_free = self.memory[HELD] == 0;
        self.memory[HELD] = 1;
        is_free
    }

    fn load(&self, thread: usize, place: usize) -> u8 {
        let own = self.threads[thread].stores.iter().rev().find(|(to, _)| *to == place);
        own.map_or(self.memory[place], |(_, value)| *value)
    }

    fn go(&mut self, thread: usize, step: Step) {
        self.threads[thread].step = step;
    }

    fn unlocked(&mut self, thread: usize) {
        let turns = self.threads[thread].turns + 1;
        self.threads[thread].turns = turns;
        self.go(thread, if turns == TURNS { Step::Done } else { Step::Take });
    }

    /// Every state that one more step of a thread leads to.
    fn after(&self, thread: usize, lacks: Lacks) -> Vec<State> {
        let mut next = self.clone();
        match self.threads[thread].step {
            Step::Take => {
                let step = if next.take(thread) { Step::Holds } else { Step::SetAsleep };
                next.go(thread, step);
            }
            Step::SetAsleep => {
                next.drain(thread);
                next.memory[ASLEEP] = 1;
                let barrier = if lacks == Lacks::Barrier { Step::Look } else { Step::Barrier(0) };
                next.go(thread, barrier);
            }
            Step::Barrier(THREADS) => next.go(thread, Step::Look),
            Step::Barrier(other) => {
                next.drain(other);
                next.go(thread, Step::Barrier(other + 1));
            }
            Step::Look => {
                let is_taken = lacks != Lacks::Look && next.take(thread);
                next.go(thread, if is_taken { Step::Holds } else { Step::Wait });
            }
            Step::Wait => {
                let sleeps = lacks == Lacks::Condition || self.memory[ASLEEP] == 1;
                next.go(thread, if sleeps { Step::Sleeps } else { Step::SetAsleep });
            }
            Step::Holds => {
                next.threads[thread].stores.push((HELD, 0));
                next.go(thread, Step::SeeAsleep);
            }
            Step::SeeAsleep => match next.load(thread, ASLEEP) {
                0 => next.unlocked(thread),
                _ => next.go(thread, Step::ClearAsleep),
            },
            Step::ClearAsleep => {
                next.drain(thread);
                next.memory[ASLEEP] = 0;
                next.go(thread, Step::Wake);
            }
            Step::Wake => {
                next.unlocked(thread);
                let sleeping =
                    (0..THREADS).filter(|&other| self.threads[other].step == Step::Sleeps);
                let again = if lacks == Lacks::SetAgain { Step::Look } else { Step::SetAsleep };
                let woken: Vec<State> = sleeping
                    .map(|other| {
                        let mut next = next.clone();
                        next.go(other, again);
                        next
                    })
                    .collect();
                return if woken.is_empty() { vec![next] } else { woken };
            }
            Step::Sleeps | Step::Done => return Vec::new(),
        }
        vec![next]
    }

    /// The states after the oldest store of a thread is seen by the others.
    fn seen(&self, thread: usize) -> Option<State> {
        let mut next = self.clone();
        let stores = &mut next.threads[thread].stores;
        if stores.is_empty() {
            return None;
        }
        let (place, value) = stores.remove(0);
        next.memory[place] = value;
        Some(next)
    }
}

/// What goes wrong in some order, and how many states there are.
fn explore(lacks: Lacks) -> (Option<&'static str>, usize) {
    let thread = Thread { step: Step::Take, turns: 0, stores: Vec::new() };
    let start = State { memory: [0, 0], threads: vec![thread; THREADS] };
    let mut known = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if state.threads.iter().filter(|thread| thread.step == Step::Holds).count() > 1 {
            return (Some("two threads hold it"), known.len());
        }
        let next: Vec<State> = (0..THREADS)
            .flat_map(|thread| state.after(thread, lacks).into_iter().chain(state.seen(thread)))
            .collect();
        if next.is_empty() && state.threads.iter().any(|thread| thread.step != Step::Done) {
            return (Some("a thread sleeps for ever"), known.len());
        }
        open.extend(next.into_iter().filter(|state| known.insert(state.clone())));
    }
    (None, known.len())
}

#[test]
fn the_steps_hold_in_every_order() {
    let (wrong, states) = explore(Lacks::Nothing);
    assert_eq!(wrong, None);
    assert!(states > 10_000, "{states} states: the model has become too small");
}

#[test]
fn no_step_can_be_left_out() {
    for lacks in [Lacks::Barrier, Lacks::SetAgain, Lacks::Look, Lacks::Condition] {
        assert_eq!(explore(lacks).0, Some("a thread sleeps for ever"), "{lacks:?}");
    }
}
