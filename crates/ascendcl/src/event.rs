//! Events.

use crate::abi;
use crate::device::limit;
use crate::door::{self, Handle, entry, out_entry, runtime, write};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::event::{Kind, flag};
use std::time::Duration;

fn synchronize(event: Handle, limit: Option<Duration>) -> Result<()> {
    let event = runtime()?.event(event as usize)?;
    match event.synchronize(limit)? {
        true => Ok(()),
        false => Err(Error::new(
            Code::EventSyncTimeout,
            format!("event {} did not complete within {:?}", event.id, limit.unwrap_or_default()),
        )),
    }
}

out_entry! {
    /// A new event that carries a time and can be waited for.
    fn aclrtCreateEvent(event = "event") {
        runtime()?.create_event(Kind::Plain, flag::TIME_LINE | flag::SYNC)
    }

    /// A new event with flags.
    fn aclrtCreateEventWithFlag(event = "event", flags: u32) {
        runtime()?.create_event(Kind::Plain, flags)
    }

    /// A new event with flags, of the kind that is complete until it is recorded.
    fn aclrtCreateEventExWithFlag(event = "event", flags: u32) {
        runtime()?.create_event(Kind::Ex, flags)
    }
}

entry! {
    /// Destroys an event; what was submitted with it goes on.
    fn aclrtDestroyEvent(event: Handle) {
        door::not_null(event, "event")?;
        runtime()?.destroy_event(event as usize)
    }

    /// Records an event at the end of a stream.
    fn aclrtRecordEvent(event: Handle, stream: Handle) {
        let runtime = runtime()?;
        runtime.event(event as usize)?.record(&runtime.stream(stream as usize)?)
    }

    /// Lets a stream wait for an event.
    fn aclrtStreamWaitEvent(stream: Handle, event: Handle) {
        let runtime = runtime()?;
        let event = runtime.event(event as usize)?;
        runtime.wait_event(&runtime.stream(stream as usize)?, &event, None)
    }

    /// The same, not longer than a number of seconds.
    fn aclrtStreamWaitEventWithTimeout(stream: Handle, event: Handle, timeout: i32) {
        let runtime = runtime()?;
        let seconds = match timeout {
            -1 | 0 => 0,
            1.. => timeout as u64,
            _ => return Err(Error::refused(format!("timeout {timeout}: expected seconds, or -1 for ever"))),
        };
        let event = runtime.event(event as usize)?;
        event.wait_as("aclrtStreamWaitEventWithTimeout", &runtime.stream(stream as usize)?, Duration::from_secs(seconds))
    }

    /// Returns an event to the state before it was recorded.
    fn aclrtResetEvent(event: Handle, stream: Handle) {
        let runtime = runtime()?;
        runtime.event(event as usize)?.reset(&runtime.stream(stream as usize)?)
    }

    /// Whether an event is complete, as the deprecated `aclrtEventStatus`.
    fn aclrtQueryEvent(event: Handle, status: *mut abi::aclrtEventStatus) {
        let event = runtime()?.event(event as usize)?;
        event.require_plain("aclrtQueryEvent")?;
        let answer = if event.is_complete()? { abi::ACL_EVENT_STATUS_COMPLETE } else { abi::ACL_EVENT_STATUS_NOT_READY };
        // SAFETY: null or valid for writes of the status.
        unsafe { write(status, "status", answer) }
    }

    /// Whether an event is complete.
    fn aclrtQueryEventStatus(event: Handle, status: *mut abi::aclrtEventRecordedStatus) {
        let answer = match runtime()?.event(event as usize)?.is_complete()? {
            true => abi::ACL_EVENT_RECORDED_STATUS_COMPLETE,
            false => abi::ACL_EVENT_RECORDED_STATUS_NOT_READY,
        };
        // SAFETY: null or valid for writes of the status.
        unsafe { write(status, "status", answer) }
    }

    /// Whether every wait for an event has passed.
    fn aclrtQueryEventWaitStatus(event: Handle, status: *mut abi::aclrtEventWaitStatus) {
        let event = runtime()?.event(event as usize)?;
        event.require_plain("aclrtQueryEventWaitStatus")?;
        let answer = match event.waits_passed() {
            true => abi::ACL_EVENT_WAIT_STATUS_COMPLETE,
            false => abi::ACL_EVENT_WAIT_STATUS_NOT_READY,
        };
        // SAFETY: null or valid for writes of the status.
        unsafe { write(status, "status", answer) }
    }

    /// Waits for an event.
    fn aclrtSynchronizeEvent(event: Handle) {
        synchronize(event, None)
    }

    /// Waits for an event, not longer than the limit.
    fn aclrtSynchronizeEventWithTimeout(event: Handle, timeout: i32) {
        synchronize(event, limit(timeout)?)
    }

    /// Milliseconds between two events.
    fn aclrtEventElapsedTime(ms: *mut f32, start: Handle, end: Handle) {
        door::not_null(ms, "ms")?;
        let runtime = runtime()?;
        let start = runtime.event_named("startEvent", start as usize)?.time_ns()?;
        let end = runtime.event_named("endEvent", end as usize)?.time_ns()?;
        if end < start {
            return Err(Error::new(
                Code::EventTimestampReversal,
                format!("the end event was recorded {} ns before the start event", start - end),
            ));
        }
        // SAFETY: not null; valid for writes of the time.
        unsafe { write(ms, "ms", ((end - start) as f64 / 1e6) as f32) }
    }

    /// When an event was recorded, in microseconds of the monotonic clock.
    fn aclrtEventGetTimestamp(event: Handle, timestamp: *mut u64) {
        door::not_null(timestamp, "timestamp")?;
        let time = runtime()?.event(event as usize)?.time_ns()? / 1000;
        // SAFETY: not null; valid for writes of the time.
        unsafe { write(timestamp, "timestamp", time) }
    }

    /// The number of an event.
    fn aclrtGetEventId(event: Handle, id: *mut u32) {
        // SAFETY: null or valid for writes of the id.
        unsafe { write(id, "eventId", runtime()?.event(event as usize)?.id) }
    }

    /// How many more events there may be.
    fn aclrtGetEventAvailNum(count: *mut u32) {
        door::not_null(count, "eventCount")?;
        let runtime = runtime()?;
        runtime.current_context()?;
        // SAFETY: not null; valid for writes of the count.
        unsafe { write(count, "eventCount", runtime.events_left()) }
    }
}
