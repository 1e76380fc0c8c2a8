//! The steps of the light mutex (`light.rs`) in every order, on processors whose stores others see late: no two threads hold it
//! at once, and none sleeps for ever. Versions that lack one of its steps are found out.

use std::collections::HashSet;

const THREADS: usize = 3;
/// How often each thread takes the lock.
const TURNS: u8 = 2;

/// The words of the mutex. The owner is the number of a thread, or one of those below.
const OWNER: usize = 0;
const INSIDE: usize = 1;
const HELD: usize = 2;
const ASLEEP: usize = 3;

const NOBODY: u8 = 10;
const ENDING: u8 = 11;
const SHARED: u8 = 12;

/// What is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacks {
    Nothing,
    /// The barrier of a waiter.
    Barrier,
    /// The owner's second look at who owns it.
    SecondLook,
    /// The look whether the owner is inside.
    Inside,
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
    Begin,
    /// It is the owner.
    Enter,
    /// It has set `inside` and looks again.
    LookAgain,
    Shared,
    Claim,
    SeeOwner,
    End(u8),
    SetAsleep,
    /// The barrier reaches this thread next.
    Barrier(usize),
    SeeEnding,
    SeeInside,
    Share,
    SeeShared,
    Take,
    Wait,
    Sleeps,
    Holds,
    /// It has left; then it goes on with its next turn, or waits for this one.
    SeeAsleep(Next),
    ClearAsleep(Next),
    Wake(Next),
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Next {
    Turn,
    Waiting,
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
    memory: [u8; 4],
    threads: Vec<Thread>,
}

impl State {
    fn drain(&mut self, thread: usize) {
        for (place, value) in std::mem::take(&mut self.threads[thread].stores) {
            self.memory[place] = value;
        }
    }

    /// Compares and swaps, which also makes the thread's stores visible.
    fn swap(&mut self, thread: usize, place: usize, from: u8, to: u8) -> bool {
        self.drain(thread);
        let is_same = self.memory[place] == from;
        if is_same {
            self.memory[place] = to;
        }
        is_same
    }

    /// A store that others see at once.
    fn publish(&mut self, thread: usize, place: usize, value: u8) {
        self.drain(thread);
        self.memory[place] = value;
    }

    fn store(&mut self, thread: usize, place: usize, value: u8) {
        self.threads[thread].stores.push((place, value));
    }

    fn load(&self, thread: usize, place: usize) -> u8 {
        let own = self.threads[thread].stores.iter().rev().find(|(to, _)| *to == place);
        own.map_or(self.memory[place], |(_, value)| *value)
    }

    fn go(&mut self, thread: usize, step: Step) {
        self.threads[thread].step = step;
    }

    fn left(&mut self, thread: usize, next: Next) {
        let one = &mut self.threads[thread];
        one.step = match next {
            Next::Waiting => Step::SeeOwner,
            Next::Turn => {
                one.turns += 1;
                if one.turns == TURNS { Step::Done } else { Step::Begin }
            }
        };
    }

    /// Every state that one more step of a thread leads to.
    fn after(&self, thread: usize, lacks: Lacks) -> Vec<State> {
        let mut next = self.clone();
        let me = thread as u8;
        match self.threads[thread].step {
            Step::Begin => match next.load(thread, OWNER) {
                owner if owner == me => next.go(thread, Step::Enter),
                NOBODY => next.go(thread, Step::Claim),
                SHARED => next.go(thread, Step::Shared),
                _ => next.go(thread, Step::SeeOwner),
            },
            Step::Claim => {
                let _ = next.swap(thread, OWNER, NOBODY, me);
                next.go(thread, Step::Begin);
            }
            Step::Enter => {
                next.store(thread, INSIDE, 1);
                let is_checked = lacks != Lacks::SecondLook;
                next.go(thread, if is_checked { Step::LookAgain } else { Step::Holds });
            }
            Step::LookAgain if next.load(thread, OWNER) == me => next.go(thread, Step::Holds),
            Step::LookAgain => {
                next.store(thread, INSIDE, 0);
                next.go(thread, Step::SeeAsleep(Next::Waiting));
            }
            Step::Shared => {
                let is_taken = next.swap(thread, HELD, 0, 1);
                next.go(thread, if is_taken { Step::Holds } else { Step::SeeOwner });
            }
            Step::SeeOwner => match next.load(thread, OWNER) {
                SHARED => next.go(thread, Step::SetAsleep),
                owner => next.go(thread, Step::End(owner)),
            },
            Step::End(owner) => {
                let _ = next.swap(thread, OWNER, owner, ENDING);
                next.go(thread, Step::SetAsleep);
            }
            Step::SetAsleep => {
                next.publish(thread, ASLEEP, 1);
                let step = match lacks {
                    Lacks::Barrier => Step::SeeEnding,
                    _ => Step::Barrier(0),
                };
                next.go(thread, step);
            }
            Step::Barrier(THREADS) => next.go(thread, Step::SeeEnding),
            Step::Barrier(other) => {
                next.drain(other);
                next.go(thread, Step::Barrier(other + 1));
            }
            Step::SeeEnding => {
                let is_ending = next.load(thread, OWNER) == ENDING;
                next.go(thread, if is_ending { Step::SeeInside } else { Step::SeeShared });
            }
            Step::SeeInside => {
                let is_outside = lacks == Lacks::Inside || next.load(thread, INSIDE) == 0;
                next.go(thread, if is_outside { Step::Share } else { Step::SeeShared });
            }
            Step::Share => {
                next.publish(thread, OWNER, SHARED);
                next.go(thread, Step::SeeShared);
            }
            Step::SeeShared => {
                let is_shared = next.load(thread, OWNER) == SHARED && lacks != Lacks::Look;
                next.go(thread, if is_shared { Step::Take } else { Step::Wait });
            }
            Step::Take => {
                let is_taken = next.swap(thread, HELD, 0, 1);
                next.go(thread, if is_taken { Step::Holds } else { Step::Wait });
            }
            Step::Wait => {
                let sleeps = lacks == Lacks::Condition || self.memory[ASLEEP] == 1;
                next.go(thread, if sleeps { Step::Sleeps } else { Step::SeeOwner });
            }
            Step::Holds => {
                let word = if next.load(thread, HELD) == 1 { HELD } else { INSIDE };
                next.store(thread, word, 0);
                next.go(thread, Step::SeeAsleep(Next::Turn));
            }
            Step::SeeAsleep(then) => match next.load(thread, ASLEEP) {
                0 => next.left(thread, then),
                _ => next.go(thread, Step::ClearAsleep(then)),
            },
            Step::ClearAsleep(then) => {
                next.publish(thread, ASLEEP, 0);
                next.go(thread, Step::Wake(then));
            }
            Step::Wake(then) => {
                next.left(thread, then);
                let is_asleep = |other: &usize| self.threads[*other].step == Step::Sleeps;
                let sleeping = (0..THREADS).filter(is_asleep);
                let again = if lacks == Lacks::SetAgain { Step::SeeEnding } else { Step::SeeOwner };
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

    /// The state after the oldest store of a thread is seen by the others.
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
    let thread = Thread { step: Step::Begin, turns: 0, stores: Vec::new() };
    let start = State { memory: [NOBODY, 0, 0, 0], threads: vec![thread; THREADS] };
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
    assert!(states > 100_000, "{states} states: the model has become too small");
}

#[test]
fn no_step_can_be_left_out() {
    for lacks in [Lacks::SecondLook, Lacks::Inside] {
        assert_eq!(explore(lacks).0, Some("two threads hold it"), "{lacks:?}");
    }
    for lacks in [Lacks::Barrier, Lacks::SetAgain, Lacks::Look, Lacks::Condition] {
        assert_eq!(explore(lacks).0, Some("a thread sleeps for ever"), "{lacks:?}");
    }
}
