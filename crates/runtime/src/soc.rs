//! Properties of the Ascend chips (SoCs) that Cairn stands in for, and how they round sizes.

use std::sync::atomic::{AtomicU32, Ordering};

/// Overflow saturates.
pub const SATURATE: u32 = 0;
/// Overflow gives infinities and NaN: the default of every chip here.
pub const SATURATE_INF_NAN: u32 = 1;

static OVERFLOW_MODE: AtomicU32 = AtomicU32::new(SATURATE_INF_NAN);

/// How this process treats overflow of floating point numbers.
pub fn overflow_mode() -> u32 {
    OVERFLOW_MODE.load(Ordering::Relaxed)
}

/// Sets how this process treats overflow of floating point numbers: on all devices, before and after any
/// is opened.
pub fn set_overflow_mode(mode: u32) {
    OVERFLOW_MODE.store(mode, Ordering::Relaxed);
}

/// Sizes of memory are rounded up to this; and this much comes after them, for kernels that read beyond the end.
const PADDING: u64 = 32;

/// A size as allocations round it: a multiple of 32. `None` if there is no such number.
pub fn rounded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(PADDING)
}

/// A size as `aclrtMalloc` and outputs of static graphs are padded: a multiple of 32, and 32 more. `None` if there is no such number.
pub fn padded(bytes: u64) -> Option<u64> {
    rounded(bytes)?.checked_add(PADDING)
}

/// Bytes that are asked of an allocator for a tensor of this many bytes on the named chip, by an operator as by a graph: padded, or on chips
/// whose kernels do not read beyond the end only rounded, and never 0.
pub fn padded_tensor_bytes(name: &str, bytes: u64) -> Option<u64> {
    match name.starts_with("Ascend950") {
        true => Some(rounded(bytes)?.max(PADDING)),
        false => padded(bytes),
    }
}

/// Workspaces of nodes are rounded up to this.
const WORKSPACE: u64 = 512;

/// Bytes that are asked for as the workspace of a node of a dynamic graph: a multiple of 512. `None` if there is no
/// such number.
pub fn padded_workspace_bytes(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(WORKSPACE)
}

/// Whether the overflow status of a chip is written to an address that is in memory, not to the one that is given.
pub fn overflow_status_is_behind_a_pointer(name: &str) -> bool {
    name.starts_with("Ascend910B") || name.starts_with("Ascend910_93")
}

/// The properties of a chip that programs ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Matrix cores.
    pub cubes: i64,
    /// Vector cores.
    pub vectors: i64,
    /// Control processors.
    pub aicpus: i64,
    /// Bytes of the L2 cache.
    pub l2: i64,
    /// Bytes of the unified buffer of a vector core.
    pub buffer: i64,
    /// The architecture number.
    pub arch: i64,
}

/// The properties of the named chip, by the family that its name begins with.
pub fn chip(name: &str) -> Chip {
    const MIB: i64 = 1 << 20;
    let families: [(&str, Chip); 8] = [
        (
            "Ascend910_93",
            Chip {
                cubes: 24,
                vectors: 48,
                aicpus: 6,
                l2: 192 * MIB,
                buffer: 192 << 10,
                arch: 2201,
            },
        ),
        (
            "Ascend910B4",
            Chip { cubes: 20, vectors: 40, aicpus: 6, l2: 96 * MIB, buffer: 192 << 10, arch: 2201 },
        ),
        (
            "Ascend910B3",
            Chip {
                cubes: 20,
                vectors: 40,
                aicpus: 6,
                l2: 192 * MIB,
                buffer: 192 << 10,
                arch: 2201,
            },
        ),
        (
            "Ascend910B",
            Chip {
                cubes: 24,
                vectors: 48,
                aicpus: 6,
                l2: 192 * MIB,
                buffer: 192 << 10,
                arch: 2201,
            },
        ),
        (
            "Ascend910",
            Chip {
                cubes: 32,
                vectors: 32,
                aicpus: 14,
                l2: 32 * MIB,
                buffer: 256 << 10,
                arch: 1001,
            },
        ),
        (
            "Ascend950",
            Chip {
                cubes: 32,
                vectors: 64,
                aicpus: 6,
                l2: 128 * MIB,
                buffer: 248 << 10,
                arch: 3510,
            },
        ),
        (
            "Ascend310P",
            Chip { cubes: 8, vectors: 7, aicpus: 4, l2: 16 * MIB, buffer: 256 << 10, arch: 2002 },
        ),
        (
            "Ascend310B",
            Chip { cubes: 1, vectors: 1, aicpus: 3, l2: 4 * MIB, buffer: 256 << 10, arch: 3002 },
        ),
    ];
    let family = families.iter().find(|(prefix, _)| name.starts_with(prefix));
    family.map_or(families[3].1, |(_, chip)| *chip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_padded_as_on_the_chip() {
        for (bytes, padded) in [(0, 32), (1, 64), (32, 64), (33, 96), (1 << 20, (1 << 20) + 32)] {
            assert_eq!(padded_tensor_bytes("Ascend910B1", bytes), Some(padded));
        }
        assert_eq!(padded_tensor_bytes("Ascend950", 33), Some(64));
        assert_eq!(padded_tensor_bytes("Ascend950", 0), Some(32));
        assert_eq!(padded_tensor_bytes("Ascend910B1", u64::MAX), None);
        assert_eq!(
            [0, 1, 512, 513].map(padded_workspace_bytes),
            [Some(0), Some(512), Some(512), Some(1024)]
        );
    }
}
