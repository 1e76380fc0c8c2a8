//! A stream-ordered pool of memory that it never touches: offsets, clocks and figures only.

pub mod clock;
mod figures;
pub mod index;
mod progress;
pub mod tlsf;

pub use figures::{Figures, Owner};
pub use progress::{Backing, Progress};
pub use tlsf::GRANULE;
