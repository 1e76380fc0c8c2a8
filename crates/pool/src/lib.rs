//! A stream-ordered pool of memory that it never touches: offsets, clocks and figures only.
//!
//! Start reading at [`Pool`]. The runtime puts it over the memory of a device, with the engine's own
//! clock; the plugin puts it over any `libascendcl.so`, with events in place of the clock.

pub mod clock;
mod figures;
pub mod granule_table;
mod lane;
mod lanes;
mod offset_table;
mod piece;
mod pool;
mod progress;
mod quick;
mod starts;
pub mod tlsf;

pub use figures::{Figures, Owner};
pub use pool::{BlockError, Outcome, Pool};
pub use progress::{Progress, SegmentSource, StitchRequest, Stitching};
pub use tlsf::GRANULE;
