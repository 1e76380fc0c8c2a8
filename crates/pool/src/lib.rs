//! A stream-ordered pool of memory that it never touches: offsets, clocks and figures only.

pub mod clock;
pub mod tlsf;
