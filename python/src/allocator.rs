//! Descriptors of users' allocators, and their registration on streams.
//!
//! What Python sets is kept here; C gets functions that fail (`trampoline.cpp`), so that a descriptor can be registered
//! from C or set in part there without harm. A registration lends the descriptor the functions of a seat (`seats.rs`).

use crate::{
    arguments::{Callable, Number},
    interpreter::waiting,
    seats::{
        self, ADDRESS, ADVISE, ALLOC, Allocator, CALLBACKS, Callables, FREE, Registration, forget,
    },
    trampoline,
    turn::Turn,
    twin,
};
use pyo3::prelude::*;
use std::{
    collections::HashMap,
    ffi::c_void,
    sync::{Mutex, PoisonError},
};

/// What a descriptor has been told by Python.
#[derive(Default)]
struct Draft {
    object: usize,
    callables: Callables,
}

impl Draft {
    fn copy(&self, py: Python<'_>) -> Draft {
        let copy =
            |callable: &Option<Py<PyAny>>| callable.as_ref().map(|known| known.clone_ref(py));
        Draft { object: self.object, callables: self.callables.each_ref().map(copy) }
    }

    fn set(&self) -> Told {
        Told { object: self.object, set: self.callables.each_ref().map(Option::is_some) }
    }

    fn is_complete(&self) -> bool {
        let there = |(index, callable): (usize, &Option<_>)| callable.is_some() || index == ADVISE;
        self.object != 0 && self.callables.iter().enumerate().all(there)
    }
}

/// What C is told of a draft.
#[derive(Clone, Copy)]
struct Told {
    object: usize,
    set: [bool; CALLBACKS],
}

impl Told {
    /// Sets in C what is set here; the first code that is not 0.
    fn tell(&self, desc: usize, functions: [usize; CALLBACKS]) -> i32 {
        let object = if self.object == 0 { 0 } else { set_object(desc, self.object) };
        let set = |index| match self.set[index] {
            true => set_function(desc, index, functions[index]),
            false => 0,
        };
        std::iter::once(object).chain((0..CALLBACKS).map(set)).find(|ret| *ret != 0).unwrap_or(0)
    }
}

static DRAFTS: Mutex<Option<HashMap<usize, Draft>>> = Mutex::new(None);

/// Changes the drafts; whatever holds callables has to be in the result, to be dropped without the lock.
fn drafts<R>(change: impl FnOnce(&mut HashMap<usize, Draft>) -> R) -> R {
    change(DRAFTS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// What C knows of a stream.
#[derive(Default)]
struct Registered {
    desc: usize,
    object: usize,
    functions: [usize; CALLBACKS],
    ret: i32,
}

fn registered(stream: usize) -> Registered {
    let ask = twin!(aclrtAllocatorGetByStream: fn(usize, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> i32);
    let mut known = Registered::default();
    let [alloc, free, advise, address] = &mut known.functions;
    // SAFETY: every place is there for the call, and a function is as large as an address.
    known.ret =
        unsafe { ask(stream, &mut known.desc, &mut known.object, alloc, free, advise, address) };
    known
}

/// Whether C would call the allocator of this seat.
fn sits(known: &Registered, seat: usize) -> bool {
    known.ret == 0 && known.functions[0] == trampoline::functions(Some(seat))[0]
}

/// Notes which streams have ended without our doing. Asks on a thread of its own, because asking about a stream that
/// has ended is an error, and errors leave their text with the thread. Without a thread the next one sweeps.
pub(crate) fn sweep(py: Python<'_>) {
    let noted = seats::streams();
    if noted.is_empty() {
        return;
    }
    let ask = move || -> Vec<_> {
        let ended =
            |(stream, known): &(usize, Registration)| !sits(&registered(*stream), known.seat);
        noted.into_iter().filter(ended).collect()
    };
    let ended = waiting(py, || {
        let asking = std::thread::Builder::new().spawn(ask).ok();
        asking.and_then(|asking| asking.join().ok())
    });
    forget(&ended.unwrap_or_default());
}

fn create_desc() -> usize {
    // SAFETY: takes nothing.
    unsafe { twin!(aclrtAllocatorCreateDesc: fn() -> usize)() }
}

fn destroy_desc(desc: usize) -> i32 {
    // SAFETY: the library checks the handle.
    unsafe { twin!(aclrtAllocatorDestroyDesc: fn(usize) -> i32)(desc) }
}

fn set_object(desc: usize, object: usize) -> i32 {
    // SAFETY: the library checks the handle and does not look behind the object.
    unsafe { twin!(aclrtAllocatorSetObjToDesc: fn(usize, usize) -> i32)(desc, object) }
}

fn set_function(desc: usize, index: usize, function: usize) -> i32 {
    let set = [
        twin!(aclrtAllocatorSetAllocFuncToDesc: fn(usize, *const c_void) -> i32),
        twin!(aclrtAllocatorSetFreeFuncToDesc: fn(usize, *const c_void) -> i32),
        twin!(aclrtAllocatorSetAllocAdviseFuncToDesc: fn(usize, *const c_void) -> i32),
        twin!(aclrtAllocatorSetGetAddrFromBlockFuncToDesc: fn(usize, *const c_void) -> i32),
    ];
    // SAFETY: the library checks the handle, and the function has the type that the header gives it.
    unsafe { set[index](desc, function as *const c_void) }
}

fn set_callable(py: Python<'_>, desc: usize, index: usize, callable: Callable) -> i32 {
    let turn = Turn::take(py);
    let ret = waiting(py, || set_function(desc, index, trampoline::functions(None)[index]));
    drop(turn);
    if ret == 0 {
        drop(drafts(|drafts| drafts.entry(desc).or_default().callables[index].replace(callable.0)));
    }
    ret
}

fn register_in_c(stream: usize, desc: usize) -> i32 {
    // SAFETY: the library checks both handles.
    unsafe { twin!(aclrtAllocatorRegister: fn(usize, usize) -> i32)(stream, desc) }
}

/// A new descriptor with nothing in it; 0 when there can be none.
#[pyfunction(name = "allocator_create_desc")]
pub(crate) fn rt_allocator_create_desc(py: Python<'_>) -> usize {
    let desc = waiting(py, create_desc);
    if desc != 0 {
        drop(drafts(|drafts| drafts.insert(desc, Draft::default())));
    }
    desc
}

/// Ends a descriptor; what was registered with it stays.
#[pyfunction(name = "allocator_destroy_desc")]
pub(crate) fn rt_allocator_destroy_desc(py: Python<'_>, desc: Number<usize>) -> i32 {
    let draft = drafts(|drafts| drafts.remove(&desc.0));
    let ret = waiting(py, || destroy_desc(desc.0));
    if let Some(draft) = draft.filter(|_| ret != 0) {
        drafts(|drafts| drafts.entry(desc.0).or_insert(draft).object);
    }
    ret
}

/// Sets what the callables get first.
#[pyfunction(name = "allocator_set_obj_to_desc")]
pub(crate) fn rt_allocator_set_obj_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    allocator: Number<usize>,
) -> i32 {
    let ret = waiting(py, || set_object(desc.0, allocator.0));
    if ret == 0 {
        drafts(|drafts| drafts.entry(desc.0).or_default().object = allocator.0);
    }
    ret
}

/// Sets `func(allocator, size)`, which returns a block, or None or 0 when it has none.
#[pyfunction(name = "allocator_set_alloc_func_to_desc")]
pub(crate) fn rt_allocator_set_alloc_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set_callable(py, desc.0, ALLOC, func)
}

/// Sets `func(allocator, block)`, which takes a block back.
#[pyfunction(name = "allocator_set_free_func_to_desc")]
pub(crate) fn rt_allocator_set_free_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set_callable(py, desc.0, FREE, func)
}

/// Sets `func(allocator, size, addr)`, which returns a block, near `addr` if it can.
#[pyfunction(name = "allocator_set_alloc_advise_func_to_desc")]
pub(crate) fn rt_allocator_set_alloc_advise_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set_callable(py, desc.0, ADVISE, func)
}

/// Sets `func(block)`, which returns the address of a block.
#[pyfunction(name = "allocator_set_get_addr_from_block_func_to_desc")]
pub(crate) fn rt_allocator_set_get_addr_from_block_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set_callable(py, desc.0, ADDRESS, func)
}

/// Registers what the descriptor says now on a stream. A descriptor with callables of Python is taken as Python knows
/// it: functions that C set beside them do not count.
#[pyfunction(name = "allocator_register")]
pub(crate) fn rt_allocator_register(
    py: Python<'_>,
    stream: Number<usize>,
    desc: Number<usize>,
) -> PyResult<i32> {
    let (stream, desc) = (stream.0, desc.0);
    let draft = drafts(|drafts| drafts.get(&desc).map(|draft| draft.copy(py)));
    let draft = draft.filter(|draft| draft.callables.iter().any(Option::is_some));
    let Some(draft) = draft else {
        let turn = Turn::take(py);
        let known = seats::on_stream(stream);
        let ret = waiting(py, || register_in_c(stream, desc));
        drop(turn);
        return Ok(ended(stream, known, ret));
    };
    let told = draft.set();
    if !draft.is_complete() {
        let turn = Turn::take(py);
        let ret = waiting(py, || refuse(stream, desc, told));
        drop(turn);
        return Ok(ret);
    }
    let allocator = Allocator::new(draft.object, draft.callables);
    seats::register(py, stream, allocator, |seat| {
        let tell = || {
            let ret = match told.tell(desc, trampoline::functions(Some(seat))) {
                0 => register_in_c(stream, desc),
                ret => ret,
            };
            told.tell(desc, trampoline::functions(None));
            ret
        };
        waiting(py, tell)
    })
}

/// What C answers to a descriptor that has only what the draft has.
fn refuse(stream: usize, desc: usize, told: Told) -> i32 {
    let functions = trampoline::functions(None);
    let ret = told.tell(desc, functions);
    if ret != 0 {
        return ret;
    }
    let like = create_desc();
    told.tell(like, functions);
    let ret = register_in_c(stream, like);
    destroy_desc(like);
    ret
}

/// Notes that a registration has ended, if the code says so, and passes the code on.
pub(crate) fn ended(stream: usize, known: Option<Registration>, ret: i32) -> i32 {
    if let Some(known) = known.filter(|_| ret == 0) {
        forget(&[(stream, known)]);
    }
    ret
}

/// Ends what is registered on a stream, if anything is.
#[pyfunction(name = "allocator_unregister")]
pub(crate) fn rt_allocator_unregister(py: Python<'_>, stream: Number<usize>) -> i32 {
    let turn = Turn::take(py);
    let known = seats::on_stream(stream.0);
    let ret = waiting(py, || {
        // SAFETY: the library checks the handle.
        unsafe { twin!(aclrtAllocatorUnregister: fn(usize) -> i32)(stream.0) }
    });
    drop(turn);
    ended(stream.0, known, ret)
}

type Func<'py> = Option<Bound<'py, PyAny>>;

/// What is registered on a stream, as it was set; functions of C as their addresses.
#[pyfunction(name = "allocator_get_by_stream")]
pub(crate) fn rt_allocator_get_by_stream<'py>(
    py: Python<'py>,
    stream: Number<usize>,
) -> PyResult<(usize, usize, Func<'py>, Func<'py>, Func<'py>, Func<'py>, i32)> {
    let known = waiting(py, || registered(stream.0));
    let own = seats::of_stream(stream.0).filter(|(seat, _)| sits(&known, *seat));
    let mut functions: [Func<'py>; CALLBACKS] = Default::default();
    for (index, function) in functions.iter_mut().enumerate() {
        *function = match (&own, known.functions[index]) {
            (Some((_, own)), _) => {
                own.callables[index].as_ref().map(|known| known.bind(py).clone())
            }
            (None, 0) => None,
            (None, address) => Some(address.into_pyobject(py)?.into_any()),
        };
    }
    let [alloc, free, advise, address] = functions;
    Ok((known.desc, known.object, alloc, free, advise, address, known.ret))
}
