//! aclmdl: compiled models, loaded, described and run.
//!
//! ```text
//! file, memory (source.rs) ──> OfflineModel ──> load (load.rs) ──> the table of loaded models (table.rs)
//! a data set (dataset.rs) with its gear (gear.rs) ──> Run (run.rs) ──> LoadedModel::run
//! ```
//!
//! A description (description.rs) is a copy of the inputs and outputs of a model, and outlives it. A run reads data sets,
//! buffers and descriptions inside the call: they may be destroyed at once. The door holds no lock while a run is
//! submitted, during which a user's allocator may be called.

mod aipp;
mod aipp_info;
mod attribute;
mod bundle;
mod config;
mod dataset;
mod description;
mod execute;
mod gear;
mod getters;
mod load;
mod op_desc;
mod output;
mod run;
mod source;
mod streams;
mod table;

pub use table::unload_all;
