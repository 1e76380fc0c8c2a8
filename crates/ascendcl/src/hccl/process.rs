//! The communicators of this process, and its settings.

use super::{door, memory_ranges, windows};
use crate::process;
use cairn_comm::environment::Determinism;
use cairn_comm::{Code, Communicator, Communicators, Environment, Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
static COMMUNICATORS: OnceLock<Arc<Communicators>> = OnceLock::new();
/// What `HcclSetConfig` set: kept here too, because that call must not start the runtime.
static DETERMINISM: AtomicU8 = AtomicU8::new(Determinism::Off as u8);

/// The variables `HCCL_*`, read once.
pub fn environment() -> &'static Environment {
    ENVIRONMENT.get_or_init(|| {
        cairn_runtime::logs::install();
        Environment::read()
    })
}

/// The table of communicators; starts the runtime.
pub fn communicators() -> Result<&'static Communicators> {
    let shared = &crate::door::runtime()?.shared;
    Ok(COMMUNICATORS.get_or_init(|| {
        let communicators =
            Communicators::new(shared.clone(), environment().clone(), super::engine::opener());
        communicators.set_determinism(determinism());
        let communicators = Arc::new(communicators);
        shared.attach(communicators.clone());
        communicators
    }))
}

/// Refuses what would wait for other ranks when nobody waits any more.
pub fn refuse_at_end() -> Result<()> {
    match process::is_ending() {
        true => Err(Error::new(
            Code::Internal,
            "the process is ending: no communicator is made any more",
        )),
        false => Ok(()),
    }
}

/// What `HcclSetConfig` set last.
pub fn determinism() -> Determinism {
    let number = i32::from(DETERMINISM.load(Ordering::Relaxed));
    Determinism::from_number(number).unwrap_or(Determinism::Off)
}

/// Sets it, also for communicators that are there.
pub fn set_determinism(determinism: Determinism) {
    DETERMINISM.store(determinism as u8, Ordering::Relaxed);
    if let Some(communicators) = COMMUNICATORS.get() {
        communicators.set_determinism(determinism);
    }
}

/// Gives a new communicator its handle.
pub fn publish(communicator: &Arc<Communicator>) -> Result<usize> {
    let inserted = crate::door::runtime()?.handles.insert(communicator.clone());
    match inserted {
        Ok(handle) => {
            communicator.set_handle(handle);
            Ok(handle)
        }
        Err(error) => {
            communicators()?.destroy(communicator)?;
            Err(error.into())
        }
    }
}

/// Ends a communicator, its handle, and what was registered with it.
pub fn destroy(communicator: &Arc<Communicator>) -> Result<()> {
    communicators()?.destroy(communicator)?;
    windows::forget(communicator);
    memory_ranges::forget(communicator);
    // Of two threads that destroy it, one finds the handle gone.
    let _ = crate::door::runtime()?.handles.remove::<Communicator>(communicator.handle());
    Ok(())
}

/// The communicator of a name on the calling thread's device.
pub fn find(name: &str) -> Result<Arc<Communicator>> {
    communicators()?.find(door::current_device()?, name)
}
