//! The thread that runs graphs which were asked for without a stream, one behind the other.

use cairn_graph::{Failure, Result};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// One run.
pub type Work = Box<dyn FnOnce() + Send>;

static QUEUE: Mutex<Option<Sender<Work>>> = Mutex::new(None);

/// Puts a run behind those that wait. The thread is started at the first one.
pub fn push(work: Work) -> Result<()> {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.is_none() {
        let (sender, receiver) = channel::<Work>();
        let run = move || receiver.into_iter().for_each(|work| work());
        let started = std::thread::Builder::new().name("cairn-graphs".into()).spawn(run);
        started.map_err(|error| {
            Failure::failed(format!("cannot start a thread for graphs: {error}"))
        })?;
        *queue = Some(sender);
    }
    let sent = queue.as_ref().map(|sender| sender.send(work));
    match sent {
        Some(Ok(())) => Ok(()),
        _ => Err(Failure::failed("the thread for graphs has ended")),
    }
}
