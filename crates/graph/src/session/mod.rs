//! Sessions: graphs by id, from added to loaded, and their runs.

mod compiled;
mod engine;
mod entry;
mod loaded;
mod options;
mod running;
mod tensor;
mod variables;

pub use compiled::{Compiled, Kind};
pub use engine::{Engine, Session};
pub use entry::{Base, Entry, SharedGraph};
pub use options::Options;
pub use running::How;
pub use tensor::{Held, Out, RunTensor};
pub use variables::Asked;
