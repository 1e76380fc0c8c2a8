//! Sessions: graphs by id, from added to loaded, and their runs, with options, variables and callbacks. What compiles,
//! loads and runs is [`crate::executable`].

mod engine;
mod entry;
mod loaded;
mod option_table;
mod options;
mod output;
mod queue;
mod running;
mod variables;

pub use crate::executable::RunTensor;
pub use engine::{Engine, Session};
pub use entry::{Base, Entry, SharedGraph};
pub use loaded::LoadedGraph;
pub use option_table::Level;
pub use options::{DeviceOption, Options};
pub use output::{OutputBlock, SessionOutput};
pub use running::RunMode;
