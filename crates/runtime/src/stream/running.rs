//! Running a stream: its tasks in order, by whoever owns it.

use super::{Blocking, IDLE, READY, RUNNING, Stream};
use crate::clock::Epoch;
use crate::error::{Code, Error, Result};
use crate::host;
use crate::lock::MutexGuard;
use crate::memory::raw::TaskMemory;
use crate::memory::writers;
use crate::record::event::Outcome;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, now_ns};
use crate::task::{Body, HostFunction, Kernel, Task};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How long a stream may keep a worker while others are ready.
const TIME_SLICE_NS: u64 = 500_000;

impl Stream {
    /// Runs tasks of a claimed stream until it is empty, parks, has finished `until`, or has had its
    /// time slice while others are ready.
    pub(crate) fn run(self: &Arc<Stream>, until: Option<u64>, blocking: Blocking) {
        self.shared.progress.while_running(|| self.run_tasks(until, blocking));
    }

    fn run_tasks(self: &Arc<Stream>, until: Option<u64>, blocking: Blocking) {
        let start_ns = now_ns();
        let mut batch = self.batch.lock();
        loop {
            let finished = self.shared.progress.finished(self.index);
            if until.is_some_and(|seq| finished >= seq) || self.has_used_time_slice(start_ns) {
                drop(batch);
                self.yield_turn();
                return;
            }
            if batch.is_empty() {
                std::mem::swap(&mut *batch, &mut self.submit.lock().pending);
            }
            if batch.is_empty() {
                self.state.store(IDLE, Ordering::SeqCst);
                if self.shared.progress.submitted(self.index) == finished
                    || !self.transition(IDLE, RUNNING)
                {
                    return;
                }
                continue;
            }
            if !self.step(&mut batch, finished + 1, blocking) {
                return;
            }
        }
    }

    fn has_used_time_slice(&self, start_ns: u64) -> bool {
        self.shared.scheduler.has_ready() && now_ns() - start_ns > TIME_SLICE_NS
    }

    /// Gives up a claimed stream: idle if all is done, else ready.
    pub(super) fn yield_turn(self: &Arc<Stream>) {
        if self.is_idle() {
            self.state.store(IDLE, Ordering::SeqCst);
            if self.is_idle() || !self.transition(IDLE, READY) {
                return;
            }
        } else {
            self.state.store(READY, Ordering::SeqCst);
        }
        self.shared.scheduler.push(self.clone());
    }

    /// Runs the first task of the batch; false when the stream is not the caller's any more.
    fn step(
        self: &Arc<Stream>,
        batch: &mut MutexGuard<'_, VecDeque<Task>>,
        seq: u64,
        blocking: Blocking,
    ) -> bool {
        let is_dropped = self.is_dropped(seq);
        let front = batch.front().expect("the caller saw a task");
        if is_dropped {
            match &front.body {
                Body::Record(capture) => capture.complete(),
                Body::Wait(wait) => {
                    self.timed_out.store(false, Ordering::SeqCst);
                    wait.waits.end_one();
                }
                _ => {}
            }
            let task = batch.pop_front().expect("the caller saw a task");
            self.end_task(seq, task.name, Some(&task), 0, Outcome::Dropped);
            return true;
        }
        let start = self.emit_start(front, seq);
        let result = match &front.body {
            Body::Record(capture) => {
                capture.complete();
                Ok(())
            }
            Body::Wait(wait) => {
                if self.timed_out.swap(false, Ordering::SeqCst) {
                    self.shared.progress.break_order();
                    wait.waits.end_one();
                    Err(self.timeout_error(wait))
                } else if self.gives_up_on(wait) {
                    self.shared.progress.break_order();
                    wait.waits.end_one();
                    Err(self.given_up_error())
                } else if wait.capture.park(self, seq) {
                    self.register_parked_wait(wait, seq);
                    return false;
                } else {
                    wait.waits.end_one();
                    Ok(())
                }
            }
            Body::Host(call) => {
                let (name, call) = (front.name, call.clone());
                self.set_parked();
                batch.pop_front();
                let stream = self.clone();
                self.shared.host_threads.run(move |has_thread| {
                    let on_exit = || {
                        let text = format!("{name}: the host function ended its thread");
                        stream.finish(seq, name, None, start, Err(Error::new(Code::Internal, text)));
                        stream.clone().unpark();
                    };
                    let result = match has_thread {
                        true => stream.call_host(name, &*call, &on_exit),
                        false => Err(Error::new(
                            Code::RtInternal,
                            format!("{name}: no thread can be had for the host function; is `ulimit -u` reached?"),
                        )),
                    };
                    stream.finish(seq, name, None, start, result);
                    stream.unpark();
                });
                return false;
            }
            Body::Exchange(_) if blocking == Blocking::Parks => {
                self.set_parked();
                self.hand_over(front, seq, start);
                return false;
            }
            Body::Nothing => Ok(()),
            Body::Copy | Body::Fill(_) | Body::Work(_) | Body::Kernel(_) | Body::Exchange(_) => {
                self.perform(front, seq)
            }
        };
        let task = batch.pop_front().expect("the caller saw a task");
        self.finish(seq, task.name, Some(&task), start, result);
        true
    }

    /// Runs an exchange, the first task of the batch of this parked stream, on a thread of its own.
    fn hand_over(self: &Arc<Stream>, task: &Task, seq: u64, start: u64) {
        let (name, stream) = (task.name, self.clone());
        let (reads, writes) = (task.reads.clone(), task.writes.clone());
        let Body::Exchange(kernel) = &task.body else {
            unreachable!("only exchanges are handed over")
        };
        let body = Body::Exchange(kernel.clone());
        self.shared.exchange_threads.run(move |has_thread| {
            let task = Task { name, reads, writes, body };
            let result = match has_thread {
                true => stream.perform(&task, seq),
                false => Err(Error::new(
                    Code::RtInternal,
                    format!("{name}: no thread can be had to wait for other ranks; is `ulimit -u` reached?"),
                )),
            };
            let queued = stream.batch.lock().pop_front();
            stream.finish(seq, name, queued.as_ref(), start, result);
            stream.unpark();
        });
    }

    /// Checks what an operator touches, and runs it.
    fn compute(&self, task: &Task, seq: u64, kernel: &dyn Kernel) -> Result<()> {
        let epoch = Epoch { stream: self.index, seq };
        let memory = &self.shared.memory;
        let view =
            memory.view(task, Some(epoch), |purpose, index| kernel.argument(purpose, index))?;
        let (reads, writes) = (view.places(&task.reads), view.places(&task.writes));
        let (reads, writes) =
            (reads.as_ref().unwrap_or(&task.reads), writes.as_ref().unwrap_or(&task.writes));
        let (scheduler, status) = (&self.shared.scheduler, &self.shared.overflow);
        let overflowed = self.overflow.flag(status);
        // SAFETY: every range was found mapped and long enough just now, and stays mapped while the view lives.
        let task_memory =
            unsafe { TaskMemory::new(reads, writes, scheduler, overflowed, status.flag()) };
        kernel.run(&task_memory)
    }

    /// Runs a copy, a fill, a function of the runtime or a kernel; a panic in it becomes a failed task.
    fn perform(&self, task: &Task, seq: u64) -> Result<()> {
        match task.body {
            Body::Exchange(_) => writers::write_long(|| self.perform_here(task, seq)),
            _ => writers::write(|| self.perform_here(task, seq)),
        }
    }

    fn perform_here(&self, task: &Task, seq: u64) -> Result<()> {
        let run = || match &task.body {
            Body::Work(work) => host::in_task(Epoch { stream: self.index, seq }, || work.run()),
            Body::Kernel(kernel) | Body::Exchange(kernel) => self.compute(task, seq, &**kernel),
            _ => self.shared.memory.perform_as(task, Some(Epoch { stream: self.index, seq })),
        };
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let error = Error::internal(&*panic);
            Err(Error { text: format!("{}: {}", task.name, error.text), ..error })
        });
        let (Body::Kernel(kernel) | Body::Exchange(kernel)) = &task.body else { return result };
        let result = result.map_err(|error| match kernel.failure_prefix() {
            Some(prefix) => Error { text: format!("{prefix}: {}", error.text), ..error },
            None => error,
        });
        kernel.on_end(&result);
        result
    }

    /// Calls a host function on this thread.
    fn call_host(
        &self,
        name: &'static str,
        call: &dyn HostFunction,
        on_exit: &dyn Fn(),
    ) -> Result<()> {
        if self.shared.exiting() {
            return Err(Error::new(Code::RtInternal, format!("{name}: the process is exiting")));
        }
        host::in_host_function(self.key(), self.spec.context as usize, || {
            call.call(on_exit)
                .map_err(|error| Error { text: format!("{name}: {}", error.text), ..error })
        })
    }

    /// Ends a task that has run, and stores its failure.
    pub(super) fn finish(
        &self,
        seq: u64,
        name: &'static str,
        task: Option<&Task>,
        start: u64,
        result: Result<()>,
    ) {
        let outcome = if result.is_ok() { Outcome::Done } else { Outcome::Failed };
        if let Err(error) = result {
            self.fail(error);
        }
        self.end_task(seq, name, task, start, outcome);
    }

    /// Task `seq` is over: whoever waits for it may go on.
    pub(super) fn end_task(
        &self,
        seq: u64,
        name: &'static str,
        task: Option<&Task>,
        start: u64,
        outcome: Outcome,
    ) {
        self.emit_end(seq, name, task, start, outcome);
        self.shared.progress.set_finished(self.index, seq);
        if seq >= self.awaited.load(Ordering::SeqCst) {
            let guard = self.done_lock.lock();
            self.awaited.store(u64::MAX, Ordering::SeqCst);
            drop(guard);
            self.done.notify_all();
        }
    }
}
