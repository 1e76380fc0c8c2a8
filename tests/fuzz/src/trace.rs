//! Bytes as a plain trace of requests for memory.

use cairn_record::trace::{Request, Trace};

/// Reads the bytes as a trace, if they are text.
///
/// # Panics
/// When a trace that is written and read again differs, frees what is not live, or an error names no line of the text.
pub fn trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Trace::parse(text) {
        Ok(trace) => {
            assert_eq!(Trace::parse(&trace.to_string()).as_ref(), Ok(&trace), "{text:?}");
            check(&trace);
        }
        Err(error) => {
            assert!((1..=text.lines().count()).contains(&error.line), "{text:?}: {error}");
            assert!(!error.reason.is_empty());
        }
    }
}

/// Blocks are numbered in their order, and each is freed at most once, while it is live.
fn check(trace: &Trace) {
    let (mut live, mut total, mut peak) = (Vec::new(), 0u64, 0);
    for request in trace.requests() {
        match *request {
            Request::Take { block, bytes, .. } => {
                assert_eq!(block, live.len());
                live.push(Some(bytes));
                total = total.checked_add(bytes).expect("a trace says no more");
                peak = peak.max(total);
            }
            Request::Free { block, .. } => total -= live[block].take().expect("it is live"),
        }
    }
    assert_eq!((live.len(), peak), (trace.blocks(), trace.peak_live()));
}
