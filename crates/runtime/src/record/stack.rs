//! Stacks of calls: taken once a call, when a sink asks for its site, and numbered by what they are.
//!
//! How a stack is walked is the door's affair ([`Unwinder`]). A frame is a file that was loaded and an offset in it; names and
//! lines are found later, by whoever reads the record. Nothing is taken until [`switch_on`] was called.

use cairn_record::entry::Frame;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many frames are looked at.
pub const MAX_FRAMES: usize = 128;

static IS_ON: AtomicBool = AtomicBool::new(false);
static UNWINDER: OnceLock<&'static dyn Unwinder> = OnceLock::new();
static STACKS: Mutex<Option<Stacks>> = Mutex::new(None);

/// Walks stacks. It is called with locks of the engine held, calls nothing of the engine, and never unwinds.
pub trait Unwinder: Sync {
    /// Writes the addresses of the calling thread's calls, innermost first; returns how many.
    fn walk(&self, addresses: &mut [usize; MAX_FRAMES]) -> usize;

    /// What lies at these addresses, without the inner ones that belong to the library itself.
    fn describe(&self, addresses: &[usize]) -> Box<[Frame]>;
}

/// All stacks that were taken.
#[derive(Default)]
struct Stacks {
    numbers: FxHashMap<Box<[usize]>, u32>,
    /// By number, from 1 on.
    frames: Vec<Box<[Frame]>>,
}

/// Sets how stacks are walked, once; without it none are taken.
pub fn set_unwinder(unwinder: &'static dyn Unwinder) {
    let _ = UNWINDER.set(unwinder);
}

/// From now on stacks are taken.
pub fn switch_on() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// The number of the calling thread's stack; 0 where stacks are not taken.
#[inline]
pub fn take() -> u32 {
    if IS_ON.load(Ordering::Relaxed) { take_now() } else { 0 }
}

/// The frames of a stack, innermost first; none for an unknown number.
pub fn frames(number: u32) -> Box<[Frame]> {
    let stacks = lock();
    let index = (number as usize).wrapping_sub(1);
    stacks.as_ref().and_then(|stacks| stacks.frames.get(index).cloned()).unwrap_or_default()
}

fn lock() -> MutexGuard<'static, Option<Stacks>> {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn take_now() -> u32 {
    let Some(unwinder) = UNWINDER.get() else { return 0 };
    let mut addresses = [0; MAX_FRAMES];
    let count = unwinder.walk(&mut addresses);
    let addresses = &addresses[..count];
    if let Some(number) = lock().get_or_insert_default().numbers.get(addresses) {
        return *number;
    }
    // The loader may have to be asked: not with our lock held.
    let frames = unwinder.describe(addresses);
    let mut stacks = lock();
    let stacks = stacks.get_or_insert_default();
    if let Some(number) = stacks.numbers.get(addresses) {
        return *number;
    }
    stacks.frames.push(frames);
    let number = stacks.frames.len() as u32;
    stacks.numbers.insert(addresses.into(), number);
    number
}
