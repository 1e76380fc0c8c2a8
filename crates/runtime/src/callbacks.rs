//! State callbacks: functions of the program that are called when streams and devices are created or end.
//! Called on the thread that makes the change, with no lock held.

use crate::error::{Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, thread_local};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A state of a stream that is reported, with CANN's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StreamState {
    /// The stream was just made.
    CreatePost = 1,
    /// The stream is about to end.
    DestroyPre = 2,
}

/// A state of a device that is reported, with CANN's number.
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

/// A user function, called with a stream or device and its state; false after an exception. When it ends its thread,
/// the last argument is called and the thread stays where it is: nothing unwinds further. The door makes it.
pub type StateFunction = Arc<dyn Fn(usize, u32, &dyn Fn()) -> bool + Send + Sync>;

/// What a list of callbacks reports about: streams or devices.
pub trait Subject {
    /// How a stream or device is named to the callback.
    type Id: Copy;
    /// Its states.
    type State: Copy;
    /// Both as the callback gets them.
    fn raw(id: Self::Id, state: Self::State) -> (usize, u32);
}

/// Streams, by handle.
pub struct StreamSubject;
impl Subject for StreamSubject {
    type Id = usize;
    type State = StreamState;
    fn raw(id: usize, state: StreamState) -> (usize, u32) {
        (id, state as u32)
    }
}

/// Devices, by the user's id.
pub struct DeviceSubject;
impl Subject for DeviceSubject {
    type Id = u32;
    type State = DeviceState;
    fn raw(id: u32, state: DeviceState) -> (usize, u32) {
        (id as usize, state as u32)
    }
}

/// Named callbacks, in the order of their registration.
pub struct Callbacks<S> {
    list: Mutex<Vec<Callback>>,
    is_disabled: AtomicBool,
    subject: PhantomData<fn(S)>,
}

#[derive(Clone)]
struct Callback {
    name: String,
    call: StateFunction,
}

impl<S> Default for Callbacks<S> {
    fn default() -> Callbacks<S> {
        Callbacks {
            list: Mutex::new(Rank::Callbacks, Vec::new()),
            is_disabled: AtomicBool::new(false),
            subject: PhantomData,
        }
    }
}

impl<S: Subject> Callbacks<S> {
    /// Adds a callback; two cannot have the same name.
    pub fn register(&self, name: &str, call: StateFunction) -> Result<()> {
        let mut list = self.list.lock();
        if list.iter().any(|c| c.name == name) {
            return Err(Error::invalid(format!("a callback named {name} is registered already")));
        }
        list.push(Callback { name: name.to_string(), call });
        Ok(())
    }

    /// Removes a callback.
    pub fn unregister(&self, name: &str) -> Result<()> {
        let mut list = self.list.lock();
        let before = list.len();
        list.retain(|c| c.name != name);
        match list.len() < before {
            true => Ok(()),
            false => Err(Error::invalid(format!("no callback named {name} is registered"))),
        }
    }

    /// From now on no callback is called: `main` has returned.
    pub fn disable(&self) {
        self.is_disabled.store(true, Ordering::SeqCst);
    }

    /// Calls them all, unless the calling thread is inside one already: a callback that makes another
    /// change is not called for that one.
    pub fn call(&self, id: S::Id, state: S::State) {
        if self.is_disabled.load(Ordering::SeqCst) || INSIDE.with(|inside| inside.replace(true)) {
            return;
        }
        self.call_each(id, state);
        INSIDE.with(|inside| inside.set(false));
    }

    fn call_each(&self, id: S::Id, state: S::State) {
        let list: Vec<Callback> = self.list.lock().clone();
        let (subject, state) = S::raw(id, state);
        for Callback { name, call } in &list {
            let on_exit =
                || log::error!("the state callback {name} ended its thread, which stays parked");
            if !call(subject, state, &on_exit) {
                log::error!("the state callback {name} threw a C++ exception");
            }
        }
    }
}
