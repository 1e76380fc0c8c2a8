//! Why an allocator is called, for code that asks inside the call.

use crate::abi::{cairnAllocationClass, cairnAllocationReason};
use cairn_ops::nodes;
use cairn_runtime::memory::external::reason;
use cairn_runtime::memory::purpose::Purpose;
use std::collections::HashMap;
use std::ffi::{CString, c_char};
use std::sync::LazyLock;

/// The names of all operators, each followed by a NUL.
static NAMES: LazyLock<HashMap<&'static str, CString>> = LazyLock::new(|| {
    nodes().keys().filter_map(|name| Some((*name, CString::new(*name).ok()?))).collect()
});

/// The name of an operator as C takes it.
fn c_name(name: &str) -> *const c_char {
    NAMES.get(name).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// `graphId` where memory is for no graph.
const NO_GRAPH: u32 = u32::MAX;

/// Tells what memory is for, to an allocator that is called on this thread.
///
/// # Safety
/// `out` is null or points to writable memory for a reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cairnGetAllocationReason(out: *mut cairnAllocationReason) -> bool {
    // SAFETY: as the caller vouches.
    let (Some(reason), Some(out)) = (reason(), unsafe { out.as_mut() }) else { return false };
    if reason.purpose == Purpose::User {
        return false;
    }
    *out = cairnAllocationReason {
        memoryClass: reason.purpose as cairnAllocationClass,
        graphId: reason.owner.graph.unwrap_or(NO_GRAPH),
        operatorName: reason.owner.operator.map_or(std::ptr::null(), c_name),
    };
    true
}
const _: crate::abi::signature::cairnGetAllocationReason = cairnGetAllocationReason;
