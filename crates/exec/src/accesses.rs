//! Which bytes a planned call touches, with sizes and strides.

use cairn_ops::{AccessMode, Use};
use cairn_runtime::record::{Access, Mode};

/// The mode that events record for an access.
pub fn mode(access: AccessMode) -> Mode {
    match (access.reads, access.writes) {
        (true, false) => Mode::Read,
        (false, _) => Mode::Write,
        (true, true) => Mode::ReadWrite,
    }
}

/// What a call touches of one of its tensors, whose first byte is at `address` when it runs.
pub fn access(one: &Use, address: usize) -> Access {
    let mode = mode(one.access);
    if one.is_dense() {
        let range = Access::range(address, one.bytes as u64, mode);
        return Access { indexed: one.indexed, ..range };
    }
    let layout = one.layout();
    let item = layout.item() as isize;
    let dims = layout.dims().iter().zip(layout.strides());
    Access {
        address: address.wrapping_add_signed(layout.offset * item),
        element: item as u64,
        dims: dims.map(|(size, stride)| (*size as u64, (stride * item) as i64)).collect(),
        mode,
        indexed: one.indexed,
    }
}
