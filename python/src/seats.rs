//! Which allocators C may call.
//!
//! ```text
//! stream -> seat -> Allocator     C has the user's own object and blocks; a seat is known by its functions
//! ```
//!
//! Each seat has functions of its own (`trampoline.cpp`), so that C tells allocators apart that have the same object,
//! and a call finds its callables. The same object and callables have one seat.
//!
//! An allocator keeps its seat while a stream has it, a callback of it runs, or C has a block of it. It lingers there,
//! with its callables, while a call of Python is under way that began before its last stream lost it: C may have
//! looked it up and not called it yet. Nothing tells about calls that C makes by itself. So a seat is used again as
//! late as can be: first come seats that never were used, then empty ones and last those where somebody lingers, the
//! oldest first. C that looked up an allocator, and calls it when its seat is empty, gets no memory.
//!
//! All of it is touched with the interpreter's lock held. [`State`] has a lock of its own that is never held while
//! Python runs: what leaves it is dropped outside, and by C++ if that is inside of a callback.

use crate::{interpreter, trampoline, turn::Turn};
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*};
use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

/// How many callbacks an allocator has. Their places are those of `Which` in `trampoline.cpp`.
pub(crate) const CALLBACKS: usize = 4;
/// The place of alloc.
pub(crate) const ALLOC: usize = 0;
/// The place of free.
pub(crate) const FREE: usize = 1;
/// The place of the one that a descriptor need not have.
pub(crate) const ADVISE: usize = 2;
/// The place of get address.
pub(crate) const ADDRESS: usize = 3;

/// What a forked child gets from everything that needs a device.
const INTERNAL_ERROR: i32 = 507000;

/// Callables of an allocator; those that are not set are none.
pub(crate) type Callables = [Option<Py<PyAny>>; CALLBACKS];

/// An allocator as it was registered.
pub(crate) struct Allocator {
    /// What the callables get first.
    pub object: usize,
    /// All but the one for advice are there.
    pub callables: Callables,
    shown: AtomicU8,
}

impl Allocator {
    /// An allocator of which no error was shown.
    pub fn new(object: usize, callables: Callables) -> Allocator {
        Allocator { object, callables, shown: AtomicU8::new(0) }
    }

    fn same(&self, other: &Allocator, py: Python<'_>) -> bool {
        let equal = |one: &Py<PyAny>, two: &Py<PyAny>| one.is(two) || is_same_method(one, two, py);
        self.callables.iter().zip(&other.callables).all(|pair| match pair {
            (Some(one), Some(two)) => equal(one, two),
            (None, None) => true,
            _ => false,
        })
    }
}

/// Whether both are methods bound to the same object: Python makes a new one at each look-up. What only looks like a
/// method is itself.
fn is_same_method(one: &Py<PyAny>, two: &Py<PyAny>, py: Python<'_>) -> bool {
    let Ok(method) = py.import("types").and_then(|types| types.getattr("MethodType")) else {
        return false;
    };
    if [one, two].iter().any(|callable| !callable.bind(py).get_type().is(&method)) {
        return false;
    }
    let part = |callable: &Py<PyAny>, name| callable.getattr(py, name).ok();
    ["__self__", "__func__"].iter().all(|name| match (part(one, *name), part(two, *name)) {
        (Some(one), Some(two)) => one.is(&two),
        _ => false,
    })
}

struct Seat {
    allocator: Arc<Allocator>,
    /// How many streams have it, and registrations that are under way.
    streams: usize,
    /// Blocks that C has, by the user's words, and how often.
    out: HashMap<usize, usize>,
    /// When the last stream lost it.
    left: u64,
    /// Whether an interrupt waits until C has no block.
    interrupted: bool,
}

impl Seat {
    /// Whether C is certain to call it, or may do so because a stream has it.
    fn is_needed(&self, index: usize) -> bool {
        self.streams > 0 || !self.out.is_empty() || trampoline::inside(index) > 0
    }
}

/// A registration on a stream: the seat, and when it was made.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Registration {
    /// Whose functions C has.
    pub seat: usize,
    made: u64,
}

#[derive(Default)]
struct State {
    seats: Vec<Option<Seat>>,
    streams: HashMap<usize, Registration>,
    /// Seats whose allocator no stream has.
    leaving: Vec<usize>,
    /// Empty seats, the one that is empty for the longest time first.
    empty: VecDeque<usize>,
    /// When each call of Python began that is under way and may call back.
    running: BTreeSet<u64>,
    moments: u64,
    /// Callables of allocators that have left during a callback.
    dropped: Vec<Py<PyAny>>,
}

impl State {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    fn seat(&mut self, index: usize) -> Option<&mut Seat> {
        self.seats.get_mut(index)?.as_mut()
    }

    /// A seat for an allocator, and who lingered there.
    fn place(&mut self, allocator: Arc<Allocator>) -> Option<(usize, Option<Arc<Allocator>>)> {
        let index = match self.seats.len() < trampoline::count() {
            true => {
                self.seats.push(None);
                self.seats.len() - 1
            }
            false => self.empty.pop_front().or_else(|| self.lingering())?,
        };
        let seat = Seat { allocator, streams: 0, out: HashMap::new(), left: 0, interrupted: false };
        self.leaving.retain(|leaving| *leaving != index);
        Some((index, self.seats[index].replace(seat).map(|seat| seat.allocator)))
    }

    /// The seat whose allocator lingers for the longest time.
    fn lingering(&self) -> Option<usize> {
        let left = |index: &usize| {
            let seat = self.seats[*index].as_ref().filter(|seat| !seat.is_needed(*index))?;
            Some((seat.left, *index))
        };
        self.leaving.iter().filter_map(left).min().map(|(_, index)| index)
    }

    fn lose(&mut self, stream: usize) {
        if let Some(registration) = self.streams.remove(&stream) {
            self.dismiss(registration.seat);
        }
    }

    /// One stream less has an allocator.
    fn dismiss(&mut self, index: usize) {
        let moment = self.moment();
        let Some(seat) = self.seat(index) else { return };
        seat.streams -= 1;
        if seat.streams == 0 {
            seat.left = moment;
            if !self.leaving.contains(&index) {
                self.leaving.push(index);
            }
        }
    }

    /// Takes out what has left.
    fn gone(&mut self) -> Vec<Arc<Allocator>> {
        let oldest = self.running.first().copied().unwrap_or(u64::MAX);
        let (seats, empty, mut gone) = (&mut self.seats, &mut self.empty, Vec::new());
        self.leaving.retain(|index| {
            let place = &mut seats[*index];
            match place {
                Some(seat) if seat.streams > 0 => false,
                Some(seat) if seat.is_needed(*index) || seat.left > oldest => true,
                _ => {
                    gone.extend(place.take().map(|seat| seat.allocator));
                    empty.push_back(*index);
                    false
                }
            }
        });
        gone
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Changes the state; whatever holds callables has to be in the result, to be dropped without the lock.
fn with<R>(change: impl FnOnce(&mut State) -> R) -> R {
    change(STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// A new reference to a callable of a seat, or null.
pub(crate) fn callable(seat: usize, which: usize) -> *mut ffi::PyObject {
    with(|state| {
        let callable = state.seat(seat).and_then(|seat| seat.allocator.callables[which].as_ref());
        callable.map_or(std::ptr::null_mut(), |callable| {
            // SAFETY: the interpreter's lock is held, as for everything here.
            unsafe { ffi::Py_IncRef(callable.as_ptr()) };
            callable.as_ptr()
        })
    })
}

/// Whether no error of this callable was shown before.
pub(crate) fn is_first_error(seat: usize, which: usize) -> bool {
    let bit = 1 << which;
    with(|state| {
        let before =
            state.seat(seat).map(|seat| seat.allocator.shown.fetch_or(bit, Ordering::Relaxed));
        before.is_none_or(|before| before & bit == 0)
    })
}

thread_local! {
    /// How many calls of Python this thread is in that may call back, and whether one of them was interrupted.
    static CALLS: Cell<(usize, bool)> = const { Cell::new((0, false)) };
}

/// Keeps an interrupt of a callback until the call that it is part of is over: the block that C gets or gives back
/// meanwhile would be lost. False if Python does not handle interrupts.
pub(crate) fn postpone_interrupt(seat: usize) -> bool {
    // SAFETY: all zeros is a valid sigaction, and the place is there for the call.
    let handler = unsafe {
        let mut known: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGINT, std::ptr::null(), &mut known);
        known.sa_sigaction
    };
    if [libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
        return false;
    }
    match CALLS.get() {
        (0, _) => with(|state| state.seat(seat).map(|seat| seat.interrupted = true)).is_some(),
        (calls, _) => {
            CALLS.set((calls, true));
            true
        }
    }
}

/// Notes that C has a block.
pub(crate) fn taken(seat: usize, block: usize) {
    with(|state| {
        if let Some(seat) = state.seat(seat) {
            *seat.out.entry(block).or_default() += 1;
        }
    });
}

/// Notes that C gives a block back.
pub(crate) fn given(seat: usize, block: usize) {
    with(|state| {
        let Some(seat) = state.seat(seat) else { return };
        let count = seat.out.get(&block).copied().unwrap_or(0);
        match count {
            0 => {}
            1 => drop(seat.out.remove(&block)),
            _ => drop(seat.out.insert(block, count - 1)),
        }
    });
}

/// Notes that a callback of a seat is over; whether it has to be followed by the interrupt that came meanwhile. Who
/// leaves now is found by [`dropped`].
pub(crate) fn over(seat: usize) -> bool {
    with(|state| {
        let done = state.seat(seat).filter(|seat| seat.out.is_empty());
        let interrupted = done.is_some_and(|seat| std::mem::take(&mut seat.interrupted));
        for allocator in state.gone() {
            let callables = Arc::into_inner(allocator).map(|allocator| allocator.callables);
            state.dropped.extend(callables.into_iter().flatten().flatten());
        }
        interrupted
    })
}

/// A reference that is left over from a callback, or null.
pub(crate) fn dropped() -> *mut ffi::PyObject {
    with(|state| state.dropped.pop()).map_or(std::ptr::null_mut(), Py::into_ptr)
}

/// Runs a call that may call back, while other Python threads may run. Allocators that lose their stream meanwhile
/// linger until it is over. In a child that a callback forked nothing is executed, and the code says so.
pub(crate) fn executing(py: Python<'_>, call: impl FnOnce() -> i32 + Send) -> i32 {
    let forks = interpreter::forks();
    let began = with(|state| {
        let began = state.moment();
        state.running.insert(began);
        began
    });
    let (calls, before) = CALLS.get();
    CALLS.set((calls + 1, false));
    let ret = interpreter::waiting(py, call);
    let (_, interrupted) = CALLS.replace((calls, before));
    if interrupted {
        // SAFETY: the interpreter's lock is held.
        unsafe { ffi::PyErr_SetInterrupt() };
    }
    let left = with(|state| {
        state.running.remove(&began);
        state.gone()
    });
    drop(left);
    if interpreter::forks() == forks { ret } else { INTERNAL_ERROR }
}

/// Registers an allocator on a stream; `register` tells C, given the functions of its seat, in a [`Turn`] in
/// which no Python runs.
pub(crate) fn register(
    py: Python<'_>,
    stream: usize,
    allocator: Allocator,
    register: impl FnOnce(usize) -> i32,
) -> PyResult<i32> {
    let known: Vec<_> = with(|state| {
        let taken = state.seats.iter().enumerate();
        let taken =
            taken.filter_map(|(index, seat)| Some((index, seat.as_ref()?.allocator.clone())));
        taken.filter(|(_, known)| known.object == allocator.object).collect()
    });
    let same = known.iter().find(|(_, known)| known.same(&allocator, py));
    let allocator = Arc::new(allocator);
    let turn = Turn::take(py);
    let place = with(|state| {
        let found = same.filter(|(index, known)| {
            state.seat(*index).is_some_and(|seat| Arc::ptr_eq(&seat.allocator, known))
        });
        let place = found.map(|(index, _)| (*index, None));
        let place = place.or_else(|| state.place(allocator.clone()))?;
        state.seat(place.0)?.streams += 1;
        Some(place)
    });
    let Some((seat, lingered)) = place else {
        drop(turn);
        return Err(PyRuntimeError::new_err(format!(
            "{} allocators are registered, and there is room for no more: unregister some",
            trampoline::count()
        )));
    };
    let ret = register(seat);
    let left = with(|state| {
        match ret {
            0 => {
                state.lose(stream);
                let made = state.moment();
                state.streams.insert(stream, Registration { seat, made });
            }
            _ => state.dismiss(seat),
        }
        state.gone()
    });
    drop(turn);
    drop((left, lingered, known, allocator));
    Ok(ret)
}

/// The allocator of a stream and its seat.
pub(crate) fn of_stream(stream: usize) -> Option<(usize, Arc<Allocator>)> {
    with(|state| {
        let seat = state.streams.get(&stream)?.seat;
        Some((seat, state.seat(seat)?.allocator.clone()))
    })
}

/// What is registered on a stream now.
pub(crate) fn on_stream(stream: usize) -> Option<Registration> {
    with(|state| state.streams.get(&stream).copied())
}

/// Streams with an allocator, and their registrations.
pub(crate) fn streams() -> Vec<(usize, Registration)> {
    with(|state| state.streams.iter().map(|(stream, known)| (*stream, *known)).collect())
}

/// Notes that these registrations have ended; those that were made in their place stay.
pub(crate) fn forget(ended: &[(usize, Registration)]) {
    let left = with(|state| {
        for (stream, registration) in ended {
            if state.streams.get(stream) == Some(registration) {
                state.lose(*stream);
            }
        }
        state.gone()
    });
    drop(left);
}
