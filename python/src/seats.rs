//! Which allocators C may call.
//!
//! ```text
//! stream -> seat -> Allocator     C has the user's own object and blocks; a seat is known by its functions
//! ```
//!
//! Each seat has functions of its own (`trampoline.cpp`), so that C tells allocators apart that have the same object,
//! and a call finds its callables. The same object and callables have one seat. An allocator leaves its seat when no
//! stream has it, no block of it is out, and no call is under way that began while a stream had it.
//!
//! All of it is touched with the interpreter's lock held. [`State`] has a lock of its own that is never held while
//! Python runs: what leaves it is dropped outside.

use crate::trampoline;
use pyo3::{exceptions::PyRuntimeError, ffi, prelude::*};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

/// Alloc, free, advise and get address, in this order.
pub(crate) const CALLBACKS: usize = 4;
/// The callback that a descriptor need not have.
pub(crate) const ADVISE: usize = 2;

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

/// Whether both are methods bound to the same object: Python makes a new one at each look-up.
fn is_same_method(one: &Py<PyAny>, two: &Py<PyAny>, py: Python<'_>) -> bool {
    let part = |callable: &Py<PyAny>, name| callable.getattr(py, name).ok();
    ["__self__", "__func__"].iter().all(|name| match (part(one, *name), part(two, *name)) {
        (Some(one), Some(two)) => one.is(&two),
        _ => false,
    })
}

struct Seat {
    allocator: Arc<Allocator>,
    /// How many streams have it.
    streams: usize,
    /// Blocks that C has, by the user's words.
    out: HashSet<usize>,
    /// When the last stream lost it.
    left: u64,
}

#[derive(Default)]
struct State {
    seats: Vec<Option<Seat>>,
    streams: HashMap<usize, usize>,
    /// Seats whose allocator no stream has.
    leaving: Vec<usize>,
    /// When each call began that is under way and may call back.
    running: BTreeSet<u64>,
    moments: u64,
}

impl State {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    fn seat(&mut self, index: usize) -> Option<&mut Seat> {
        self.seats.get_mut(index)?.as_mut()
    }

    fn place(&mut self, allocator: Arc<Allocator>) -> Option<usize> {
        let seat = Seat { allocator, streams: 0, out: HashSet::new(), left: 0 };
        let empty = self.seats.iter().position(Option::is_none);
        let index = empty.unwrap_or(self.seats.len());
        if index == trampoline::count() {
            return None;
        }
        if empty.is_none() {
            self.seats.push(None);
        }
        self.seats[index] = Some(seat);
        Some(index)
    }

    fn lose(&mut self, stream: usize) {
        if let Some(index) = self.streams.remove(&stream) {
            if let Some(seat) = self.seat(index) {
                seat.streams -= 1;
            }
            self.dismiss(index);
        }
    }

    /// Lets an allocator leave if no stream has it.
    fn dismiss(&mut self, index: usize) {
        let moment = self.moment();
        if let Some(seat) = self.seat(index).filter(|seat| seat.streams == 0) {
            seat.left = moment;
            if !self.leaving.contains(&index) {
                self.leaving.push(index);
            }
        }
    }

    /// Takes out what has left.
    fn gone(&mut self) -> Vec<Arc<Allocator>> {
        let oldest = self.running.first().copied().unwrap_or(u64::MAX);
        let (seats, mut gone) = (&mut self.seats, Vec::new());
        self.leaving.retain(|index| {
            let place = &mut seats[*index];
            match place {
                Some(seat) if seat.streams > 0 => false,
                Some(seat) if !seat.out.is_empty() || seat.left > oldest => true,
                _ => {
                    gone.extend(place.take().map(|seat| seat.allocator));
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

/// Notes that C has a block.
pub(crate) fn taken(seat: usize, block: usize) {
    with(|state| state.seat(seat).map(|seat| seat.out.insert(block)));
}

/// Notes that C gives a block back.
pub(crate) fn given(seat: usize, block: usize) {
    let left = with(|state| {
        state.seat(seat).map(|seat| seat.out.remove(&block));
        state.gone()
    });
    drop(left);
}

/// Runs a call that may call back, while other Python threads may run. Allocators that lose their stream meanwhile
/// stay until it is over.
pub(crate) fn executing<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    let began = with(|state| {
        let began = state.moment();
        state.running.insert(began);
        began
    });
    let result = crate::interpreter::waiting(py, call);
    let left = with(|state| {
        state.running.remove(&began);
        state.gone()
    });
    drop(left);
    result
}

/// Registers an allocator on a stream; `register` tells C, given the functions of its seat.
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
    let seat = with(|state| {
        let found = same.filter(|(index, known)| {
            state.seat(*index).is_some_and(|seat| Arc::ptr_eq(&seat.allocator, known))
        });
        found.map(|(index, _)| *index).or_else(|| state.place(allocator.clone()))
    });
    let Some(seat) = seat else {
        return Err(PyRuntimeError::new_err(format!(
            "{} allocators are registered, and there is room for no more: unregister some",
            trampoline::count()
        )));
    };
    let ret = register(seat);
    let left = with(|state| {
        if ret == 0 {
            if let Some(seat) = state.seat(seat) {
                seat.streams += 1;
            }
            state.lose(stream);
            state.streams.insert(stream, seat);
        } else {
            state.dismiss(seat);
        }
        state.gone()
    });
    drop((left, known, allocator));
    Ok(ret)
}

/// The allocator of a stream and its seat.
pub(crate) fn of_stream(stream: usize) -> Option<(usize, Arc<Allocator>)> {
    with(|state| {
        let seat = *state.streams.get(&stream)?;
        Some((seat, state.seat(seat)?.allocator.clone()))
    })
}

/// Streams with an allocator, and their seats.
pub(crate) fn streams() -> Vec<(usize, usize)> {
    with(|state| state.streams.iter().map(|(stream, seat)| (*stream, *seat)).collect())
}

/// Notes that these streams have no allocator any more.
pub(crate) fn forget(streams: &[usize]) {
    let left = with(|state| {
        streams.iter().for_each(|stream| state.lose(*stream));
        state.gone()
    });
    drop(left);
}
