//! What a compiled graph reports about itself.

use super::abi::*;
use super::door::{engine, object, owned, plain, release};
use super::value::show_desc;
use cairn_graph::executable::Executable;
use std::ffi::c_void;
use std::sync::Arc;

/// What a handle of a summary names.
struct Summary {
    compiled: Arc<Executable>,
    /// Pairs of an input and an output that share memory, one after the other.
    shared: Vec<i64>,
}

plain! {
    /// The summary of a graph that is compiled.
    fn CairnSessionSummary(session: u64, id: u32) -> *mut CairnSummary, else std::ptr::null_mut(), {
        let compiled = engine().session(session)?.graph(id)?.compiled()?;
        let pairs = compiled.reuse.iter();
        let shared = pairs.flat_map(|(input, output)| [*input as i64, *output as i64]).collect();
        Ok(owned(Summary { compiled, shared }))
    }

    /// Destroys the handle.
    fn CairnSummaryRelease(summary: *mut CairnSummary) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<Summary, _>(summary) };
        Ok(())
    }

    /// Whether all sizes are known.
    fn CairnSummaryStatic(summary: *const CairnSummary) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<Summary, _>(summary, "summary") }?.compiled.is_static())
    }

    /// Whether feature memory may change from run to run.
    fn CairnSummaryRefreshable(summary: *const CairnSummary) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<Summary, _>(summary, "summary") }?.compiled.is_refreshable)
    }

    /// A size.
    fn CairnSummarySize(summary: *const CairnSummary, which: CairnSize, size: *mut usize) -> bool, else false, {
        // SAFETY: the caller's handle is live, and it passes a pointer to a number.
        let (summary, size) = unsafe { (object::<Summary, _>(summary, "summary")?, size.as_mut()) };
        let compiled = &summary.compiled;
        let found = match (which, compiled.is_static()) {
            (CAIRN_SIZE_CONST, true) => compiled.reported_const_bytes(),
            (CAIRN_SIZE_FEATURE, true) => compiled.reported_feature_bytes(),
            (CAIRN_SIZE_FIXED, _) => compiled.fixed_bytes(),
            (CAIRN_SIZE_REFRESHABLE, true) => compiled.reported_refreshable_bytes(),
            (CAIRN_SIZE_STREAMS, true) => 1,
            (CAIRN_SIZE_EVENTS, true) => 0,
            _ => return Ok(false),
        };
        if let Some(size) = size {
            *size = found as usize;
        }
        Ok(true)
    }

    /// The number of outputs.
    fn CairnSummaryOutputs(summary: *const CairnSummary) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { object::<Summary, _>(summary, "summary") }?.compiled.outputs.len())
    }

    /// Shows what an output is.
    fn CairnSummaryOutput(summary: *const CairnSummary, index: usize, context: *mut c_void, callback: CairnDescCallback) {
        // SAFETY: the caller's handle is live.
        let summary = unsafe { object::<Summary, _>(summary, "summary") }?;
        if let Some(desc) = summary.compiled.outputs.get(index) {
            // SAFETY: the caller's function takes the context.
            unsafe { show_desc(callback, context, desc) };
        }
        Ok(())
    }

    /// Pairs of indices that share memory.
    fn CairnSummaryShared(summary: *const CairnSummary, pairs: *mut *const i64) -> usize, else 0, {
        // SAFETY: the caller's handle is live, and it passes a pointer to an address.
        let (summary, pairs) = unsafe { (object::<Summary, _>(summary, "summary")?, pairs.as_mut()) };
        if let Some(pairs) = pairs {
            *pairs = summary.shared.as_ptr();
        }
        Ok(summary.shared.len() / 2)
    }
}
