//! Stacks of calls: taken once a call, when a sink asks for its site, and numbered by what they are.
//!
//! How a stack is walked is the door's affair ([`Unwinder`]). A frame of C is a file that was loaded and an offset in it: names and
//! lines are found later, by whoever reads the record. One of Python is a function, a file and a line. Nothing is taken until
//! [`switch_on`] was called, but for faults ([`take_at_fault`]).

use cairn_record::entry::Frame;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many frames of C are looked at.
pub const MAX_FRAMES: usize = 128;

static IS_ON: AtomicBool = AtomicBool::new(false);
static UNWINDER: OnceLock<&'static dyn Unwinder> = OnceLock::new();
static STACKS: Mutex<Option<Stacks>> = Mutex::new(None);

/// What tells one stack from another: whatever the unwinder puts into it.
pub type Words = SmallVec<[usize; 256]>;

/// Walks stacks. It is called with locks of the engine held, calls nothing of the engine, and never unwinds.
pub trait Unwinder: Sync {
    /// Appends what tells the calling thread's stack from others. `is_fault`: it is called in the handler of a fault, whose
    /// frames do not belong to the stack.
    fn walk(&self, is_fault: bool, words: &mut Words);

    /// The frames of the stack that was walked last on this thread, innermost first, without the inner ones that belong to the
    /// library itself.
    fn describe(&self, words: &[usize]) -> Box<[Frame]>;
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
    if IS_ON.load(Ordering::Relaxed) { take_now(false) } else { 0 }
}

/// The number of the stack of a thread that is in the handler of a fault, whether or not stacks are taken.
pub fn take_at_fault() -> u32 {
    take_now(true)
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
fn take_now(is_fault: bool) -> u32 {
    let Some(unwinder) = UNWINDER.get() else { return 0 };
    let mut words = Words::new();
    unwinder.walk(is_fault, &mut words);
    if let Some(number) = lock().get_or_insert_default().numbers.get(&words[..]) {
        return *number;
    }
    // The loader may have to be asked: not with our lock held.
    let frames = unwinder.describe(&words);
    let mut stacks = lock();
    let stacks = stacks.get_or_insert_default();
    if let Some(number) = stacks.numbers.get(&words[..]) {
        return *number;
    }
    stacks.frames.push(frames);
    let number = stacks.frames.len() as u32;
    stacks.numbers.insert(words.as_slice().into(), number);
    number
}
