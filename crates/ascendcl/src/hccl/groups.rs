//! Groups: between start and end, operators and creations of a thread are noted.

use super::door::{entry, write};
use cairn_comm::group;

entry! {
    /// Begins a group.
    fn HcclGroupStart() {
        group::start();
        Ok(())
    }

    /// Ends the innermost group; the outermost does what was noted.
    fn HcclGroupEnd() {
        group::end()
    }

    /// Whether the calling thread is in a group.
    fn HcclGroupStatusGet(is_active: *mut bool) {
        // SAFETY: null or valid for writes of a flag.
        unsafe { write(is_active, "isGroupEnabled", group::is_active()) }
    }
}
