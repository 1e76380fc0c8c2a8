//! Why an allocator is called, for code that asks inside the call.

use crate::abi::{Entry, cairnAllocationClass, cairnAllocationReason};
use crate::door;
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
    let found = current().zip(unsafe { out.as_mut() });
    let is_known = found.map(|(reason, out)| *out = reason).is_some();
    door::count(Entry::cairnGetAllocationReason, usize::from(!is_known));
    is_known
}

/// What memory is for that is asked of an allocator on this thread.
fn current() -> Option<cairnAllocationReason> {
    let reason = reason().filter(|reason| reason.purpose != Purpose::User)?;
    Some(cairnAllocationReason {
        memoryClass: reason.purpose as cairnAllocationClass,
        graphId: reason.owner.graph.unwrap_or(NO_GRAPH),
        operatorName: reason.owner.operator.map_or(std::ptr::null(), c_name),
    })
}
const _: crate::abi::signature::cairnGetAllocationReason = cairnGetAllocationReason;
