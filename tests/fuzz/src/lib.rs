//! Fuzz targets: a function for each, which panics when something is wrong.
//!
//! `targets/` has a program for each, in which libFuzzer searches for inputs that reach new code;
//! `cargo xtask deep` builds and runs them. `corpus/` has a few inputs that together reach the code that is
//! known to be reachable; `tests/corpus.rs` passes them to the same functions in every run of the tests.

mod aipp;
mod ge_model;
mod meeting;
mod om;
mod onnx;
mod operations;
mod record;
mod shapes;
mod spec;
mod trace;

#[path = "../../../crates/pool/tests/model/mod.rs"]
pub mod model;

pub use aipp::aipp;
pub use ge_model::ge_model;
pub use meeting::meeting;
pub use om::om;
pub use onnx::onnx;
pub use operations::{Operations, pool};
pub use record::record;
pub use shapes::shapes;
pub use spec::spec;
pub use trace::trace;
