//! State callbacks: parts of a program that want to know when streams and devices come and go.
//! Called on the thread that makes the change, with no lock held.

use crate::error::{Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread_local;
use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A moment in a stream's life, with CANN's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamState {
    /// The stream was just made.
    CreatePost = 1,
    /// The stream is about to end.
    DestroyPre = 2,
}

/// A moment in a device's life, with CANN's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DeviceState {
    /// About to be set.
    SetPre = 0,
    /// Was set.
    SetPost = 1,
    /// About to be reset.
    ResetPre = 2,
    /// Was reset.
    ResetPost = 3,
}

/// Calls the user's function at `function` with subject, state and argument, and turns an exception
/// into `false`. When the function ends its thread, `left` is called with `context` and the thread stays
/// where it is: nothing unwinds further. The door provides it.
pub type Caller = unsafe extern "C" fn(
    function: *const c_void,
    subject: usize,
    state: u32,
    argument: *mut c_void,
    left: unsafe extern "C" fn(context: *const c_void),
    context: *const c_void,
) -> bool;

/// A callback ended its thread; `context` is the callback.
unsafe extern "C" fn left(context: *const c_void) {
    // SAFETY: `call_each` passes a callback of its own list, which lives as long as its parked thread.
    let callback = unsafe { &*context.cast::<Callback>() };
    log::error!("the state callback {} ended its thread, which stays parked", callback.name);
}

/// What a list of callbacks is about.
pub trait Subject {
    /// What is passed as the subject.
    type Id: Copy;
    /// The moments.
    type State: Copy;
    /// Both as the callback gets them.
    fn raw(id: Self::Id, state: Self::State) -> (usize, u32);
}

/// Streams, by handle.
pub struct OfStream;
impl Subject for OfStream {
    type Id = usize;
    type State = StreamState;
    fn raw(id: usize, state: StreamState) -> (usize, u32) {
        (id, state as u32)
    }
}

/// Devices, by the user's id.
pub struct OfDevice;
impl Subject for OfDevice {
    type Id = u32;
    type State = DeviceState;
    fn raw(id: u32, state: DeviceState) -> (usize, u32) {
        (id as usize, state as u32)
    }
}

/// Named callbacks, in the order of their registration.
pub struct Callbacks<S> {
    list: Mutex<Vec<Callback>>,
    silent: AtomicBool,
    subject: PhantomData<fn(S)>,
}

#[derive(Clone)]
struct Callback {
    name: String,
    call: Caller,
    function: *const c_void,
    argument: *mut c_void,
}

// SAFETY: the user registers function and argument for calls from any of its threads; they are only
// carried here.
unsafe impl Send for Callback {}

impl<S> Default for Callbacks<S> {
    fn default() -> Callbacks<S> {
        Callbacks {
            list: Mutex::new(Rank::Callbacks, Vec::new()),
            silent: AtomicBool::new(false),
            subject: PhantomData,
        }
    }
}

impl<S: Subject> Callbacks<S> {
    /// Adds a callback; a name is taken once.
    pub fn register(
        &self,
        name: &str,
        call: Caller,
        function: *const c_void,
        argument: *mut c_void,
    ) -> Result<()> {
        let mut list = self.list.lock();
        if list.iter().any(|c| c.name == name) {
            return Err(Error::invalid(format!("a callback named {name} is registered already")));
        }
        list.push(Callback { name: name.to_string(), call, function, argument });
        Ok(())
    }

    /// Takes a callback away.
    pub fn unregister(&self, name: &str) -> Result<()> {
        let mut list = self.list.lock();
        let before = list.len();
        list.retain(|c| c.name != name);
        match list.len() < before {
            true => Ok(()),
            false => Err(Error::invalid(format!("no callback named {name} is registered"))),
        }
    }

    /// From now on nobody is called: `main` has returned.
    pub fn silence(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Calls them all, unless the calling thread is inside one already: a callback that makes another
    /// change is not called for that one.
    pub fn call(&self, id: S::Id, state: S::State) {
        if self.silent.load(Ordering::SeqCst) || INSIDE.with(|inside| inside.replace(true)) {
            return;
        }
        self.call_each(id, state);
        INSIDE.with(|inside| inside.set(false));
    }

    fn call_each(&self, id: S::Id, state: S::State) {
        let list: Vec<Callback> = self.list.lock().clone();
        let (subject, state) = S::raw(id, state);
        for callback in &list {
            let Callback { call, function, argument, .. } = *callback;
            let context = std::ptr::from_ref(callback).cast();
            // SAFETY: `call` accepts any function and argument that came through the same door.
            let fine = unsafe { call(function, subject, state, argument, left, context) };
            if !fine {
                log::error!("the state callback {} threw a C++ exception", callback.name);
            }
        }
    }
}
