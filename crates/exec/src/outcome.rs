//! What became of a call that was submitted, for whoever has to wait for it.

use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::stream::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sizes of an output that its values decided: index of the argument, index in its list, sizes.
pub type DecidedSizes = ((usize, usize), Vec<usize>);

/// What became of one call: done, failed, or not over yet; and the sizes that its values decided.
///
/// The task writes it, on a worker; the host thread that submitted the task waits for it. A failure is also the
/// stream's, and is reported by the user's synchronize as any other.
pub struct Outcome {
    is_done: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sizes: Vec<DecidedSizes>,
    failure: Option<Error>,
}

impl Default for Outcome {
    fn default() -> Outcome {
        let state = Mutex::new(Rank::Outcome, State::default());
        Outcome { is_done: AtomicBool::new(false), state }
    }
}

impl Outcome {
    pub(crate) fn decide(&self, argument: (usize, usize), sizes: &[usize]) {
        self.state.lock().sizes.push((argument, sizes.to_vec()));
    }

    /// The task is over: what a kernel that is waited for does with [`Kernel::on_end`](cairn_runtime::task::Kernel::on_end).
    pub fn finish(&self, result: &Result<()>) {
        match result {
            Ok(()) => self.is_done.store(true, Ordering::Release),
            Err(error) => self.state.lock().failure = Some(error.clone()),
        }
    }

    /// Why the call failed, if it did.
    pub fn failure(&self) -> Option<Error> {
        match self.is_done.load(Ordering::Acquire) {
            true => None,
            false => self.state.lock().failure.clone(),
        }
    }

    /// Waits for the call, submitted to `stream` under the number `seq`, and for no other task: gives the sizes
    /// that its values decided, or why it failed. What else failed on the stream is left for synchronize.
    pub fn wait(&self, stream: &Arc<Stream>, name: &str, seq: u64) -> Result<Vec<DecidedSizes>> {
        stream.wait_for_task(name, seq)?;
        if self.is_done.load(Ordering::Acquire) {
            return Ok(std::mem::take(&mut self.state.lock().sizes));
        }
        let failure = self.failure().or_else(|| stream.spec.context_failure.failure().cloned());
        Err(failure.unwrap_or_else(|| {
            let text = format!("{name} was dropped: stream {} was aborted", stream.index);
            Error::new(Code::StreamAbort, text)
        }))
    }
}
