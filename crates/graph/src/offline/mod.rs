//! Models without a session: built once, kept in a file, loaded and run by `aclmdl*`.
//!
//! ```text
//! convert::read, build                     a model of somebody's, with options as texts
//! OfflineModel::build(graph, options)      a graph, and what is decided about its inputs
//!     BuildOptions::aipp                   images that the model prepares itself: `aipp/`
//!     .into_file() / ::read(bytes)         the file (.om): `container.rs` its parts, `description.rs` inputs and outputs, `weights.rs` constants,
//!                                          `external.rs` those in files of their own; `source.rs` is where bytes come from, `pieces.rs` how they are
//!                                          written without being copied before
//!     .compile() -> CompiledModel          an executable for each gear
//!         .load(target, id, memory)        memory of the device
//!             .run(target, gear, ..)       everything is submitted when it returns
//! ```

mod aipp;
mod build;
mod container;
mod convert;
mod description;
mod external;
mod file;
mod gears;
mod inspect;
mod load;
mod options;
mod pieces;
mod source;
mod weights;

pub use aipp::{
    Aipp, AippError, AippInfo, AippParameters, ColorConversion, Crop, ImageFormat, Padding,
};
pub use build::{BuildOptions, CompiledModel, OfflineModel};
pub use convert::{ConvertError, ConvertOptions, Origin};
pub use description::{Description, Port};
pub use external::{WEIGHT_FOLDER, WeightFile, WeightPlacement};
pub use gears::Gears;
pub use inspect::{ModelFile, graph_json};
pub use load::{LoadedModel, ModelMemory};
pub use options::{OptionError, ShapeOptions};
pub use pieces::Pieces;
pub use source::ModelBytes;
