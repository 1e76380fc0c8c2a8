//! The tests of `src/saturation.rs`: the library has no test build of its own.
#![allow(dead_code, reason = "the library uses more of this file than its tests do")]

/// What the file uses of the library.
mod plan {
    pub use cairn_ops::Use;
}
#[path = "../src/saturation.rs"]
mod saturation;
