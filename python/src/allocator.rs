//! Users' allocators: which callables stand behind a descriptor and a registration.
//!
//! ```text
//! descriptor -> Draft       what was set so far
//! stream     -> key         what is registered
//! key        -> Allocator   the callables, kept while a stream or a block needs them
//! ```
//!
//! C gets a key in place of the user's object, so that its functions, the same for all, find the callables. The same
//! object and callables have one key: C serialises calls by it. A key is never used again.
//!
//! All of it is touched with the interpreter's lock held. [`State`] has a lock of its own that is never held while
//! Python runs: what leaves it is dropped outside.

use crate::{
    arguments::{Callable, Number},
    trampoline, twin,
};
use pyo3::prelude::*;
use std::{
    collections::{HashMap, HashSet},
    ffi::c_void,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a descriptor has been told.
#[derive(Default)]
struct Draft {
    object: usize,
    alloc: Option<Py<PyAny>>,
    free: Option<Py<PyAny>>,
    advise: Option<Py<PyAny>>,
    address: Option<Py<PyAny>>,
}

/// A complete draft, as it was registered.
pub(crate) struct Allocator {
    /// What the callables get first.
    pub object: usize,
    /// `(object, size)` to a block.
    pub alloc: Py<PyAny>,
    /// `(object, block)`.
    pub free: Py<PyAny>,
    /// `(object, size, address)` to a block.
    pub advise: Option<Py<PyAny>>,
    /// `(block)` to an address.
    pub address: Py<PyAny>,
    /// The errors that have been shown.
    pub shown: Mutex<Vec<String>>,
}

impl Allocator {
    fn complete(draft: &Draft, py: Python<'_>) -> Option<Allocator> {
        let copy =
            |callable: &Option<Py<PyAny>>| callable.as_ref().map(|callable| callable.clone_ref(py));
        Some(Allocator {
            object: (draft.object != 0).then_some(draft.object)?,
            alloc: copy(&draft.alloc)?,
            free: copy(&draft.free)?,
            advise: copy(&draft.advise),
            address: copy(&draft.address)?,
            shown: Mutex::default(),
        })
    }

    fn same(&self, other: &Allocator, py: Python<'_>) -> bool {
        let equal = |one: &Py<PyAny>, two: &Py<PyAny>| one.is(two) || is_same_method(one, two, py);
        let advise = match (&self.advise, &other.advise) {
            (Some(one), Some(two)) => equal(one, two),
            (None, None) => true,
            _ => false,
        };
        self.object == other.object
            && advise
            && equal(&self.alloc, &other.alloc)
            && equal(&self.free, &other.free)
            && equal(&self.address, &other.address)
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

#[derive(Default)]
struct State {
    drafts: HashMap<usize, Draft>,
    allocators: HashMap<usize, Arc<Allocator>>,
    streams: HashMap<usize, usize>,
    keys: usize,
    /// Calls under way that may call back.
    executing: usize,
}

impl State {
    /// Takes out what no stream has; nothing while executions run, which may still call it.
    fn unused(&mut self) -> Vec<Arc<Allocator>> {
        if self.executing > 0 {
            return Vec::new();
        }
        let used: HashSet<usize> = self.streams.values().copied().collect();
        self.allocators
            .extract_if(|key, _| !used.contains(key))
            .map(|(_, allocator)| allocator)
            .collect()
    }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Changes the state; whatever holds callables has to be in the result, to be dropped without the lock.
fn with<R>(change: impl FnOnce(&mut State) -> R) -> R {
    let mut state: MutexGuard<'_, Option<State>> =
        STATE.lock().unwrap_or_else(PoisonError::into_inner);
    change(state.get_or_insert_default())
}

/// What C means by the object `key`.
pub(crate) fn find(key: usize) -> Option<Arc<Allocator>> {
    with(|state| state.allocators.get(&key).cloned())
}

/// Runs a call that may call back, while other Python threads may run. Allocators that lose their stream meanwhile
/// stay until it is over.
pub(crate) fn executing<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    with(|state| state.executing += 1);
    let result = crate::interpreter::waiting(py, call);
    let left = with(|state| {
        state.executing -= 1;
        state.unused()
    });
    drop(left);
    result
}

/// Notes that these streams have no allocator any more.
pub(crate) fn forget(streams: &[usize]) {
    let left = with(|state| {
        for stream in streams {
            state.streams.remove(stream);
        }
        state.unused()
    });
    drop(left);
}

/// Notes which streams have ended without our doing. Asks on a thread of its own, because asking about a stream that
/// has ended is an error, and errors leave their text with the thread.
pub(crate) fn sweep() {
    let noted: Vec<(usize, usize)> =
        with(|state| state.streams.iter().map(|(s, k)| (*s, *k)).collect());
    if noted.is_empty() {
        return;
    }
    let ask = move || -> Vec<usize> {
        let ended = noted.iter().filter(|(stream, key)| registered(*stream).object != *key);
        ended.map(|(stream, _)| *stream).collect()
    };
    if let Ok(ended) = std::thread::spawn(ask).join() {
        forget(&ended);
    }
}

/// What C knows of a stream.
#[derive(Default)]
struct Registered {
    desc: usize,
    object: usize,
    functions: [usize; 4],
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

/// A new descriptor with nothing in it; 0 when there can be none.
#[pyfunction(name = "allocator_create_desc")]
pub(crate) fn rt_allocator_create_desc() -> usize {
    // SAFETY: takes nothing.
    let desc = unsafe { twin!(aclrtAllocatorCreateDesc: fn() -> usize)() };
    if desc != 0 {
        drop(with(|state| state.drafts.insert(desc, Draft::default())));
    }
    desc
}

/// Ends a descriptor; what was registered with it stays.
#[pyfunction(name = "allocator_destroy_desc")]
pub(crate) fn rt_allocator_destroy_desc(desc: Number<usize>) -> i32 {
    // SAFETY: the library checks the handle.
    let ret = unsafe { twin!(aclrtAllocatorDestroyDesc: fn(usize) -> i32)(desc.0) };
    if ret == 0 {
        drop(with(|state| state.drafts.remove(&desc.0)));
    }
    ret
}

/// Sets what the callables get first.
#[pyfunction(name = "allocator_set_obj_to_desc")]
pub(crate) fn rt_allocator_set_obj_to_desc(desc: Number<usize>, allocator: Number<usize>) -> i32 {
    let ret = set_object(desc.0, allocator.0);
    if ret == 0 {
        with(|state| state.drafts.entry(desc.0).or_default().object = allocator.0);
    }
    ret
}

fn set_object(desc: usize, object: usize) -> i32 {
    // SAFETY: the library checks the handle and does not look behind the object.
    unsafe { twin!(aclrtAllocatorSetObjToDesc: fn(usize, usize) -> i32)(desc, object) }
}

/// Sets a callable of a descriptor, and our function for it in C.
macro_rules! setter {
    ($ident:ident, $name:literal, $twin:ident, $field:ident, $function:expr, $doc:literal) => {
        #[doc = $doc]
        #[pyfunction(name = $name)]
        pub(crate) fn $ident(desc: Number<usize>, func: Callable) -> i32 {
            // SAFETY: the library checks the handle, and the function has the type that the header gives it.
            let ret = unsafe { twin!($twin: fn(usize, *const c_void) -> i32)(desc.0, $function as *const c_void) };
            if ret == 0 {
                drop(with(|state| state.drafts.entry(desc.0).or_default().$field.replace(func.0)));
            }
            ret
        }
    };
}

setter!(
    rt_allocator_set_alloc_func_to_desc,
    "allocator_set_alloc_func_to_desc",
    aclrtAllocatorSetAllocFuncToDesc,
    alloc,
    trampoline::alloc,
    "Sets `func(allocator, size)`, which returns a block, or None or 0 when it has none."
);
setter!(
    rt_allocator_set_free_func_to_desc,
    "allocator_set_free_func_to_desc",
    aclrtAllocatorSetFreeFuncToDesc,
    free,
    trampoline::free,
    "Sets `func(allocator, block)`, which takes a block back."
);
setter!(
    rt_allocator_set_alloc_advise_func_to_desc,
    "allocator_set_alloc_advise_func_to_desc",
    aclrtAllocatorSetAllocAdviseFuncToDesc,
    advise,
    trampoline::advise,
    "Sets `func(allocator, size, addr)`, which returns a block, near `addr` if it can."
);
setter!(
    rt_allocator_set_get_addr_from_block_func_to_desc,
    "allocator_set_get_addr_from_block_func_to_desc",
    aclrtAllocatorSetGetAddrFromBlockFuncToDesc,
    address,
    trampoline::address,
    "Sets `func(block)`, which returns the address of a block."
);

/// Registers what the descriptor says now on a stream.
#[pyfunction(name = "allocator_register")]
pub(crate) fn rt_allocator_register(
    py: Python<'_>,
    stream: Number<usize>,
    desc: Number<usize>,
) -> i32 {
    let register = || {
        // SAFETY: the library checks both handles.
        unsafe { twin!(aclrtAllocatorRegister: fn(usize, usize) -> i32)(stream.0, desc.0) }
    };
    let complete =
        with(|state| state.drafts.get(&desc.0).map(|draft| Allocator::complete(draft, py)));
    let Some(Some(allocator)) = complete else {
        let ret = register();
        if ret == 0 {
            forget(&[stream.0]);
        }
        return ret;
    };
    let known: Vec<_> =
        with(|state| state.allocators.iter().map(|(key, known)| (*key, known.clone())).collect());
    let same = known.iter().find(|(_, known)| known.same(&allocator, py)).cloned();
    let object = allocator.object;
    let (key, allocator) = same.unwrap_or_else(|| (with(next_key), Arc::new(allocator)));
    drop(with(|state| state.allocators.insert(key, allocator)));
    set_object(desc.0, key);
    let ret = register();
    set_object(desc.0, object);
    let left = with(|state| {
        if ret == 0 {
            state.streams.insert(stream.0, key);
        }
        state.unused()
    });
    drop((left, known));
    ret
}

fn next_key(state: &mut State) -> usize {
    state.keys += 1;
    state.keys << 6
}

/// Ends what is registered on a stream, if anything is.
#[pyfunction(name = "allocator_unregister")]
pub(crate) fn rt_allocator_unregister(stream: Number<usize>) -> i32 {
    // SAFETY: the library checks the handle.
    let ret = unsafe { twin!(aclrtAllocatorUnregister: fn(usize) -> i32)(stream.0) };
    if ret == 0 {
        forget(&[stream.0]);
    }
    ret
}

type Func<'py> = Option<Bound<'py, PyAny>>;

/// What is registered on a stream, as it was set; functions of C as their addresses.
#[pyfunction(name = "allocator_get_by_stream")]
pub(crate) fn rt_allocator_get_by_stream<'py>(
    py: Python<'py>,
    stream: Number<usize>,
) -> PyResult<(usize, usize, Func<'py>, Func<'py>, Func<'py>, Func<'py>, i32)> {
    let known = registered(stream.0);
    if known.ret == 0
        && known.functions[0] == trampoline::alloc as *const () as usize
        && let Some(own) = find(known.object)
    {
        let bound = |callable: &Py<PyAny>| Some(callable.bind(py).clone());
        let advise = own.advise.as_ref().and_then(bound);
        return Ok((
            known.desc,
            own.object,
            bound(&own.alloc),
            bound(&own.free),
            advise,
            bound(&own.address),
            0,
        ));
    }
    let number = |address: usize| -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok((address != 0).then_some(address.into_pyobject(py)?.into_any()))
    };
    let [alloc, free, advise, address] = known.functions;
    let functions = (number(alloc)?, number(free)?, number(advise)?, number(address)?);
    let (alloc, free, advise, address) = functions;
    Ok((known.desc, known.object, alloc, free, advise, address, known.ret))
}
